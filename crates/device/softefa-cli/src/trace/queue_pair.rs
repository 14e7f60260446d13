//! The events of a log by queue pair.

use softefa::trace::TraceEvent;

use super::line::value;
use super::log::{Event, Log};
use super::messages::{Message, Posted};
use super::sent::{Path, Sent};

/// The number of the status with which a peer without a receive answers.
const NOT_READY: &str = "10";

/// A fault on purpose while it was in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FaultSpan {
    pub(super) from_ns: u64,
    /// The end; `None` if the fault was still in force when the log ended.
    pub(super) to_ns: Option<u64>,
    pub(super) spec: String,
    /// The origin of the request: `start`, `script` or `command`.
    pub(super) by: String,
}

/// A queue pair of the log.
#[derive(Debug)]
pub(super) struct QueuePair {
    pub(super) name: String,
    /// The numbers of events, in the order of [`TraceEvent::ALL`].
    pub(super) counts: [u64; TraceEvent::ALL.len()],
    /// The number of them that report a receiver that was not ready.
    pub(super) not_ready: u64,
    /// The messages in the order in which they ended, followed by those that did not end.
    pub(super) messages: Vec<Message>,
    /// Number of posts that asked for no completion.
    pub(super) unsignaled: u64,
    /// The paths by their numbers.
    pub(super) paths: Vec<(u16, Path)>,
    pub(super) faults: Vec<FaultSpan>,
}

impl QueuePair {
    pub(super) fn count(&self, event: TraceEvent) -> u64 {
        self.counts[event as usize]
    }

    /// Returns the total number of its events.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Returns true if an event reports a receiver that was not ready.
pub(super) fn is_not_ready(kind: TraceEvent, words: &str) -> bool {
    let refused = |again: &str| again.split(':').nth(1) == Some(NOT_READY);
    match kind {
        TraceEvent::Ack => {
            words.split(' ').filter_map(|pair| pair.strip_prefix("refused=")).any(refused)
        }
        TraceEvent::Reject => {
            value(words, "status").and_then(|status| status.split(':').next()) == Some(NOT_READY)
        }
        TraceEvent::Transmit | TraceEvent::Retransmit | TraceEvent::Receive => {
            value(words, "syndrome").is_some_and(|syndrome| syndrome.starts_with("RnrNak"))
        }
        _ => false,
    }
}

/// The state of a queue pair while its events are processed.
#[derive(Debug)]
struct Work {
    made: QueuePair,
    posted: Posted,
    sent: Sent,
}

/// Returns all queue pairs of a log, those with most events first. A log without posts, like that
/// of a capture, has packets for messages.
pub(super) fn queue_pairs(log: &Log) -> Vec<QueuePair> {
    let has_posts = log.events.iter().any(|event| event.kind == TraceEvent::Post);
    let mut all: Vec<Work> =
        log.queue_pairs.iter().map(|name| Work::new(name, has_posts)).collect();
    for event in &log.events {
        all[event.queue_pair as usize].take(event, log.words(event));
    }
    let mut made: Vec<QueuePair> = all.into_iter().map(Work::finish).collect();
    made.sort_by_key(|queue_pair| std::cmp::Reverse(queue_pair.total()));
    made
}

impl Work {
    fn new(name: &str, has_posts: bool) -> Self {
        let made = QueuePair {
            name: name.to_owned(),
            counts: [0; TraceEvent::ALL.len()],
            not_ready: 0,
            messages: Vec::new(),
            unsignaled: 0,
            paths: Vec::new(),
            faults: Vec::new(),
        };
        Self { made, posted: Posted::default(), sent: Sent::new(!has_posts) }
    }

    fn take(&mut self, event: &Event, words: &str) {
        let made = &mut self.made;
        made.counts[event.kind as usize] += 1;
        made.not_ready += u64::from(is_not_ready(event.kind, words));
        let at_ns = event.at_ns;
        match event.kind {
            TraceEvent::Post => self.posted.post(at_ns, words),
            TraceEvent::Completion => made.messages.extend(self.posted.complete(at_ns, words)),
            TraceEvent::Transmit | TraceEvent::Retransmit => self.sent.transmit(at_ns, words),
            TraceEvent::Ack if value(words, "dir") == Some("in") => {
                self.sent.acknowledged(at_ns, words);
            }
            TraceEvent::Receive => self.sent.received(at_ns, words),
            TraceEvent::Loss => self.sent.lose(words),
            TraceEvent::Fault if value(words, "is") == Some("set") => made.set_fault(at_ns, words),
            _ => {}
        }
    }

    fn finish(self) -> QueuePair {
        let Self { mut made, posted, sent } = self;
        made.unsignaled = posted.unsignaled;
        made.messages.extend(posted.into_rest());
        made.messages.extend(sent.done);
        made.paths = sent.paths.into_iter().collect();
        made
    }
}

impl QueuePair {
    /// Notes that a fault is in force from now on, instead of the previous one.
    fn set_fault(&mut self, at_ns: u64, words: &str) {
        if let Some(before) = self.faults.last_mut().filter(|before| before.to_ns.is_none()) {
            before.to_ns = Some(at_ns);
        }
        let [spec, by] = ["spec", "by"].map(|key| value(words, key).unwrap_or_default().to_owned());
        if spec != "none" {
            self.faults.push(FaultSpan { from_ns: at_ns, to_ns: None, spec, by });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_that_are_not_ready_are_seen_on_both_sides() {
        let yes = [
            (TraceEvent::Ack, "a:1 dir=in path=0 cum=1 last=1 above=0 refused=3+1:10:again"),
            (TraceEvent::Reject, "a:1 psn=3 status=10:RemoteRnr"),
            (TraceEvent::Receive, "a:1 op=Acknowledge psn=3 syndrome=RnrNak(14)"),
        ];
        let no = [
            (TraceEvent::Ack, "a:1 dir=in path=0 cum=10 last=10 above=0 refused=10+1:11"),
            (TraceEvent::Reject, "a:1 psn=10 status=11:RemoteBadLength"),
            (TraceEvent::Receive, "a:1 op=Acknowledge psn=3 syndrome=Ack(31)"),
        ];
        assert!(yes.iter().all(|(kind, words)| is_not_ready(*kind, words)));
        assert!(!no.iter().any(|(kind, words)| is_not_ready(*kind, words)));
    }

    #[test]
    fn a_fault_takes_the_place_of_the_one_before() {
        let mut made = Work::new("a:1", true).made;
        made.set_fault(1, "- is=set by=start spec=loss=1%,seed=0 late_ns=0");
        made.set_fault(5, "- is=set by=command spec=dup=1%,seed=0 late_ns=0");
        made.set_fault(9, "- is=set by=start spec=none late_ns=0");
        let seen: Vec<_> = made
            .faults
            .iter()
            .map(|fault| (fault.from_ns, fault.to_ns, fault.spec.as_str(), fault.by.as_str()))
            .collect();
        assert_eq!(
            seen,
            [(1, Some(5), "loss=1%,seed=0", "start"), (5, Some(9), "dup=1%,seed=0", "command")]
        );
    }
}
