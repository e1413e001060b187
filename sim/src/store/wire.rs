//! How requests and replies travel: a length, a number that ties a reply to its request, JSON.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;

use crate::net::READ_AT_MOST;

/// One frame: `number` and `message`.
pub(crate) fn encode(number: u32, message: &impl Serialize) -> Bytes {
    let body = serde_json::to_vec(message).expect("the messages are plain data");
    let mut frame = BytesMut::with_capacity(8 + body.len());
    frame.put_u32(body.len() as u32);
    frame.put_u32(number);
    frame.extend_from_slice(&body);
    frame.freeze()
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub(crate) struct Frames {
    /// What has come and is not a whole frame yet.
    pub(crate) buffer: BytesMut,
}

impl Default for Frames {
    fn default() -> Self {
        // Without room, a read takes no more than 64 bytes.
        Self {
            buffer: BytesMut::with_capacity(READ_AT_MOST),
        }
    }
}

impl Frames {
    /// The next whole frame: its number and its body.
    pub(crate) fn next(&mut self) -> Option<(u32, BytesMut)> {
        let length = u32::from_be_bytes(self.buffer.get(..4)?.try_into().ok()?) as usize;
        if self.buffer.len() < 8 + length {
            return None;
        }
        self.buffer.advance(4);
        let number = self.buffer.get_u32();
        Some((number, self.buffer.split_to(length)))
    }
}
