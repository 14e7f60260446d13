//! The header of calls and replies: the length of the message, the number of the call within its
//! session, and what is asked or answered. The body follows: a key and its data, or a value.

use super::caller::wrong;
use crate::workload::prelude::*;

/// The length of a header in bytes.
pub(super) const HEADER_BYTES: usize = 12;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Code {
    /// Call: return the value of this key.
    Get = 1,
    /// Call: set the value of this key.
    Put = 2,
    /// Call: take these records.
    Records = 3,
    /// Call: return the leaf of the index that has this key.
    Find = 4,
    /// Call: send this file.
    File = 5,
    /// Grant: the total number of chunks of the file, or of buffers of a partition, that may be
    /// sent.
    Grant = 6,
    /// Call: append these records to the log.
    Append = 7,
    /// Call: be ready to put this record into this row.
    Prepare = 8,
    /// Call: put the prepared record into its row.
    Commit = 9,
    /// Call: forget the prepared record.
    Abort = 10,
    /// Call: send this many bytes.
    Go = 11,
    /// Call: send no more.
    Stop = 12,
    /// A part of the data that one rank has for another one; the number is that of the operation.
    Part = 13,
    /// The end of a partition: the numbers of all its buffers and tuples.
    Last = 14,
    /// Reply: the call is done; its result follows.
    Done = 16,
    /// Reply: there is no such key.
    Missing = 17,
    /// Reply: the call arrived damaged.
    Damaged = 18,
    /// A part of a file or of a flow, or a buffer of tuples; the number is that of its place.
    Chunk = 19,
    /// Reply: the records are in the log.
    Appended = 20,
    /// Reply: the record is prepared.
    Yes = 21,
    /// Reply: another transaction holds the row, and nothing is prepared.
    No = 22,
    /// Reply: the record is committed, or forgotten.
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

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) len_bytes: usize,
    pub(super) call: u32,
    pub(super) code: Code,
}

impl Header {
    /// Writes the header to the front of `message`, which is longer.
    #[inline]
    pub(super) fn write(self, message: &mut [u8]) {
        let len_bytes = u32::try_from(self.len_bytes).unwrap_or(u32::MAX);
        message[..4].copy_from_slice(&len_bytes.to_le_bytes());
        message[4..8].copy_from_slice(&self.call.to_le_bytes());
        message[8..HEADER_BYTES].copy_from_slice(&u32::from(self.code as u8).to_le_bytes());
    }

    /// Reads the header of a message; `None` if it is damaged, or the message has another length.
    #[inline]
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let word =
            |at: usize| message.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let (len_bytes, call, code) = (word(0)? as usize, word(4)?, word(8)?);
        let code = Code::ALL.into_iter().find(|known| u32::from(*known as u8) == code)?;
        (len_bytes == message.len()).then_some(Self { len_bytes, call, code })
    }

    /// Reads the header of a reply that reports success. Returns the body, too.
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

/// Sends a short message. Returns its length; `None` if the fabric is full.
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
