//! What a server answers, before it is written in either protocol version.

use bytes::Bytes;

use super::connection::Protocol;

/// One reply to one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A short text such as `OK`.
    Status(Bytes),
    /// An error, its code first: `ERR syntax error`.
    Error(Bytes),
    /// A signed 64-bit number.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Bytes),
    /// Nothing: a key that is not there, a condition that did not hold.
    Null,
    /// As [`Self::Null`], but in RESP2 the null array instead of the null string: what EXEC and
    /// the commands that pop several items answer.
    NullArray,
    /// Several replies in order.
    Array(Vec<Reply>),
    /// A message that nobody asked for, and the answers to SUBSCRIBE and its kin; an array in RESP2.
    Push(Vec<Reply>),
    /// Several replies one after another, each on its own: one request may have more than one
    /// answer, or a message before its answer.
    Sequence(Vec<Reply>),
    /// A reply that is written in this version of the protocol, whatever the connection speaks by now.
    In {
        /// The version.
        protocol: Protocol,
        /// The reply.
        reply: Box<Reply>,
    },
    /// None yet: the connection waits, and its answer will come as a message.
    Blocked,
    /// Pairs; a flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Several replies without order; an array in RESP2.
    Set(Vec<Reply>),
    /// Truth; 1 or 0 in RESP2.
    Bool(bool),
    /// A floating point number; a bulk string in RESP2.
    Double(f64),
    /// An integer of any size in decimal; a bulk string in RESP2.
    BigNumber(Bytes),
    /// A text with a three-letter format; a bulk string in RESP2.
    Verbatim {
        /// `txt` or `mkd`.
        format: Bytes,
        /// The text itself.
        text: Bytes,
    },
    /// `OK`, after which the server closes the connection: the answer to `QUIT`.
    Close,
}

impl Reply {
    /// The reply of a command that has nothing else to say.
    pub const OK: Self = Self::Status(Bytes::from_static(b"OK"));

    pub(crate) const ONE: Self = Self::Integer(1);
    pub(crate) const ZERO: Self = Self::Integer(0);
    pub(crate) const SYNTAX_ERROR: Self = Self::fixed_error("ERR syntax error");
    pub(crate) const NOT_AN_INTEGER: Self =
        Self::fixed_error("ERR value is not an integer or out of range");

    pub(crate) const NOT_A_FLOAT: Self = Self::fixed_error("ERR value is not a valid float");
    pub(crate) const WRONG_TYPE: Self =
        Self::fixed_error("WRONGTYPE Operation against a key holding the wrong kind of value");

    /// A length or a count.
    pub(crate) fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// A string, or nothing.
    pub(crate) fn maybe(bytes: Option<Bytes>) -> Self {
        bytes.map_or(Self::Null, Self::Bulk)
    }

    pub(crate) const fn status(text: &'static str) -> Self {
        Self::Status(Bytes::from_static(text.as_bytes()))
    }

    pub(crate) const fn bulk(text: &'static str) -> Self {
        Self::Bulk(Bytes::from_static(text.as_bytes()))
    }

    pub(crate) const fn fixed_error(text: &'static str) -> Self {
        Self::Error(Bytes::from_static(text.as_bytes()))
    }

    /// An error whose text comes partly from a client. A line break would end the reply early and
    /// let the rest be read as another one, so it becomes a space.
    pub(crate) fn error(text: impl Into<Vec<u8>>) -> Self {
        Self::Error(one_line(text.into()))
    }

    /// Whether this is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// `text` up to its first zero byte: Redis prints errors and statuses with C, where it is the end.
pub(crate) fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// `text` up to its first zero byte, with its line breaks turned into spaces.
pub(crate) fn one_line(mut text: Vec<u8>) -> Bytes {
    text.truncate(until_nul(&text).len());
    unbroken(text)
}

/// `text` with its line breaks turned into spaces.
pub(crate) fn unbroken(mut text: Vec<u8>) -> Bytes {
    for byte in &mut text {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    Bytes::from(text)
}
