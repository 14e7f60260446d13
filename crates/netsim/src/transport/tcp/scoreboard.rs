//! What a sender knows of its segments: RFC 6675, with whole segments instead of bytes.

use crate::packet::Payload;
use std::collections::VecDeque;

/// So many segments above one were received: it is lost (`DupThresh`).
const DUP_THRESH: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Payload,
    bytes: u32,
    /// The receiver has it, out of order.
    sacked: bool,
    /// Taken for lost.
    lost: bool,
    /// Sent again, since it was taken for lost or at all.
    repeated: bool,
}

impl Entry {
    /// Bytes of it that are thought to be in the network (`SetPipe`).
    fn in_pipe(&self) -> u64 {
        let copies = u64::from(!self.lost) + u64::from(self.repeated);
        if self.sacked { 0 } else { copies * u64::from(self.bytes) }
    }
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) seq: u32,
    pub(super) name: Payload,
    pub(super) bytes: u32,
}

/// Segments are numbered from 0 in the order they were posted; a number is never used again.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// From `una` on: sent ones, then ones that wait.
    segments: VecDeque<Entry>,
    /// First that is not acknowledged.
    una: u32,
    /// First that was never sent (one past `HighData`).
    next: u32,
    /// Retransmissions have come so far (one past `HighRxt`).
    repeat_from: u32,
    /// One past the highest that the receiver has.
    sacked_end: u32,
    /// Below this, what is not received is lost.
    lost_end: u32,
    /// Lost ones that were not sent again.
    lost_waiting: u32,
    /// The last resort of this recovery was used (`RescueRxt`).
    rescued: bool,
    pipe_bytes: u64,
    flight_bytes: u64,
}

impl Scoreboard {
    /// Adds a segment at the end.
    pub(super) fn push(&mut self, name: Payload, bytes: u32) {
        self.segments.push_back(Entry { name, bytes, sacked: false, lost: false, repeated: false });
    }

    /// First segment that is not acknowledged.
    pub(super) fn una(&self) -> u32 {
        self.una
    }

    /// First segment that was never sent.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Bytes thought to be in the network.
    pub(super) fn pipe_bytes(&self) -> u64 {
        self.pipe_bytes
    }

    /// Bytes sent and not acknowledged, received out of order or not (`FlightSize` of RFC 5681).
    pub(super) fn flight_bytes(&self) -> u64 {
        self.flight_bytes
    }

    /// Some segment is lost and was not sent again.
    pub(super) fn has_lost(&self) -> bool {
        self.lost_waiting > 0
    }

    /// Some segment was never sent.
    pub(super) fn has_new(&self) -> bool {
        ((self.next - self.una) as usize) < self.segments.len()
    }

    /// Everything below `ack` has arrived: forgets it, in order. Gives the bytes that are new.
    pub(super) fn acknowledge(&mut self, ack: u32, mut ended: impl FnMut(Payload)) -> u64 {
        let mut bytes = 0;
        while self.una < ack.min(self.next)
            && let Some(entry) = self.segments.pop_front()
        {
            self.pipe_bytes -= entry.in_pipe();
            self.lost_waiting -= u32::from(entry.lost && !entry.repeated && !entry.sacked);
            bytes += u64::from(entry.bytes);
            self.una += 1;
            ended(entry.name);
        }
        self.flight_bytes -= bytes;
        bytes
    }

    /// The receiver has `start..end` out of order.
    pub(super) fn sack(&mut self, start: u32, end: u32) {
        for seq in start.max(self.una)..end.min(self.next) {
            let entry = &mut self.segments[(seq - self.una) as usize];
            if !entry.sacked {
                self.pipe_bytes -= entry.in_pipe();
                self.lost_waiting -= u32::from(entry.lost && !entry.repeated);
                entry.sacked = true;
                self.sacked_end = self.sacked_end.max(seq + 1);
            }
        }
    }

    /// Takes for lost what [`DUP_THRESH`] received segments lie above (`IsLost`).
    pub(super) fn find_lost(&mut self) {
        let floor = self.lost_end.max(self.una);
        let (mut at, mut seen) = (self.sacked_end, 0);
        while seen < DUP_THRESH && at > floor {
            at -= 1;
            seen += u32::from(self.segments[(at - self.una) as usize].sacked);
        }
        if seen == DUP_THRESH {
            self.lose(floor, at);
        }
    }

    /// After a timeout everything that was not received is lost, repetitions too.
    pub(super) fn lose_all(&mut self) {
        let sent = (self.next - self.una) as usize;
        for entry in self.segments.iter_mut().take(sent) {
            (entry.lost, entry.repeated) = (false, false);
        }
        (self.pipe_bytes, self.lost_waiting) = (0, 0);
        let in_pipe = self.segments.iter().take(sent).map(Entry::in_pipe);
        self.pipe_bytes = in_pipe.sum();
        self.lose(self.una, self.next);
        self.begin_recovery();
    }

    fn lose(&mut self, from: u32, to: u32) {
        for seq in from..to {
            let entry = &mut self.segments[(seq - self.una) as usize];
            if !entry.sacked && !entry.lost {
                self.pipe_bytes -= entry.in_pipe();
                entry.lost = true;
                self.pipe_bytes += entry.in_pipe();
                self.lost_waiting += u32::from(!entry.repeated);
            }
        }
        self.lost_end = self.lost_end.max(to);
    }

    /// Retransmissions begin at the first segment again.
    pub(super) fn begin_recovery(&mut self) {
        self.repeat_from = self.una;
        self.rescued = false;
    }

    /// The next segment that was never sent.
    pub(super) fn take_new(&mut self) -> Option<Pick> {
        let pick = self.pick(self.next).filter(|_| self.has_new())?;
        self.next += 1;
        self.pipe_bytes += u64::from(pick.bytes);
        self.flight_bytes += u64::from(pick.bytes);
        Some(pick)
    }

    /// A lost segment, else a new one.
    pub(super) fn take_lost_or_new(&mut self) -> Option<Pick> {
        if self.lost_waiting == 0 {
            return self.take_new();
        }
        let seq = self.find_to_repeat(|entry| entry.lost, self.lost_end)?;
        self.repeat(seq)
    }

    /// The next segment to send during recovery (`NextSeg`): a lost one, else a new one, else one
    /// that may be lost.
    pub(super) fn take_in_recovery(&mut self) -> Option<Pick> {
        if let Some(pick) = self.take_lost_or_new() {
            return Some(pick);
        }
        if let Some(seq) = self.find_to_repeat(|entry| !entry.lost, self.sacked_end) {
            return self.repeat(seq);
        }
        // One last segment per recovery, in case the tail was lost.
        let last = (self.una..self.next).rev().find(|&seq| !self.entry(seq).sacked)?;
        if self.rescued || self.entry(last).repeated {
            return None;
        }
        self.rescued = true;
        let repeat_from = self.repeat_from;
        let pick = self.repeat(last);
        self.repeat_from = repeat_from;
        pick
    }

    fn find_to_repeat(&self, wanted: impl Fn(&Entry) -> bool, end: u32) -> Option<u32> {
        let fits = |seq: &u32| {
            let entry = self.entry(*seq);
            !entry.sacked && !entry.repeated && wanted(entry)
        };
        (self.repeat_from.max(self.una)..end.min(self.next)).find(fits)
    }

    fn repeat(&mut self, seq: u32) -> Option<Pick> {
        let entry = &mut self.segments[(seq - self.una) as usize];
        self.pipe_bytes -= entry.in_pipe();
        self.lost_waiting -= u32::from(entry.lost && !entry.repeated);
        entry.repeated = true;
        self.pipe_bytes += entry.in_pipe();
        self.repeat_from = seq + 1;
        self.pick(seq)
    }

    fn entry(&self, seq: u32) -> &Entry {
        &self.segments[(seq - self.una) as usize]
    }

    fn pick(&self, seq: u32) -> Option<Pick> {
        let entry = self.segments.get((seq - self.una) as usize)?;
        Some(Pick { seq, name: entry.name, bytes: entry.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A board with `segments` of 1,000 bytes, of which the first `sent` are under way.
    fn board(segments: u32, sent: u32) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..segments).for_each(|message| board.push(Payload { flow: 0, message }, 1000));
        (0..sent).for_each(|seq| assert_eq!(board.take_new().unwrap().seq, seq));
        board
    }

    fn take(board: &mut Scoreboard) -> Option<u32> {
        board.take_in_recovery().map(|pick| pick.seq)
    }

    #[test]
    fn acknowledged_segments_end_in_order() {
        let mut board = board(5, 4);
        let mut ended = Vec::new();
        assert_eq!(board.acknowledge(3, |name| ended.push(name.message)), 3000);
        assert_eq!((ended, board.pipe_bytes(), board.flight_bytes()), (vec![0, 1, 2], 1000, 1000));
        assert_eq!(
            board.acknowledge(9, |_| ()),
            1000,
            "what was never sent cannot be acknowledged"
        );
        assert_eq!((board.una(), board.next(), board.has_new()), (4, 4, true));
    }

    #[test]
    fn a_segment_is_lost_when_three_above_it_arrived() {
        let mut board = board(10, 10);
        board.sack(1, 3);
        board.find_lost();
        assert!(!board.has_lost(), "two are reordering");
        board.sack(5, 6);
        board.find_lost();
        assert!(board.has_lost());
        assert_eq!(board.pipe_bytes(), 6000, "10 but 3 received and 1 lost");
        assert_eq!(take(&mut board), Some(0));
        assert_eq!((board.pipe_bytes(), board.has_lost()), (7000, false));
        assert_eq!(take(&mut board), Some(3), "rule 3: it may be lost, and nothing else can go");
        assert_eq!(board.pipe_bytes(), 8000, "counted twice, as RFC 6675 does");
        assert_eq!(take(&mut board), Some(4));
        assert_eq!(take(&mut board), Some(9), "rule 4: the tail, once");
        assert_eq!(take(&mut board), None);
        board.sack(3, 4);
        assert_eq!(board.pipe_bytes(), 8000, "both copies of 3 are gone");
    }

    #[test]
    fn new_segments_go_before_doubtful_ones() {
        let mut board = board(12, 10);
        board.sack(2, 5);
        board.find_lost();
        let order: Vec<_> = std::iter::from_fn(|| take(&mut board)).collect();
        assert_eq!(order, [0, 1, 10, 11, 11], "the last one twice: rule 4");
    }

    #[test]
    fn a_timeout_gives_up_everything_but_what_was_received() {
        let mut board = board(8, 6);
        board.sack(1, 4);
        board.find_lost();
        assert_eq!(take(&mut board), Some(0));
        board.lose_all();
        assert_eq!((board.pipe_bytes(), board.flight_bytes()), (0, 6000));
        let picks = std::iter::from_fn(|| board.take_lost_or_new());
        assert_eq!(picks.map(|pick| pick.seq).collect::<Vec<_>>(), [0, 4, 5, 6, 7]);
        assert_eq!(board.pipe_bytes(), 5000);
        assert_eq!(board.acknowledge(8, |_| ()), 8000);
        assert_eq!((board.pipe_bytes(), board.flight_bytes(), board.has_lost()), (0, 0, false));
    }
}
