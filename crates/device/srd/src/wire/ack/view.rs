//! Received acknowledgement blocks.

use super::{DropRange, ECHOES_MAX, EchoRepr, RANGES_MAX, RETRY_BIT, SACK_WORDS_MAX, field};
use crate::wire::take;
use crate::{DropReason, PSN_WINDOW, PathId, Psn, Status};

/// A received acknowledgement block whose lengths have been checked.
#[derive(Clone, Copy, Debug)]
pub struct AckView<'a> {
    fixed: &'a [u8; field::END],
    /// SACK words, ranges and echoes; most blocks have none.
    lists: &'a [u8],
}

impl<'a> AckView<'a> {
    /// Checks the block at the start of `bytes`.
    ///
    /// # Errors
    /// [`DropReason::Short`], or [`DropReason::Malformed`] for counts or offsets out of range.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DropReason> {
        let (fixed, rest) = bytes.split_first_chunk().ok_or(DropReason::Short)?;
        let view = Self { fixed, lists: &[] };
        if [fixed[field::WORDS], fixed[field::RANGES], fixed[field::ECHOES]] != [0; 3] {
            return view.with_lists(rest);
        }
        if u32::from(view.sack_offset()) >= PSN_WINDOW {
            return Err(DropReason::Malformed);
        }
        Ok(view)
    }

    fn with_lists(self, rest: &'a [u8]) -> Result<Self, DropReason> {
        let (words_len, ranges_len) = (self.words_len(), self.ranges_len());
        let echoes_len = usize::from(self.fixed[field::ECHOES]);
        if words_len > SACK_WORDS_MAX
            || ranges_len > RANGES_MAX
            || echoes_len > ECHOES_MAX
            || ranges_len + echoes_len > RANGES_MAX
        {
            return Err(DropReason::Malformed);
        }
        let len = words_len * 8 + ranges_len * DropRange::LEN + echoes_len * EchoRepr::LEN;
        let lists = rest.get(..len).ok_or(DropReason::Short)?;
        let view = Self { lists, ..self };
        if u32::from(view.sack_offset()) >= PSN_WINDOW {
            return Err(DropReason::Malformed);
        }
        if view.has_good_ranges() { Ok(view) } else { Err(DropReason::Malformed) }
    }

    /// Returns whether the ranges of each kind are in order, so that no number costs its reader
    /// more than one lookup per kind.
    fn has_good_ranges(&self) -> bool {
        let mut ends = [None; 2];
        self.ranges().all(|range| {
            let end: Option<Psn> = ends[usize::from(range.retry)].replace(range.end());
            let is_in_order = end.is_none_or(|end| range.psn.ahead_of(end) >= 0);
            is_in_order && (1..=PSN_WINDOW).contains(&u32::from(range.count))
        })
    }

    /// Returns whether there are no SACK words, ranges or echoes.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.lists.is_empty()
    }

    fn words_len(&self) -> usize {
        usize::from(self.fixed[field::WORDS])
    }

    fn ranges_len(&self) -> usize {
        usize::from(self.fixed[field::RANGES])
    }

    /// Returns the lists behind the SACK words.
    fn behind_words(&self) -> &'a [u8] {
        &self.lists[self.words_len() * 8..]
    }

    /// Returns the length of the block in bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a block is never empty")]
    pub fn len(&self) -> usize {
        field::END + self.lists.len()
    }

    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes(take(self.fixed, at))
    }

    #[inline]
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(take(self.fixed, at))
    }

    #[inline]
    fn u64_at(&self, at: usize) -> u64 {
        u64::from_be_bytes(take(self.fixed, at))
    }

    /// See [`super::AckRepr::conn`].
    #[inline]
    #[must_use]
    pub fn conn(&self) -> u64 {
        self.u64_at(field::CONN)
    }

    /// See [`super::AckRepr::cum`].
    #[inline]
    #[must_use]
    pub fn cum(&self) -> Psn {
        Psn(self.u32_at(field::CUM))
    }

    /// See [`super::AckRepr::ref_psn`].
    #[inline]
    #[must_use]
    pub fn ref_psn(&self) -> Psn {
        Psn(self.u32_at(field::REF_PSN))
    }

    /// See [`super::AckRepr::ref_path`].
    #[inline]
    #[must_use]
    pub fn ref_path(&self) -> PathId {
        PathId(self.u16_at(field::REF_PATH))
    }

    /// See [`super::AckRepr::echo_ts`].
    #[inline]
    #[must_use]
    pub fn echo_ts(&self) -> u32 {
        self.u32_at(field::ECHO)
    }

    /// See [`super::AckRepr::rx_ts`].
    #[inline]
    #[must_use]
    pub fn rx_ts(&self) -> u32 {
        self.u32_at(field::RX_TS)
    }

    /// Returns the packet that arrived last, as an echo like the earlier ones.
    #[inline]
    #[must_use]
    pub fn echo(&self) -> EchoRepr {
        EchoRepr {
            path: self.ref_path(),
            rx_delay: self.u16_at(field::RX_DELAY),
            echo_ts: self.echo_ts(),
        }
    }

    /// See [`super::AckRepr::rcvd_bytes`].
    #[inline]
    #[must_use]
    pub fn rcvd_bytes(&self) -> u64 {
        self.u64_at(field::RCVD)
    }

    /// See [`super::AckRepr::hint`].
    #[inline]
    #[must_use]
    pub fn hint(&self) -> u16 {
        self.u16_at(field::HINT)
    }

    /// See [`super::AckRepr::features`].
    #[inline]
    #[must_use]
    pub fn features(&self) -> u8 {
        self.fixed[field::FEATURES]
    }

    /// See [`super::AckRepr::sack_offset`].
    #[inline]
    #[must_use]
    pub fn sack_offset(&self) -> u16 {
        self.u16_at(field::SACK_OFF)
    }

    /// Returns the SACK words, each with the number of its lowest bit.
    pub fn words(&self) -> impl Iterator<Item = (Psn, u64)> + 'a {
        let base = self.cum().plus(u32::from(self.sack_offset()));
        let psns = (0..).map(move |i: u32| base.plus(i * 64));
        let words = &self.lists[..self.words_len() * 8];
        psns.zip(words.chunks_exact(8).map(|w| u64::from_be_bytes(take(w, 0))))
    }

    /// Returns the latest packets of other paths since the last acknowledgement, in the order of
    /// arrival.
    pub fn echoes(&self) -> impl Iterator<Item = EchoRepr> + 'a {
        let echoes = &self.behind_words()[self.ranges_len() * DropRange::LEN..];
        echoes.chunks_exact(EchoRepr::LEN).map(|e| EchoRepr {
            path: PathId(u16::from_be_bytes(take(e, 0))),
            rx_delay: u16::from_be_bytes(take(e, 2)),
            echo_ts: u32::from_be_bytes(take(e, 4)),
        })
    }

    /// Returns the drop ranges.
    pub fn ranges(&self) -> impl Iterator<Item = DropRange> + 'a {
        let ranges = &self.behind_words()[..self.ranges_len() * DropRange::LEN];
        ranges.chunks_exact(DropRange::LEN).map(|r| DropRange {
            psn: Psn(u32::from_be_bytes(take(r, 0))),
            count: u16::from_be_bytes(take(r, 4)),
            status: Status::from_wire(r[6] & !RETRY_BIT),
            retry: r[6] & RETRY_BIT != 0,
        })
    }
}
