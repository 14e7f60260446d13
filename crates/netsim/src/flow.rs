//! One transfer of a workload: what it is to move, and how far it has come.

use crate::time::Time;

/// A transfer of `bytes` from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowSpec {
    pub(crate) src_host: u32,
    pub(crate) dst_host: u32,
    /// Number of the process on its host; each has a socket of its own.
    pub(crate) src_process: u16,
    pub(crate) dst_process: u16,
    pub(crate) bytes: u64,
    pub(crate) start: Time,
    /// Best completion time in a network that does nothing but this workload.
    pub(crate) ideal_ps: u64,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) src_socket: u32,
    pub(crate) dst_socket: u32,
    /// Messages it is cut into, all full but the last.
    pub(crate) messages: u32,
    message_bytes: u32,
    /// Messages given to the transport.
    pub(crate) posted: u32,
    pub(crate) ended_ok: u32,
    pub(crate) ended_badly: u32,
    /// One bit per message: it arrived.
    delivered: Vec<u64>,
    /// Bytes that arrived.
    pub(crate) delivered_bytes: u64,
    /// When the sender knew the end of every message.
    pub(crate) end: Option<Time>,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec, sockets: (u32, u32), message_bytes: u32) -> Self {
        let messages = spec.bytes.div_ceil(u64::from(message_bytes)).max(1) as u32;
        Self {
            spec,
            src_socket: sockets.0,
            dst_socket: sockets.1,
            messages,
            message_bytes,
            posted: 0,
            ended_ok: 0,
            ended_badly: 0,
            delivered: vec![0; messages.div_ceil(64) as usize],
            delivered_bytes: 0,
            end: None,
        }
    }

    /// Length of a message.
    pub(crate) fn bytes_of(&self, message: u32) -> u32 {
        let before = u64::from(message) * u64::from(self.message_bytes);
        (self.spec.bytes - before).min(u64::from(self.message_bytes)) as u32
    }

    /// Messages that the transport has and that have not ended.
    pub(crate) fn open(&self) -> u32 {
        self.posted - self.ended_ok - self.ended_badly
    }

    /// Takes note of a message's arrival. False when it had arrived before.
    pub(crate) fn deliver(&mut self, message: u32) -> bool {
        let bit = 1 << (message % 64);
        let word = &mut self.delivered[message as usize / 64];
        let new = *word & bit == 0;
        *word |= bit;
        if new {
            self.delivered_bytes += u64::from(self.bytes_of(message));
        }
        new
    }

    /// Messages that have arrived.
    pub(crate) fn delivered_count(&self) -> u32 {
        self.delivered.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn is_delivered(&self, message: u32) -> bool {
        self.delivered[message as usize / 64] >> (message % 64) & 1 == 1
    }

    /// Completion time, when it ended well.
    pub(crate) fn completion_ps(&self) -> Option<u64> {
        let end = self.end.filter(|_| self.ended_badly == 0)?;
        Some(end.ps_since(self.spec.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_add_up_to_the_bytes_and_arrive_once() {
        let spec = FlowSpec {
            src_host: 0,
            dst_host: 1,
            src_process: 0,
            dst_process: 0,
            bytes: 100_001,
            start: Time::ZERO,
            ideal_ps: 1,
        };
        let mut flow = Flow::new(spec, (0, 1), 1000);
        assert_eq!(flow.messages, 101);
        assert_eq!((0..101).map(|n| u64::from(flow.bytes_of(n))).sum::<u64>(), 100_001);
        assert!(flow.deliver(100) && !flow.deliver(100) && flow.is_delivered(100));
        assert!(!flow.is_delivered(36) && flow.delivered_count() == 1);
        assert_eq!(flow.delivered_bytes, 1);
        assert_eq!(Flow::new(FlowSpec { bytes: 0, ..spec }, (0, 1), 1000).bytes_of(0), 0);
    }
}
