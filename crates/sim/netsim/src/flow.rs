//! One transfer of a workload: what it moves, and its progress.

use crate::delivered::Delivered;
use crate::id::{Ends, FlowId, HostId, MessageId, Process, SocketId};
use crate::packet::Payload;
use crate::time::Time;
use crate::transport::{Kind, Message, Posting};

/// A transfer's place in a workload that repeats: when all of a round have ended, the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Number of the round, from 0.
    pub(crate) number: u32,
    /// Number of rounds of the workload.
    pub(crate) rounds: u32,
    /// Number of transfers of a round: a transfer's number exceeds that of the same one in the
    /// round before by so much.
    pub(crate) flows: u32,
    /// Place within the round.
    pub(crate) place: u32,
}

impl Round {
    /// Returns the number of the first flow of the round that `flow` belongs to.
    pub(crate) fn first_flow(&self, flow: FlowId) -> FlowId {
        FlowId(flow.0 - self.place)
    }

    pub(crate) fn is_last(&self) -> bool {
        self.number + 1 == self.rounds
    }
}

/// A transfer of `bytes` from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowSpec {
    pub(crate) transport: Kind,
    /// Sending process; each process has a socket of its own.
    pub(crate) src: Process,
    pub(crate) dst: Process,
    pub(crate) bytes: u64,
    /// Time at which it begins; in rounds after the first, the time after the end of the round
    /// before.
    pub(crate) start: Time,
    /// Time until which it sends, however much that is; `bytes` is more than that.
    pub(crate) until: Option<Time>,
    /// Place in a workload that repeats; without one it waits for nothing but its time.
    pub(crate) round: Option<Round>,
    /// Best completion time. While flows are planned, it is 0 for flows that share it with others.
    pub(crate) ideal_ps: u64,
}

impl FlowSpec {
    pub(crate) fn hosts(&self) -> Ends<HostId> {
        Ends { src: self.src.host, dst: self.dst.host }
    }

    /// Returns the processes whose sockets other transfers share.
    pub(crate) fn shared_ends(&self) -> impl Iterator<Item = Process> + use<> {
        let ends = [self.src, self.dst];
        ends.into_iter().take(if self.transport == Kind::Srd { 2 } else { 0 })
    }
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) sockets: Ends<SocketId>,
    /// Number of messages it is cut into, all full but the last.
    pub(crate) messages: u32,
    posting: Posting,
    /// Number of messages given to the transport.
    pub(crate) posted: u32,
    pub(crate) ended_ok: u32,
    pub(crate) ended_badly: u32,
    delivered: Delivered,
    /// Bytes that arrived.
    pub(crate) delivered_bytes: u64,
    /// Number of flows of the round that have not ended, counted at its first one.
    pub(crate) round_open: u32,
    /// Time at which the sender knew the end of every message.
    pub(crate) end: Option<Time>,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec, sockets: Ends<SocketId>, posting: Posting) -> Self {
        let messages = spec.bytes.div_ceil(u64::from(posting.message_bytes)).max(1);
        // Workloads of more are refused.
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        Self {
            spec,
            sockets,
            messages,
            posting,
            posted: 0,
            ended_ok: 0,
            ended_badly: 0,
            delivered: Delivered::default(),
            delivered_bytes: 0,
            round_open: spec.round.map_or(0, |round| round.flows),
            end: None,
        }
    }

    /// Takes the next message for the transport, if the application may post one. `number` is this
    /// flow's.
    pub(crate) fn post(&mut self, number: FlowId) -> Option<Message> {
        let open = self.posted - self.ended_ok - self.ended_badly;
        if self.posted == self.messages || open >= self.posting.depth {
            return None;
        }
        let message = MessageId(self.posted);
        self.posted += 1;
        Some(Message {
            name: Payload { flow: number, message },
            bytes: self.bytes_of(message),
            dst: self.spec.dst,
        })
    }

    /// Stops posting. Returns true when that ends it: nothing is open, and it had not ended before.
    pub(crate) fn stop(&mut self) -> bool {
        self.messages = self.posted;
        let posted_bytes = u64::from(self.posted) * u64::from(self.posting.message_bytes);
        self.spec.bytes = self.spec.bytes.min(posted_bytes);
        self.end.is_none() && self.ended_ok + self.ended_badly == self.messages
    }

    fn bytes_of(&self, message: MessageId) -> u32 {
        let full = u64::from(self.posting.message_bytes);
        (self.spec.bytes - u64::from(message.0) * full).min(full) as u32
    }

    /// Takes note of a message's arrival. Returns false when it had arrived before.
    pub(crate) fn deliver(&mut self, message: MessageId) -> bool {
        let new = self.delivered.insert(message);
        if new {
            self.delivered_bytes += u64::from(self.bytes_of(message));
        }
        new
    }

    /// Returns the number of messages that have arrived.
    pub(crate) fn delivered_count(&self) -> u32 {
        self.delivered.count()
    }

    pub(crate) fn is_delivered(&self, message: MessageId) -> bool {
        self.delivered.contains(message)
    }

    /// Returns the completion time, when it ended well.
    pub(crate) fn completion_ps(&self) -> Option<u64> {
        let end = self.end.filter(|_| self.ended_badly == 0)?;
        Some(end.ps_since(self.spec.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(bytes: u64) -> Flow {
        let spec = FlowSpec {
            transport: Kind::Srd,
            src: Process { host: HostId(0), number: 0 },
            dst: Process { host: HostId(1), number: 0 },
            bytes,
            start: Time::ZERO,
            until: None,
            round: None,
            ideal_ps: 1,
        };
        let sockets = Ends { src: SocketId(0), dst: SocketId(1) };
        Flow::new(spec, sockets, Posting { message_bytes: 1000, depth: 4 })
    }

    #[test]
    fn messages_add_up_to_the_bytes_and_arrive_once() {
        let mut flow = flow(100_001);
        assert_eq!(flow.messages, 101);
        assert_eq!(
            MessageId(0).range(101).map(|n| u64::from(flow.bytes_of(n))).sum::<u64>(),
            100_001
        );
        let (last, other) = (MessageId(100), MessageId(36));
        assert!(flow.deliver(last) && !flow.deliver(last) && flow.is_delivered(last));
        assert!(!flow.is_delivered(other) && flow.delivered_count() == 1);
        assert_eq!(flow.delivered_bytes, 1);
    }

    #[test]
    fn a_flow_that_stops_ends_with_what_it_has_posted() {
        let mut flow = flow(100_000);
        (0..3).for_each(|_| assert!(flow.post(FlowId(0)).is_some()));
        assert!(!flow.stop() && flow.post(FlowId(0)).is_none());
        assert_eq!((flow.messages, flow.spec.bytes), (3, 3000));
        assert!(self::flow(100_000).stop(), "nothing was posted");
    }

    /// A flow was once counted twice, so that the run ended before another flow had.
    #[test]
    fn a_flow_that_has_ended_does_not_end_again() {
        let mut flow = flow(1000);
        assert!(flow.post(FlowId(0)).is_some());
        (flow.ended_badly, flow.end) = (1, Some(Time::ZERO));
        assert!(!flow.stop());
    }

    #[test]
    fn an_application_keeps_its_depth_posted() {
        let mut flow = flow(4500);
        let sizes: Vec<u32> =
            std::iter::from_fn(|| flow.post(FlowId(7))).map(|m| m.bytes).collect();
        assert_eq!(sizes, [1000; 4]);
        flow.ended_ok = 1;
        let last = flow.post(FlowId(7)).unwrap();
        assert_eq!(
            (last.name, last.bytes),
            (Payload { flow: FlowId(7), message: MessageId(4) }, 500)
        );
        flow.ended_ok = 5;
        assert!(flow.post(FlowId(7)).is_none(), "it has no more");
        let mut empty = self::flow(0);
        assert_eq!(empty.post(FlowId(0)).map(|message| message.bytes), Some(0));
    }
}
