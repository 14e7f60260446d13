//! The header of calls and replies: their length, the number of the call within its session, and
//! what is asked or answered. The body follows: a key and what belongs to it, or a value.

use super::caller::wrong;
use crate::workload::prelude::*;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 12;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Code {
    /// Call: the value of this key.
    Get = 1,
    /// Call: this is the value of this key from now on.
    Put = 2,
    /// Call: these records.
    Records = 3,
    /// Call: which leaf of the index has this key.
    Find = 4,
    /// Call: this file.
    File = 5,
    /// It grants chunks of the file, or buffers of a partition: how many may be sent in all.
    Grant = 6,
    /// These records follow the log.
    Append = 7,
    /// Be ready to put this record into this row.
    Prepare = 8,
    /// Put it there.
    Commit = 9,
    /// Forget it.
    Abort = 10,
    /// Send so many bytes.
    Go = 11,
    /// Send no more.
    Stop = 12,
    /// A part of what one rank has for another; the number is the operation.
    Part = 13,
    /// Nothing more comes than so many buffers of a partition, with so many tuples.
    Last = 14,
    /// Reply: it is done; what was asked for follows.
    Done = 16,
    /// Reply: there is no such key.
    Missing = 17,
    /// Reply: the call arrived damaged.
    Damaged = 18,
    /// A part of a file or of a flow, or a buffer of tuples; the number is its place.
    Chunk = 19,
    /// Reply: the records are in the log.
    Appended = 20,
    /// Reply: prepared.
    Yes = 21,
    /// Reply: another transaction holds the row; nothing is prepared.
    No = 22,
    /// Reply: committed, or forgotten.
    Ended = 23,
}

impl Code {
    const ALL: [Self; 22] = [
        Self::Get,
        Self::Put,
        Self::Records,
        Self::Find,
        Self::File,
        Self::Grant,
        Self::Append,
        Self::Prepare,
        Self::Commit,
        Self::Abort,
        Self::Go,
        Self::Stop,
        Self::Part,
        Self::Last,
        Self::Done,
        Self::Missing,
        Self::Damaged,
        Self::Chunk,
        Self::Appended,
        Self::Yes,
        Self::No,
        Self::Ended,
    ];
}

/// The header that a message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) len_bytes: usize,
    pub(super) call: u32,
    pub(super) code: Code,
}

impl Header {
    /// Writes it to the front of `message`, which is longer.
    #[inline]
    pub(super) fn write(self, message: &mut [u8]) {
        let len_bytes = u32::try_from(self.len_bytes).unwrap_or(u32::MAX);
        message[..4].copy_from_slice(&len_bytes.to_le_bytes());
        message[4..8].copy_from_slice(&self.call.to_le_bytes());
        message[8..HEADER_BYTES].copy_from_slice(&u32::from(self.code as u8).to_le_bytes());
    }

    /// Reads that of a message; `None` if it is damaged, or not as long as it says.
    #[inline]
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let word =
            |at: usize| message.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let (len_bytes, call, code) = (word(0)? as usize, word(4)?, word(8)?);
        let code = Code::ALL.into_iter().find(|known| u32::from(*known as u8) == code)?;
        (len_bytes == message.len()).then_some(Self { len_bytes, call, code })
    }

    /// Reads that of a reply that says that all is well; answers the body, too.
    #[inline]
    pub(super) fn of_reply(message: &[u8]) -> Result<(Self, &[u8]), Failure> {
        let header = Self::read(message).ok_or_else(|| wrong("is damaged"))?;
        match header.code {
            Code::Done => Ok((header, &message[HEADER_BYTES..])),
            Code::Missing => Err(wrong("knows no such key")),
            Code::Damaged => Err(wrong("says that the call arrived damaged")),
            _ => Err(wrong("is a call itself")),
        }
    }
}

/// Sends a short message; answers its length, or `None` when the fabric is full.
pub(super) fn post<B: Backend>(
    link: &mut Link<B>,
    call: u32,
    code: Code,
    body: &[u8],
) -> Result<Option<usize>, Failure> {
    let Some(slot) = link.next_tx() else { return Ok(None) };
    let len_bytes = HEADER_BYTES + body.len();
    let message = link.payload_mut(slot)?;
    Header { len_bytes, call, code }.write(message);
    message[HEADER_BYTES..len_bytes].copy_from_slice(body);
    Ok(link.try_message(len_bytes, false)?.then_some(len_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_and_damage_is_noticed() {
        let header = Header { len_bytes: 20, call: 0x0102_0304, code: Code::Missing };
        let mut message = [0; 20];
        header.write(&mut message);
        assert_eq!(Header::read(&message), Some(header));
        for len_bytes in 0..20 {
            assert_eq!(Header::read(&message[..len_bytes]), None, "{len_bytes}");
        }
        for byte in [0, 3, 8, 11] {
            message[byte] ^= 0x40;
            assert_eq!(Header::read(&message), None, "byte {byte}");
            message[byte] ^= 0x40;
        }
    }
}
