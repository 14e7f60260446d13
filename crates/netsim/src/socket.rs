//! A process's socket: an `srd` engine, unchanged, and what its host keeps beside it.

use crate::flow::Flow;
use crate::rng::{Rng, mix};
use crate::time::Time;
use srd::{Address, Config, Endpoint, Message, MsgId};

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) engine: Endpoint,
    pub(crate) host: u32,
    /// When its next timer event fires; later ones in the queue are stale.
    pub(crate) timer_at: Time,
    /// It waits for its turn at the host's adapter.
    pub(crate) waits_for_link: bool,
}

impl Socket {
    pub(crate) fn new(config: &Config, host: u32, process: u16, rng: &mut Rng) -> Self {
        Self {
            engine: Endpoint::new(config.clone(), qpn_of(process), 1, rng.next()),
            host,
            timer_at: Time::FAR,
            waits_for_link: false,
        }
    }

    /// Gives the engine messages of a flow, while fewer than `depth` are open.
    pub(crate) fn post(&mut self, now: Time, number: u32, flow: &mut Flow, depth: u32) {
        let to =
            Address { host: u64::from(flow.spec.dst_host), qpn: qpn_of(flow.spec.dst_process) };
        while flow.posted < flow.messages && flow.open() < depth {
            let message = Message {
                id: message_id(number, flow.posted),
                len: flow.bytes_of(flow.posted),
                rnr_retry: 7,
                ..Message::default()
            };
            let peer = self.engine.peer(now.to_engine(), to);
            let posted = self.engine.send(now.to_engine(), peer, message);
            assert_eq!(posted, Ok(()), "a valid message to a peer just named");
            flow.posted += 1;
        }
    }
}

fn qpn_of(process: u16) -> u16 {
    process + 1
}

/// The process whose socket has this queue pair number.
pub(crate) fn process_of(qpn: u16) -> usize {
    usize::from(qpn).wrapping_sub(1)
}

/// A flow and the number of a message in it, as the engine's name of a message.
pub(crate) fn message_id(flow: u32, message: u32) -> MsgId {
    MsgId(u64::from(flow) << 32 | u64::from(message))
}

/// Flow and message of an engine's message.
pub(crate) fn flow_and_message(id: MsgId) -> (u32, u32) {
    ((id.0 >> 32) as u32, id.0 as u32)
}

/// The hash of a 5-tuple: hosts, the source port, which is the path, and the destination port.
pub(crate) fn flow_hash(secret: u64, src_host: u32, to: Address, path: u16) -> u32 {
    let hosts = u64::from(src_host) << 32 | to.host;
    let ports = u64::from(path) << 16 | u64::from(to.qpn);
    (mix(mix(secret ^ hosts) ^ ports) >> 32) as u32
}
