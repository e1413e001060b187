//! The wire format: requests in, replies out.
//!
//! Written by hand rather than with a codec crate. A server reads a small corner of the format,
//! arrays of bulk strings and inline commands, and has to answer what breaks it with the texts of
//! Redis, while a codec knows the whole format, no inline commands, and errors of its own. It also
//! starts again at the first byte whenever a request is not complete yet; this decoder goes on
//! where it stopped. Its tests use the codec crate as the other party.
//!
//! Deliberately absent: a limit on a connection's memory; [`Decoder::buffered`] tells how much it is.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::connection::Protocol;
use super::numbers::{format_double, parse_integer};
use super::reply::{Reply, until_nul};

/// The longest line: an inline command, or a length.
const LINE_LIMIT: usize = 64 * 1024;
/// The longest bulk string.
const BULK_LIMIT: i64 = 512 * 1024 * 1024;

/// A request that breaks the format. The server sends it as an error and closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERR Protocol error: {0}")]
pub struct ProtocolError(String);

impl ProtocolError {
    /// The reply to send before closing.
    #[must_use]
    pub fn reply(&self) -> Reply {
        Reply::error(self.to_string())
    }
}

/// Turns the bytes of one connection into requests, however they are cut.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    /// The words of the request being read.
    words: Vec<Bytes>,
    /// How many words it still lacks; 0 between requests.
    missing: usize,
    /// The length of the next word, once its header is read.
    length: Option<usize>,
    /// How many bytes the words take.
    taken: usize,
}

impl Decoder {
    /// A decoder for a connection just accepted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes from the socket.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// How many bytes wait for their request to become complete, or to be asked for. A word counts as
    /// what it takes in memory.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len() + self.taken
    }

    /// The next complete request, which is never empty; nothing if more bytes are needed.
    ///
    /// # Errors
    ///
    /// If what was fed breaks the format. The connection is then of no further use.
    pub fn next_request(&mut self) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        loop {
            if self.missing > 0 {
                return self.finish_array();
            }
            match self.buffer.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(count) = self.header("mbulk count")? else {
                        return Ok(None);
                    };
                    let count = parse_integer(&count)
                        .filter(|count| *count <= i64::from(i32::MAX))
                        .ok_or_else(|| ProtocolError("invalid multibulk length".into()))?;
                    // None, or fewer than none: nothing to do and nothing to answer.
                    self.missing = usize::try_from(count).unwrap_or(0);
                    self.words = Vec::with_capacity(self.missing.min(64));
                }
                Some(_) => match self.inline()? {
                    None => return Ok(None),
                    Some(words) if words.is_empty() => {}
                    Some(words) => return Ok(Some(words)),
                },
            }
        }
    }

    fn finish_array(&mut self) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        while self.missing > 0 {
            let length = match self.length {
                Some(length) => length,
                None => {
                    let Some(length) = self.bulk_length()? else {
                        return Ok(None);
                    };
                    *self.length.insert(length)
                }
            };
            // The two bytes after a word are skipped unread, as Redis does.
            if self.buffer.len() < length + 2 {
                return Ok(None);
            }
            self.words.push(self.buffer.split_to(length).freeze());
            self.taken += length + size_of::<Bytes>();
            self.buffer.advance(2);
            self.length = None;
            self.missing -= 1;
        }
        self.taken = 0;
        Ok(Some(std::mem::take(&mut self.words)))
    }

    fn bulk_length(&mut self) -> Result<Option<usize>, ProtocolError> {
        // The line has to be there before its first byte is judged.
        if !self.buffer.contains(&b'\r') && self.buffer.len() <= LINE_LIMIT {
            return Ok(None);
        }
        match self.buffer.first() {
            Some(b'$') => {}
            Some(other) if self.buffer.contains(&b'\r') => {
                return Err(ProtocolError(format!(
                    "expected '$', got '{}'",
                    char::from(*other)
                )));
            }
            _ => {}
        }
        let Some(length) = self.header("bulk count")? else {
            return Ok(None);
        };
        parse_integer(&length)
            .filter(|length| (0..=BULK_LIMIT).contains(length))
            .and_then(|length| usize::try_from(length).ok())
            .map(Some)
            .ok_or_else(|| ProtocolError("invalid bulk length".into()))
    }

    /// The number of a header line, without its first byte.
    fn header(&mut self, what: &str) -> Result<Option<Bytes>, ProtocolError> {
        let Some(end) = self.buffer.iter().position(|byte| *byte == b'\r') else {
            return if self.buffer.len() > LINE_LIMIT {
                Err(ProtocolError(format!("too big {what} string")))
            } else {
                Ok(None)
            };
        };
        if self.buffer.len() < end + 2 {
            return Ok(None);
        }
        let mut line = self.buffer.split_to(end + 2);
        line.truncate(end);
        line.advance(1);
        Ok(Some(line.freeze()))
    }

    fn inline(&mut self) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else {
            return if self.buffer.len() > LINE_LIMIT {
                Err(ProtocolError("too big inline request".into()))
            } else {
                Ok(None)
            };
        };
        let line = self.buffer.split_to(end + 1);
        let line = line.strip_suffix(b"\r\n").unwrap_or(&line[..end]);
        split_words(line)
            .map(Some)
            .ok_or_else(|| ProtocolError("unbalanced quotes in request".into()))
    }
}

/// Splits an inline command at spaces, quotes respected. Nothing if a quote is left open or is
/// followed by anything but a space.
pub(crate) fn split_words(line: &[u8]) -> Option<Vec<Bytes>> {
    let mut rest = until_nul(line);
    let mut words = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        // A vertical tab is space to C and not to Rust.
        while let [0x0b, after @ ..] = rest {
            rest = after.trim_ascii_start();
        }
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match rest {
                [] => break,
                [byte, ..] if is_space(*byte) => break,
                [quote @ (b'"' | b'\''), after @ ..] => {
                    rest = read_quoted(*quote, after, &mut word)?;
                    if rest.first().is_some_and(|byte| !is_space(*byte)) {
                        return None;
                    }
                    break;
                }
                [byte, after @ ..] => {
                    word.push(*byte);
                    rest = after;
                }
            }
        }
        words.push(Bytes::from(word));
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Reads up to the closing quote and returns what follows it.
fn read_quoted<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match (quote, rest) {
            (_, []) => return None,
            (_, [byte, after @ ..]) if *byte == quote => return Some(after),
            (b'"', [b'\\', b'x', high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| {
                    char::from(byte)
                        .to_digit(16)
                        .and_then(|d| d.try_into().ok())
                };
                let (high, low): (u8, u8) = (digit(*high)?, digit(*low)?);
                word.push(high * 16 + low);
                rest = after;
            }
            (b'"', [b'\\', escaped, after @ ..]) => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = after;
            }
            (b'\'', [b'\\', b'\'', after @ ..]) => {
                word.push(b'\'');
                rest = after;
            }
            (_, [byte, after @ ..]) => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// Writes `reply` to `out`.
pub fn encode(reply: &Reply, protocol: Protocol, out: &mut BytesMut) {
    let resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Status(text) => line(b'+', text, out),
        Reply::Error(text) => line(b'-', text, out),
        Reply::Integer(number) => integer(b':', *number, out),
        Reply::Bulk(bytes) => bulk(b'$', bytes, out),
        Reply::Null if resp3 => out.put_slice(b"_\r\n"),
        Reply::Null => out.put_slice(b"$-1\r\n"),
        Reply::NullArray if resp3 => out.put_slice(b"_\r\n"),
        Reply::NullArray => out.put_slice(b"*-1\r\n"),
        Reply::Array(items) => sequence(b'*', items, protocol, out),
        Reply::Push(items) => sequence(if resp3 { b'>' } else { b'*' }, items, protocol, out),
        Reply::Sequence(items) => items.iter().for_each(|item| encode(item, protocol, out)),
        Reply::In { protocol, reply } => encode(reply, *protocol, out),
        Reply::Blocked => {}
        Reply::Set(items) => sequence(if resp3 { b'~' } else { b'*' }, items, protocol, out),
        Reply::Map(pairs) => {
            if resp3 {
                length(b'%', pairs.len(), out);
            } else {
                length(b'*', pairs.len() * 2, out);
            }
            for (key, value) in pairs {
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
        Reply::Bool(truth) if resp3 => out.put_slice(if *truth { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Bool(truth) => integer(b':', i64::from(*truth), out),
        Reply::Double(number) => {
            let text = format_double(*number);
            if resp3 {
                line(b',', text.as_bytes(), out);
            } else {
                bulk(b'$', text.as_bytes(), out);
            }
        }
        Reply::BigNumber(digits) if resp3 => line(b'(', digits, out),
        Reply::BigNumber(digits) => bulk(b'$', digits, out),
        Reply::Verbatim { format, text } if resp3 => {
            bulk(b'=', &[&**format, b":", &**text].concat(), out);
        }
        Reply::Verbatim { text, .. } => bulk(b'$', text, out),
        Reply::Close => out.put_slice(b"+OK\r\n"),
    }
}

fn line(kind: u8, text: &[u8], out: &mut BytesMut) {
    out.put_u8(kind);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

fn integer(kind: u8, number: i64, out: &mut BytesMut) {
    use std::fmt::Write;
    out.put_u8(kind);
    write!(out, "{number}\r\n").expect("memory grows");
}

fn length(kind: u8, length: usize, out: &mut BytesMut) {
    integer(kind, i64::try_from(length).expect("fits in memory"), out);
}

fn bulk(kind: u8, bytes: &[u8], out: &mut BytesMut) {
    length(kind, bytes.len(), out);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

fn sequence(kind: u8, items: &[Reply], protocol: Protocol, out: &mut BytesMut) {
    length(kind, items.len(), out);
    for item in items {
        encode(item, protocol, out);
    }
}
