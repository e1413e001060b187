//! What a key can hold.
//!
//! A collection is shared between the database and the record of changes, so every write copies
//! it once: what locks keep is short. Its members are searched one by one for the same reason. Only
//! lists, which queues and benchmarks make long, share all that a write leaves as it was.
//!
//! Order is what a script can observe of a small collection in Redis: fields of a hash stand in the
//! order of their first writing, members of a set of integers by value. A larger collection loses
//! its order in Redis (beyond 128 fields, or a field or value of more than 64 bytes); here it does not.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use imbl::Vector;

use super::numbers::{format_double, parse_integer};

/// The value of a key. Closed: a new type of value must be considered by every command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Any bytes, numbers included.
    String(Bytes),
    /// Items in order.
    List(Arc<List>),
    /// Fields with a value each.
    Hash(Arc<Hash>),
    /// Members without order.
    Set(Arc<Set>),
    /// Members with a score each, ordered by it.
    Sorted(Arc<Sorted>),
}

impl Value {
    /// The name of its type, as `TYPE` answers.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::Sorted(_) => "zset",
        }
    }

    /// As text, for histories: a string as it is; a hash as `field=value,field=value`; a sorted
    /// set as `member=score,member=score`; a list or a set as `item,item`. A comma, an equals sign
    /// or a backslash within a part has a backslash before it. [`parts`] takes it apart again.
    #[must_use]
    pub fn to_text(&self) -> String {
        let text = |bytes: &Bytes| escaped(bytes);
        let pair = |name: &Bytes, value: &[u8]| format!("{}={}", escaped(name), escaped(value));
        let parts: Vec<_> = match self {
            Self::String(bytes) => return String::from_utf8_lossy(bytes).into_owned(),
            Self::List(list) => list.items().map(text).collect(),
            Self::Set(set) => set.members().map(text).collect(),
            Self::Hash(hash) => hash
                .fields()
                .map(|(field, value)| pair(field, value))
                .collect(),
            Self::Sorted(sorted) => sorted
                .members()
                .map(|(member, score)| pair(member, format_double(score).as_bytes()))
                .collect(),
        };
        parts.join(",")
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for letter in String::from_utf8_lossy(bytes).chars() {
        if matches!(letter, ',' | '=' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Takes apart what [`Value::to_text`] wrote of a hash or a sorted set: each name with its value. An
/// item without a value, such as those of a list, gets an empty one.
#[must_use]
pub fn parts(text: &str) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    let (mut name, mut value, mut named) = (String::new(), String::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let to = if named { &mut value } else { &mut name };
        match letter {
            '\\' => to.extend(letters.next()),
            '=' if !named => named = true,
            ',' => {
                parts.push((std::mem::take(&mut name), std::mem::take(&mut value)));
                named = false;
            }
            other => to.push(other),
        }
    }
    parts.push((name, value));
    parts
}

/// A type of value that has members and is gone when it has none.
pub(crate) trait Collection: Clone + Default {
    fn of(value: &Value) -> Option<&Arc<Self>>;
    fn wrap(this: Arc<Self>) -> Value;
    fn len(&self) -> usize;
}

macro_rules! collection {
    ($name:ident, $members:ident) => {
        impl Collection for $name {
            fn of(value: &Value) -> Option<&Arc<Self>> {
                match value {
                    Value::$name(this) => Some(this),
                    _ => None,
                }
            }

            fn wrap(this: Arc<Self>) -> Value {
                Value::$name(this)
            }

            fn len(&self) -> usize {
                self.$members.len()
            }
        }
    };
}

collection!(List, items);
collection!(Hash, fields);
collection!(Set, members);
collection!(Sorted, members);

/// Items in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// From left to right.
    pub(crate) items: Vector<Bytes>,
}

impl List {
    /// The items from left to right.
    pub fn items(&self) -> impl Iterator<Item = &Bytes> {
        self.items.iter()
    }
}

/// Fields with a value each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// In the order of their first writing.
    pub(crate) fields: Vec<(Bytes, Bytes)>,
}

impl Hash {
    /// The fields with their values, in the order of their first writing.
    pub fn fields(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.fields.iter().map(|(field, value)| (field, value))
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Bytes> {
        let found = self.fields.iter().find(|(name, _)| name == field)?;
        Some(&found.1)
    }

    /// Says whether the field is new.
    pub(crate) fn set(&mut self, field: &Bytes, value: Bytes) -> bool {
        match self.fields.iter_mut().find(|(name, _)| name == field) {
            Some((_, old)) => {
                *old = value;
                false
            }
            None => {
                self.fields.push((field.clone(), value));
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let found = self.fields.iter().position(|(name, _)| name == field);
        found.map(|index| self.fields.remove(index)).is_some()
    }
}

/// Members without order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub(crate) members: Vec<Bytes>,
    /// All are integers so far, and ordered by value.
    pub(crate) integers: bool,
}

impl Default for Set {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            integers: true,
        }
    }
}

impl Set {
    /// How many integers Redis keeps ordered: `set-max-intset-entries`.
    const ORDERED: usize = 512;

    /// The members.
    pub fn members(&self) -> impl Iterator<Item = &Bytes> {
        self.members.iter()
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        self.members.iter().any(|other| other == member)
    }

    pub(crate) fn insert(&mut self, member: &Bytes) -> bool {
        if self.contains(member) {
            return false;
        }
        let number = parse_integer(member).filter(|_| self.integers);
        let place = match number {
            Some(number) => self
                .members
                .partition_point(|other| parse_integer(other).is_some_and(|other| other < number)),
            None => self.members.len(),
        };
        self.members.insert(place, member.clone());
        self.integers = number.is_some() && self.members.len() <= Self::ORDERED;
        true
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let found = self.members.iter().position(|other| other == member);
        found.map(|index| self.members.remove(index)).is_some()
    }
}

/// Members with a score each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted {
    /// Ordered by score, then by the bytes of the member.
    pub(crate) members: Vec<(f64, Bytes)>,
}

/// No score is ever NaN: commands refuse it.
impl Eq for Sorted {}

impl Sorted {
    /// The members with their scores, the lowest first.
    pub fn members(&self) -> impl Iterator<Item = (&Bytes, f64)> {
        self.members.iter().map(|(score, member)| (member, *score))
    }

    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.members.iter().position(|(_, other)| other == member)
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.rank(member).map(|rank| self.members[rank].0)
    }

    pub(crate) fn set(&mut self, member: &Bytes, score: f64) {
        self.remove(member);
        // A compact sorted set keeps whole numbers as integers, of which no zero is negative.
        let score = score + 0.0;
        let before = |(other_score, other): &(f64, Bytes)| {
            let by_score = other_score.partial_cmp(&score).unwrap_or(Ordering::Equal);
            by_score.then_with(|| other.cmp(member)) == Ordering::Less
        };
        let place = self.members.partition_point(before);
        self.members.insert(place, (score, member.clone()));
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let rank = self.rank(member);
        rank.map(|rank| self.members.remove(rank)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_hash_can_be_taken_apart() {
        let mut hash = Hash::default();
        hash.set(&"a=b".into(), "1,2".into());
        hash.set(&"uuid:7".into(), "2".into());
        let text = Value::Hash(Arc::new(hash)).to_text();
        assert_eq!(text, r"a\=b=1\,2,uuid:7=2");
        let expected = [("a=b", "1,2"), ("uuid:7", "2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parts(&text), expected);
    }

    #[test]
    fn integers_of_a_set_are_ordered_until_something_else_joins() {
        let mut set = Set::default();
        for member in ["10", "-3", "2"] {
            assert!(set.insert(&member.into()));
        }
        assert_eq!(set.members, ["-3", "2", "10"]);
        set.insert(&"x".into());
        set.insert(&"1".into());
        assert_eq!(set.members, ["-3", "2", "10", "x", "1"]);
    }

    #[test]
    fn scores_that_are_equal_leave_it_to_the_bytes() {
        let mut sorted = Sorted::default();
        for (member, score) in [("b", 1.0), ("a", 1.0), ("c", f64::NEG_INFINITY), ("a", 2.0)] {
            sorted.set(&member.into(), score);
        }
        let order: Vec<_> = sorted.members().map(|(member, _)| member).collect();
        assert_eq!(order, ["c", "b", "a"]);
    }
}
