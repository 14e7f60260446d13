//! The sender's record of its segments: RFC 6675, with whole segments instead of bytes, and the
//! loss detection by time of RFC 8985.

#[cfg(test)]
mod tests;

use crate::packet::Payload;
use crate::time::Time;
use std::collections::VecDeque;

/// Number of received segments above one after which that one is lost (`DupThresh`).
pub(super) const DUP_THRESH: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Payload,
    bytes: u32,
    /// Time of the last transmission.
    sent_at: Time,
    /// Whether the receiver has it, out of order.
    sacked: bool,
    /// Whether it is taken for lost.
    lost: bool,
    /// Whether it was sent again: since it was taken for lost, or at all.
    repeated: bool,
}

impl Entry {
    /// Returns the bytes of it that are thought to be in the network (`SetPipe`).
    fn in_pipe(&self) -> u64 {
        let copies = u64::from(!self.lost) + u64::from(self.repeated);
        if self.sacked { 0 } else { copies * u64::from(self.bytes) }
    }
}

/// The segment sent last of those that arrived (`RACK.segment`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Newest {
    sent_at: Time,
    seq: u32,
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
    /// Segments from `una` on: sent ones, then ones that wait.
    segments: VecDeque<Entry>,
    /// First segment that is not acknowledged.
    una: u32,
    /// First segment that was never sent (one past `HighData`).
    next: u32,
    /// First segment that this recovery has not sent again (one past `HighRxt`).
    repeat_from: u32,
    /// One past the highest segment that the receiver has.
    sacked_end: u32,
    /// Segment below which everything that is not received is lost.
    lost_end: u32,
    /// Number of lost segments that were not sent again.
    lost_waiting: u32,
    /// Whether the last resort of this recovery was used (`RescueRxt`).
    rescued: bool,
    pipe_bytes: u64,
    flight_bytes: u64,
    /// Number of segments that the receiver has out of order.
    sacked: u32,
    /// Bytes of those segments.
    sacked_bytes: u64,
    newest: Newest,
}

impl Scoreboard {
    /// Adds a segment at the end.
    pub(super) fn push(&mut self, name: Payload, bytes: u32) {
        let sent_at = Time::ZERO;
        let entry = Entry { name, bytes, sent_at, sacked: false, lost: false, repeated: false };
        self.segments.push_back(entry);
    }

    /// Returns the first segment that is not acknowledged.
    pub(super) fn una(&self) -> u32 {
        self.una
    }

    /// Returns the first segment that was never sent.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Returns the bytes thought to be in the network (`pipe` of RFC 6675).
    pub(super) fn pipe_bytes(&self) -> u64 {
        self.pipe_bytes
    }

    /// Returns the bytes sent and not acknowledged, received out of order or not (`FlightSize` of
    /// RFC 5681).
    pub(super) fn flight_bytes(&self) -> u64 {
        self.flight_bytes
    }

    /// Returns the bytes sent that the receiver has not reported as received.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.flight_bytes - self.sacked_bytes
    }

    /// Returns the number of segments that are lost and were not sent again.
    pub(super) fn lost_waiting(&self) -> u32 {
        self.lost_waiting
    }

    /// Returns whether a lost segment was not sent again.
    pub(super) fn has_lost(&self) -> bool {
        self.lost_waiting > 0
    }

    /// Returns whether some segment was never sent.
    pub(super) fn has_new(&self) -> bool {
        ((self.next - self.una) as usize) < self.segments.len()
    }

    /// Returns the number of segments that the receiver has out of order.
    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Returns the transmission time of the segment sent last of those that arrived.
    pub(super) fn newest_sent_at(&self) -> Time {
        self.newest.sent_at
    }

    /// Forgets everything below `ack`, which has arrived, in order. `echo` is the time stamp that
    /// the receiver sent back. Returns the bytes that are new.
    pub(super) fn acknowledge(
        &mut self,
        ack: u32,
        echo: Time,
        mut ended: impl FnMut(Payload),
    ) -> u64 {
        let mut bytes = 0;
        while self.una < ack.min(self.next) {
            let Some(entry) = self.segments.pop_front() else { break };
            self.pipe_bytes -= entry.in_pipe();
            self.lost_waiting -= u32::from(entry.lost && !entry.repeated && !entry.sacked);
            bytes += u64::from(entry.bytes);
            self.sacked -= u32::from(entry.sacked);
            self.sacked_bytes -= if entry.sacked { u64::from(entry.bytes) } else { 0 };
            self.newest = self.newest.max(newest(&entry, self.una, echo));
            self.una += 1;
            ended(entry.name);
        }
        self.flight_bytes -= bytes;
        bytes
    }

    /// Takes note that the receiver has `start..end` out of order.
    pub(super) fn sack(&mut self, start: u32, end: u32, echo: Time) {
        for seq in start.max(self.una)..end.min(self.next) {
            let entry = &mut self.segments[(seq - self.una) as usize];
            if !entry.sacked {
                self.pipe_bytes -= entry.in_pipe();
                self.lost_waiting -= u32::from(entry.lost && !entry.repeated);
                entry.sacked = true;
                self.sacked += 1;
                self.sacked_bytes += u64::from(entry.bytes);
                self.newest = self.newest.max(newest(entry, seq, echo));
                self.sacked_end = self.sacked_end.max(seq + 1);
            }
        }
    }

    /// Marks as lost what [`DUP_THRESH`] received segments lie above (`IsLost`).
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

    /// Marks as lost what was sent more than `rtt_ps` and `slack_ps` ago and before a segment that
    /// has arrived (`RACK_detect_loss` of RFC 8985), repetitions too. Returns the time at which to
    /// look again.
    pub(super) fn find_late(&mut self, now: Time, rtt_ps: u64, slack_ps: u64) -> Option<Time> {
        let mut again = None;
        for seq in self.una..self.next {
            let entry = &mut self.segments[(seq - self.una) as usize];
            if !entry.repeated && entry.sent_at > self.newest.sent_at {
                break; // so is everything above
            }
            let waits = entry.lost && !entry.repeated;
            if entry.sacked || waits || (Newest { sent_at: entry.sent_at, seq }) >= self.newest {
                continue;
            }
            let late_at = entry.sent_at.plus_ps(rtt_ps + slack_ps);
            if late_at > now {
                again = again.max(Some(late_at));
                continue;
            }
            self.pipe_bytes -= entry.in_pipe();
            (entry.lost, entry.repeated) = (true, false);
            self.lost_waiting += 1;
            self.repeat_from = self.repeat_from.min(seq);
            self.lost_end = self.lost_end.max(seq + 1);
        }
        again
    }

    /// Marks as lost everything that was not received, repetitions too: a timeout has passed.
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

    /// Lets retransmissions begin at the first segment again.
    pub(super) fn begin_recovery(&mut self) {
        self.repeat_from = self.una;
        self.rescued = false;
    }

    /// Takes the next segment that was never sent.
    pub(super) fn take_new(&mut self, now: Time) -> Option<Pick> {
        let pick = self.pick(self.next).filter(|_| self.has_new())?;
        self.segments[(pick.seq - self.una) as usize].sent_at = now;
        self.next += 1;
        self.pipe_bytes += u64::from(pick.bytes);
        self.flight_bytes += u64::from(pick.bytes);
        Some(pick)
    }

    /// Takes a lost segment, else a new one.
    pub(super) fn take_lost_or_new(&mut self, now: Time) -> Option<Pick> {
        if self.lost_waiting == 0 {
            return self.take_new(now);
        }
        let seq = self.find_to_repeat(|entry| entry.lost, self.lost_end)?;
        self.repeat(seq, now)
    }

    /// Takes the next segment to send during recovery (`NextSeg`): a lost one, else a new one, else
    /// one that may be lost.
    pub(super) fn take_in_recovery(&mut self, now: Time) -> Option<Pick> {
        if let Some(pick) = self.take_lost_or_new(now) {
            return Some(pick);
        }
        if let Some(seq) = self.find_to_repeat(|entry| !entry.lost, self.sacked_end) {
            return self.repeat(seq, now);
        }
        // One last segment per recovery, in case the tail was lost.
        if self.rescued {
            return None;
        }
        self.rescued = true;
        self.take_last(now)
    }

    /// Takes the last segment that was sent and did not arrive, once more; `None` when it was sent
    /// again before.
    pub(super) fn take_last(&mut self, now: Time) -> Option<Pick> {
        let last = (self.una..self.next).rev().find(|&seq| !self.entry(seq).sacked)?;
        if self.entry(last).repeated {
            return None;
        }
        let repeat_from = self.repeat_from;
        let pick = self.repeat(last, now);
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

    fn repeat(&mut self, seq: u32, now: Time) -> Option<Pick> {
        let entry = &mut self.segments[(seq - self.una) as usize];
        self.pipe_bytes -= entry.in_pipe();
        self.lost_waiting -= u32::from(entry.lost && !entry.repeated);
        (entry.repeated, entry.sent_at) = (true, now);
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

/// Returns an arrival as [`Newest`]. When a segment was sent twice, an older time stamp says that
/// the first copy arrived, and nothing is known of the second.
fn newest(entry: &Entry, seq: u32, echo: Time) -> Newest {
    let ambiguous = entry.repeated && echo < entry.sent_at;
    if ambiguous { Newest::default() } else { Newest { sent_at: entry.sent_at, seq } }
}
