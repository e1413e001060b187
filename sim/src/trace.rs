//! By what two plays of one run are compared.
//!
//! Every event of a run is folded into its [`Fingerprint`]: those of the history, and below them
//! every poll of a task, every timer that fires, and every segment that leaves or arrives. A
//! program that acts by something other than its seed therefore shows where it first does so,
//! which is long before the history tells of it, if that ever does.
//!
//! What is folded has a fixed width and byte order, and the hash (XXH3) has no key, so the
//! fingerprint of a run is the same on every machine. Another version of this crate may fold
//! other things. Engines differ in what they do below the history, and so in their fingerprints: the
//! turmoil engine has no segments that it could see, and folds what its sockets write and read.
//!
//! A [`Trace`] is the list of the same events, in words. It is written only inside of
//! [`traced`]: a fingerprint says that two runs differ, traces say where.
//!
//! Deliberately absent: what never becomes an event. A draw that is not used, or the machine's
//! clock read and thrown away, changes no run.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize, Serializer};
use xxhash_rust::xxh3::Xxh3;

use crate::history::What;
use crate::{Millis, NodeId};

/// Everything that happened in a run, in 64 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint {
    /// How many events were folded.
    pub events: u64,
    /// Into what.
    pub hash: u64,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.hash)
    }
}

/// The hash as sixteen hexadecimal digits: not every reader of JSON keeps 64 bits of a number.
impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Every event of a run, in order.
pub type Trace = Vec<Traced>;

/// One event of a run, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// The world's time.
    pub at: Millis,
    /// Where it happened; nowhere if it is the whole run's.
    pub node: Option<NodeId>,
    /// What kind of event it was. The history's have the names that they have there; the others
    /// are `polled`, `timer`, `sent`, `arrived` and `ended`.
    pub kind: Cow<'static, str>,
    /// The rest of it.
    pub text: String,
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            node,
            kind,
            text,
        } = self;
        write!(f, "{}.{:03} s", at / 1_000, at % 1_000)?;
        if let Some(node) = node {
            write!(f, ", {node}")?;
        }
        write!(f, ": {kind}")?;
        if !text.is_empty() {
            write!(f, " {text}")?;
        }
        Ok(())
    }
}

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// Calls `play` and traces the worlds that it plays on this thread, also those that fail.
pub fn traced<R>(play: impl FnOnce() -> R) -> (R, Trace) {
    /// Ends the tracing, also when `play` panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            TRACE.set(None);
        }
    }
    TRACE.set(Some(Vec::new()));
    let end = End;
    let result = play();
    let trace = TRACE.take().unwrap_or_default();
    drop(end);
    (result, trace)
}

/// What an event can be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// An event of the history.
    Told(&'a What),
    /// A task of the node was polled.
    Polled,
    /// A timer fired that a task of the node waited for.
    Timer,
    /// A segment left the node.
    Sent {
        to: NodeId,
        /// Of TCP, at most eight letters: `SYN`.
        flags: &'static str,
        payload: &'a [u8],
    },
    /// A segment reached the node.
    Arrived {
        from: NodeId,
        flags: &'static str,
        length: usize,
    },
    /// The run was over.
    Ended,
}

/// How much waits for the hash, roughly.
const AT_ONCE: usize = 4_096;

/// What has been folded of a run that is being played.
pub(crate) struct Fold {
    hash: Xxh3,
    /// What the hash has not taken yet: it is quickest with much at once.
    waiting: Vec<u8>,
    events: u64,
    traces: bool,
}

impl Fold {
    pub(crate) fn new() -> Self {
        Self {
            hash: Xxh3::new(),
            waiting: Vec::with_capacity(2 * AT_ONCE),
            events: 0,
            traces: TRACE.with_borrow(Option::is_some),
        }
    }

    pub(crate) fn fold(&mut self, at: Millis, node: Option<NodeId>, step: Step<'_>) {
        self.events += 1;
        let kind: u32 = match step {
            Step::Told(_) => 1,
            Step::Polled => 2,
            Step::Timer => 3,
            Step::Sent { .. } => 4,
            Step::Arrived { .. } => 5,
            Step::Ended => 6,
        };
        let mut head = [0; 16];
        head[..8].copy_from_slice(&at.to_le_bytes());
        head[8..12].copy_from_slice(&node.map_or(0, number).to_le_bytes());
        head[12..].copy_from_slice(&kind.to_le_bytes());
        self.waiting.extend_from_slice(&head);
        match step {
            Step::Told(what) => self.told(what),
            Step::Sent { to, flags, payload } => {
                self.segment(to, flags, payload.len());
                self.waiting.extend_from_slice(payload);
            }
            Step::Arrived {
                from,
                flags,
                length,
            } => self.segment(from, flags, length),
            Step::Polled | Step::Timer | Step::Ended => {}
        }
        if self.waiting.len() >= AT_ONCE {
            self.hash.update(&self.waiting);
            self.waiting.clear();
        }
        if self.traces {
            let traced = in_words(at, node, step);
            TRACE.with_borrow_mut(|trace| trace.get_or_insert_default().push(traced));
        }
    }

    fn told(&mut self, what: &What) {
        let flavor = Appended(&mut self.waiting);
        postcard::serialize_with_flavor(what, flavor).expect("an event has a known length");
    }

    fn segment(&mut self, peer: NodeId, flags: &str, length: usize) {
        let mut head = [0; 20];
        head[..4].copy_from_slice(&number(peer).to_le_bytes());
        head[4..4 + flags.len()].copy_from_slice(flags.as_bytes());
        head[12..].copy_from_slice(&(length as u64).to_le_bytes());
        self.waiting.extend_from_slice(&head);
    }

    /// What has been folded so far.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hash = self.hash.clone();
        hash.update(&self.waiting);
        Fingerprint {
            events: self.events,
            hash: hash.digest(),
        }
    }
}

fn number(node: NodeId) -> u32 {
    match node {
        NodeId::Client(number) => 1 << 16 | u32::from(number),
        NodeId::Lock(number) => 2 << 16 | u32::from(number),
        NodeId::Store => 3 << 16,
        NodeId::Sentinel(number) => 4 << 16 | u32::from(number),
    }
}

/// Takes what postcard writes. Its format is little endian, has no widths that depend on the
/// machine, and is stable.
struct Appended<'a>(&'a mut Vec<u8>);

impl Flavor for Appended<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

fn in_words(at: Millis, node: Option<NodeId>, step: Step<'_>) -> Traced {
    let (kind, text) = match step {
        Step::Told(what) => return told_in_words(at, node, what),
        Step::Polled => ("polled", String::new()),
        Step::Timer => ("timer", String::new()),
        Step::Sent { to, flags, payload } => {
            let mut text = format!("to {to}: {}", segment(flags, payload.len()));
            if !payload.is_empty() {
                text += &format!(", {}", readable(payload));
            }
            ("sent", text)
        }
        Step::Arrived {
            from,
            flags,
            length,
        } => (
            "arrived",
            format!("from {from}: {}", segment(flags, length)),
        ),
        Step::Ended => ("ended", String::new()),
    };
    Traced {
        at,
        node,
        kind: kind.into(),
        text,
    }
}

fn told_in_words(at: Millis, node: Option<NodeId>, what: &What) -> Traced {
    let value = serde_json::to_value(what).expect("an event has string keys alone");
    let serde_json::Value::Object(mut fields) = value else {
        unreachable!("an event is written as an object")
    };
    let kind = match fields.remove("what") {
        Some(serde_json::Value::String(kind)) => kind.into(),
        _ => Cow::Borrowed("?"),
    };
    let fields = fields.iter().map(|(name, value)| format!("{name} {value}"));
    Traced {
        at,
        node,
        kind,
        text: fields.collect::<Vec<_>>().join(", "),
    }
}

fn segment(flags: &str, length: usize) -> String {
    match (flags, length) {
        ("", length) => format!("{length} bytes"),
        (flags, 0) => flags.to_owned(),
        (flags, length) => format!("{flags} with {length} bytes"),
    }
}

/// What a segment carries, on one line. What is too long to show is told apart by its hash.
fn readable(payload: &[u8]) -> String {
    const SHOWN: usize = 400;
    let shown = &payload[..payload.len().min(SHOWN)];
    let mut text = shown.escape_ascii().to_string().replace("\\r\\n", " ");
    if shown.len() < payload.len() {
        let hash = xxhash_rust::xxh3::xxh3_64(payload);
        text += &format!("... ({hash:016x})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(steps: &[(Millis, Option<NodeId>, Step<'_>)]) -> Fingerprint {
        let mut fold = Fold::new();
        for &(at, node, step) in steps {
            fold.fold(at, node, step);
        }
        fold.fingerprint()
    }

    const CLIENT: Option<NodeId> = Some(NodeId::Client(1));

    #[test]
    fn a_fingerprint_is_the_same_on_every_machine() {
        let told = What::Leased {
            key: "lock:1".into(),
            section: 1,
            token: "client-1:0123456789abcdef".into(),
            fence: Some(u64::MAX),
            shared: false,
        };
        let stepped = What::ClockStepped { by: -1 };
        let steps = [
            (0, Some(NodeId::Store), Step::Told(&What::Started)),
            (0, CLIENT, Step::Polled),
            (7, CLIENT, Step::Timer),
            (
                7,
                CLIENT,
                Step::Sent {
                    to: NodeId::Lock(2),
                    flags: "",
                    payload: b"PING\r\n",
                },
            ),
            (
                9,
                Some(NodeId::Lock(2)),
                Step::Arrived {
                    from: NodeId::Client(1),
                    flags: "FIN",
                    length: 6,
                },
            ),
            (1 << 40, CLIENT, Step::Told(&told)),
            (1 << 40, CLIENT, Step::Told(&stepped)),
            (1 << 40, None, Step::Ended),
        ];
        // Pinned: a value that differs on some machine, or after an update of a dependency,
        // means that fingerprints can no longer be compared. One that differs because other
        // things are folded may be written down anew.
        let fingerprint = folded(&steps);
        assert_eq!(
            (fingerprint.events, fingerprint.to_string().as_str()),
            (8, "ce6cd63e63ebd092")
        );
    }

    #[test]
    fn whatever_differs_in_an_event_differs_in_the_fingerprint() {
        let sent = |to, flags, payload| Step::Sent { to, flags, payload };
        let (one, two) = (NodeId::Lock(1), NodeId::Lock(2));
        let all = [
            folded(&[]),
            folded(&[(1, CLIENT, Step::Polled)]),
            folded(&[(2, CLIENT, Step::Polled)]),
            folded(&[(1, Some(NodeId::Client(2)), Step::Polled)]),
            folded(&[(1, Some(NodeId::Lock(1)), Step::Polled)]),
            folded(&[(1, None, Step::Polled)]),
            folded(&[(1, CLIENT, Step::Timer)]),
            folded(&[(1, CLIENT, Step::Polled), (1, CLIENT, Step::Polled)]),
            folded(&[(1, CLIENT, sent(one, "", b""))]),
            folded(&[(1, CLIENT, sent(two, "", b""))]),
            folded(&[(1, CLIENT, sent(one, "FIN", b""))]),
            folded(&[(1, CLIENT, sent(one, "", b"a"))]),
            folded(&[(1, CLIENT, sent(one, "", b"b"))]),
            folded(&[(1, CLIENT, Step::Told(&What::Resumed))]),
            folded(&[(1, CLIENT, Step::Told(&What::Paused { lasts: 1 }))]),
            folded(&[(1, CLIENT, Step::Told(&What::Paused { lasts: 2 }))]),
        ];
        let different = std::collections::BTreeSet::from(all);
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn a_trace_says_what_an_event_was() {
        let ((), trace) = traced(|| {
            let payload = b"*2\r\n$3\r\nGET\r\n$6\r\nlock:1\r\n";
            let sent = Step::Sent {
                to: NodeId::Lock(1),
                flags: "",
                payload,
            };
            let arrived = Step::Arrived {
                from: NodeId::Client(1),
                flags: "SYN",
                length: 0,
            };
            let mut fold = Fold::new();
            fold.fold(7, CLIENT, Step::Polled);
            fold.fold(12_034, CLIENT, sent);
            fold.fold(12_036, Some(NodeId::Lock(1)), arrived);
            fold.fold(
                12_036,
                CLIENT,
                Step::Told(&What::NoticedLoss { section: 2 }),
            );
            fold.fold(13_000, None, Step::Ended);
        });
        let lines: Vec<_> = trace.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "0.007 s, client-1: polled",
                "12.034 s, client-1: sent to lock-1: 25 bytes, *2 $3 GET $6 lock:1 ",
                "12.036 s, lock-1: arrived from client-1: SYN",
                "12.036 s, client-1: noticed-loss section 2",
                "13.000 s: ended",
            ]
        );
    }

    #[test]
    fn long_payloads_that_differ_behind_what_is_shown_differ_in_words_too() {
        let (mut one, mut other) = (vec![b'x'; 1_000], vec![b'x'; 1_000]);
        (one[999], other[999]) = (b'1', b'2');
        assert_ne!(readable(&one), readable(&other));
    }

    #[test]
    fn nothing_is_traced_unless_asked_for() {
        let ((), trace) = traced(|| Fold::new().fold(1, CLIENT, Step::Polled));
        assert_eq!(trace.len(), 1);
        let mut fold = Fold::new();
        fold.fold(1, CLIENT, Step::Polled);
        let ((), trace) = traced(|| ());
        assert_eq!(trace, []);
    }
}
