//! Keyspace notifications: every change of a key as a message, if `notify-keyspace-events` asks.
//!
//! `expired` is published when a key is deleted, not at its deadline.
//! See <https://redis.io/docs/latest/develop/use/keyspace-notifications/>.

use bytes::Bytes;

use super::commands::Call;
use super::pubsub;
use super::sessions::Sessions;

/// Classes of events, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class(u16);

/// In the order in which `CONFIG GET` writes them.
const LETTERS: [(u8, Class); 13] = [
    (b'g', Class::GENERIC),
    (b'$', Class::STRING),
    (b'l', Class::LIST),
    (b's', Class::SET),
    (b'h', Class::HASH),
    (b'z', Class::SORTED),
    (b'x', Class::EXPIRED),
    (b'e', Class::EVICTED),
    (b't', Class(1 << 8)),
    (b'd', Class(1 << 9)),
    (b'n', Class::NEW),
    (b'K', Class::KEYSPACE),
    (b'E', Class::KEYEVENT),
];

impl Class {
    pub(crate) const GENERIC: Self = Self(1);
    pub(crate) const STRING: Self = Self(1 << 1);
    pub(crate) const LIST: Self = Self(1 << 2);
    pub(crate) const SET: Self = Self(1 << 3);
    pub(crate) const HASH: Self = Self(1 << 4);
    pub(crate) const SORTED: Self = Self(1 << 5);
    pub(crate) const EXPIRED: Self = Self(1 << 6);
    pub(crate) const EVICTED: Self = Self(1 << 7);
    pub(crate) const NEW: Self = Self(1 << 10);
    pub(crate) const MISS: Self = Self(1 << 11);
    const KEYSPACE: Self = Self(1 << 12);
    const KEYEVENT: Self = Self(1 << 13);
    /// What `A` stands for: all but new keys and misses. Streams and modules are among it, and
    /// never happen here.
    const ALL: Self = Self((1 << 10) - 1);

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Nothing if a letter is unknown.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        text.iter().try_fold(Self(0), |classes, letter| {
            let class = match letter {
                b'A' => Self::ALL,
                b'm' => Self::MISS,
                letter => LETTERS.iter().find(|(known, _)| known == letter)?.1,
            };
            Some(Self(classes.0 | class.0))
        })
    }

    pub(crate) fn letters(self) -> String {
        let mut text = String::new();
        let all = self.has(Self::ALL);
        if all {
            text.push('A');
        }
        for (letter, class) in LETTERS {
            let spelt = all && Self::ALL.has(class);
            if self.has(class) && !spelt {
                text.push(char::from(letter));
            }
        }
        if self.has(Self::MISS) {
            text.push('m');
        }
        text
    }
}

/// Publishes an event, to the channel of the key and to that of the event.
pub(crate) fn publish(sessions: &mut Sessions, class: Class, event: &str, db: usize, key: &[u8]) {
    if !sessions.events.has(class) {
        return;
    }
    if sessions.events.has(Class::KEYSPACE) {
        let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
        pubsub::deliver(sessions, &channel.into(), &Bytes::from(event.to_owned()));
    }
    if sessions.events.has(Class::KEYEVENT) {
        let channel = format!("__keyevent@{db}__:{event}");
        pubsub::deliver(sessions, &channel.into(), &Bytes::copy_from_slice(key));
    }
}

impl Call<'_> {
    /// Publishes an event about a key of the selected database.
    pub(crate) fn notify(&mut self, class: Class, event: &str, key: &[u8]) {
        if !self.machine.sessions.events.is_empty() {
            publish(
                &mut self.machine.sessions,
                class,
                event,
                self.connection.db,
                key,
            );
        }
    }
}
