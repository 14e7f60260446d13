//! Received bytes: the first of them in memory of ours, the others maybe still where the wire has
//! them.
//!
//! Headers are copied before anybody reads them, because whoever writes a ring may change it
//! meanwhile. What a program is to get is only copied, and once is enough.

use crate::memory::{self, Gone, Piece};

/// One received datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram<'a> {
    /// All headers at least.
    pub(crate) head: &'a [u8],
    /// The bytes behind it, which the wire lends as long as `head`.
    rest: Piece,
}

/// The payload of a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    head: &'a [u8],
    rest: Piece,
}

impl<'a> Datagram<'a> {
    #[inline]
    pub(crate) fn new(head: &'a [u8], rest: Piece) -> Self {
        Self { head, rest }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.rest.len
    }

    /// The bytes behind `headers_len` bytes of headers.
    #[inline]
    pub(crate) fn payload(&self, headers_len: usize) -> Payload<'a> {
        Payload { head: &self.head[headers_len..], rest: self.rest }
    }
}

impl<'a> From<&'a [u8]> for Datagram<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes, Piece::default())
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self { head: bytes, rest: Piece::default() }
    }
}

impl<'a> Payload<'a> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.rest.len
    }

    /// The first `N` bytes and those behind them; `None` unless they are memory of ours, as headers
    /// are.
    #[inline]
    pub(crate) fn split_header<const N: usize>(&self) -> Option<(&'a [u8; N], Self)> {
        let (header, head) = self.head.split_first_chunk()?;
        Some((header, Self { head, ..*self }))
    }

    /// All of it, when it is memory of ours.
    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        (self.rest.len == 0).then_some(self.head)
    }

    /// The first `len` bytes, at most all, and those behind them.
    pub(crate) fn split_at(self, len: usize) -> (Self, Self) {
        let Self { head, rest: Piece { addr, len: rest_len } } = self;
        let (first, second) = head.split_at(len.min(head.len()));
        let lent_len = (len - first.len()).min(rest_len);
        let (lent, later) = (
            Piece { addr, len: lent_len },
            Piece { addr: addr + lent_len as u64, len: rest_len - lent_len },
        );
        (Self { head: first, rest: lent }, Self { head: second, rest: later })
    }

    /// Copies all of it to registered memory at `addr`. After [`Gone`] a part of it may be there.
    #[inline]
    pub(crate) fn copy_to(&self, addr: u64) -> Result<(), Gone> {
        if !self.head.is_empty() {
            memory::copy_in(addr, self.head)?;
        }
        if self.rest.len == 0 {
            return Ok(());
        }
        memory::copy_to(addr + self.head.len() as u64, self.rest.addr, self.rest.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(bytes: &[u8]) -> Piece {
        Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() }
    }

    fn copied(payload: Payload<'_>) -> Vec<u8> {
        let mut to = vec![0; payload.len()];
        payload.copy_to(to.as_mut_ptr() as usize as u64).unwrap();
        to
    }

    #[test]
    fn what_is_lent_follows_what_is_ours() {
        let (ours, theirs) = ([1, 2, 3, 4, 5], [6, 7, 8]);
        let datagram = Datagram::new(&ours, lent(&theirs));
        assert_eq!(datagram.len(), 8);
        let payload = datagram.payload(2);
        assert_eq!(copied(payload), [3, 4, 5, 6, 7, 8]);
        let (header, behind) = payload.split_header::<2>().unwrap();
        assert_eq!((header, copied(behind)), (&[3, 4], vec![5, 6, 7, 8]));
        assert!(payload.split_header::<4>().is_none(), "a header is never read where it is lent");
        assert_eq!((payload.bytes(), Payload::from(&ours[..]).bytes()), (None, Some(&ours[..])));
    }

    #[test]
    fn payload_is_cut_anywhere() {
        let (ours, theirs) = ([1, 2, 3], [4, 5, 6]);
        let payload = Datagram::new(&ours, lent(&theirs)).payload(0);
        for at in 0..=6 {
            let (first, second) = payload.split_at(at);
            assert_eq!((first.len(), second.len()), (at, 6 - at));
            assert_eq!([copied(first), copied(second)].concat(), [1, 2, 3, 4, 5, 6]);
        }
        assert_eq!(payload.split_at(7).1.len(), 0);
    }
}
