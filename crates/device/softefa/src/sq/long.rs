//! Work requests with more entries, or more inline bytes, than an EFA takes.

use crate::memory::Piece;
use crate::mr::Sge;

/// The storage stays with its slot, so that later work requests allocate nothing.
#[derive(Debug, Default)]
pub(super) struct Long {
    pub(super) pieces: Vec<Piece>,
    pub(super) lkeys: Vec<u32>,
    inline: Vec<u8>,
}

impl Long {
    pub(super) fn take_sges(&mut self, sges: &[Sge]) {
        self.pieces.clear();
        self.pieces.extend(sges.iter().map(|sge| Piece { addr: sge.addr, len: sge.len as usize }));
        self.lkeys.clear();
        self.lkeys.extend(sges.iter().map(|sge| sge.lkey));
    }

    pub(super) fn take_inline(&mut self, parts: &[&[u8]]) {
        self.inline.clear();
        parts.iter().for_each(|part| self.inline.extend_from_slice(part));
        let (addr, len) = (self.inline.as_ptr() as usize as u64, self.inline.len());
        self.pieces.clear();
        self.pieces.push(Piece { addr, len });
    }
}

/// Iterates over the pieces of a part of a message.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    pieces: std::slice::Iter<'a, Piece>,
    /// The bytes before the part.
    skip: usize,
    /// The bytes of the part that are left.
    left: usize,
}

impl<'a> Part<'a> {
    /// Iterates over `len` bytes from `offset` on, or fewer if the message is shorter.
    pub(super) fn new(pieces: &'a [Piece], offset: u32, len: u32) -> Self {
        Self { pieces: pieces.iter(), skip: offset as usize, left: len as usize }
    }
}

impl Iterator for Part<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        while self.left > 0 {
            let piece = self.pieces.next()?;
            if self.skip >= piece.len {
                self.skip -= piece.len;
                continue;
            }
            let len = (piece.len - self.skip).min(self.left);
            let addr = piece.addr + self.skip as u64;
            (self.skip, self.left) = (0, self.left - len);
            return Some(Piece { addr, len });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_out_of_any_pieces() {
        let pieces = [(100, 3), (200, 0), (300, 5), (400, 2)];
        let pieces = pieces.map(|(addr, len)| Piece { addr, len });
        let bytes = |part: Part<'_>| -> Vec<u64> {
            part.flat_map(|piece| piece.addr..piece.addr + piece.len as u64).collect()
        };
        let all = bytes(Part::new(&pieces, 0, 10));
        assert_eq!(all, [100, 101, 102, 300, 301, 302, 303, 304, 400, 401]);
        for offset in 0..=10 {
            for len in 0..=10 - offset {
                let part = bytes(Part::new(&pieces, offset, len));
                assert_eq!(part, all[offset as usize..(offset + len) as usize]);
            }
        }
        assert_eq!(bytes(Part::new(&pieces, 8, 100)), [400, 401]);
    }
}
