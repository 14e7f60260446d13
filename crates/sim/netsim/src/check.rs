//! Rules that hold in every run. A violation ends the run.

use crate::census::Overfull;
use crate::id::{FlowId, LinkId, MessageId, SocketId};
use crate::network::Network;
use crate::pfc::{Miscount, Overflow};
use crate::sim::Sim;
use crate::time::Time;
use thiserror::Error;

/// A rule that was violated: a fault of the transport or of the simulator, never of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Messages are delivered at most once.
    #[error("{at}: message {message} of flow {flow} was delivered twice")]
    DeliveredTwice {
        /// Time of the violation.
        at: Time,
        /// The flow's number.
        flow: FlowId,
        /// The message's number in it.
        message: MessageId,
    },
    /// Messages come from a flow that leads to the socket they arrive at.
    #[error("{at}: socket {socket} took a message that nobody sent to it")]
    FromNowhere {
        /// Time of the violation.
        at: Time,
        /// The socket's number.
        socket: SocketId,
    },
    /// A message that ended well was delivered before.
    #[error("{at}: message {message} of flow {flow} ended well but was never delivered")]
    NotDelivered {
        /// Time of the violation.
        at: Time,
        /// The flow's number.
        flow: FlowId,
        /// The message's number in it.
        message: MessageId,
    },
    /// Each message ends once.
    #[error("flow {flow} has {messages} messages, of which {ended} ended")]
    EndedWrongly {
        /// The flow's number.
        flow: FlowId,
        /// Number of its messages.
        messages: u32,
        /// Number of its messages that ended.
        ended: u32,
    },
    /// Packets neither appear nor disappear.
    #[error("{sent} packets sent, {delivered} delivered, {lost} lost, {live} in the network")]
    NotConserved {
        /// Packets that hosts sent.
        sent: u64,
        /// Packets that reached their host.
        delivered: u64,
        /// Packets lost for a known cause.
        lost: u64,
        /// Packets still in the network.
        live: u64,
    },
    /// Queues stay within their buffers.
    #[error("{link} held {held_bytes} bytes in queue and cable, its buffer has {buffer_bytes}")]
    QueueTooLong {
        /// The link's name.
        link: String,
        /// Bytes in its queue and on its cable.
        held_bytes: u32,
        /// Size of its buffer.
        buffer_bytes: u32,
    },
    /// With priority flow control, no packet is lost for lack of buffer.
    #[error("{at}: {link} was paused too late, its share of the buffer is full")]
    PausedTooLate {
        /// Time of the violation.
        at: Time,
        /// The link's name.
        link: String,
    },
    /// A switch counts of a link's packets exactly those that wait and leave.
    #[error("{link} has {share_bytes} bytes in its switch, of which {found_bytes} are there")]
    Miscounted {
        /// The link's name.
        link: String,
        /// Bytes counted.
        share_bytes: u32,
        /// Bytes found.
        found_bytes: u32,
    },
    /// Pauses end. This is the one rule that a scenario can break: by a network with circles.
    #[error("{at}: a deadlock of paused links: {circle}")]
    PauseDeadlock {
        /// Time at which it was found.
        at: Time,
        /// Names of the links that wait for each other.
        circle: String,
    },
    /// Time never goes back.
    #[error("the clock went back from {from} to {to}")]
    ClockBack {
        /// The time before.
        from: Time,
        /// The time after.
        to: Time,
    },
}

/// Checks the rules for the end of a run.
pub(crate) fn check_end(sim: &Sim) -> Result<(), Violation> {
    let tally = &sim.network.tally;
    let (sent, delivered) = (tally.sent, tally.delivered);
    let lost: u64 = tally.lost.iter().sum();
    let live = sim.network.packets.live() as u64;
    if sent != delivered + lost + live {
        return Err(Violation::NotConserved { sent, delivered, lost, live });
    }
    check_buffers(&sim.network)?;
    for (number, flow) in FlowId::all().zip(&sim.flows) {
        let ended = flow.ended_ok + flow.ended_badly;
        let wrong = ended > flow.messages
            || flow.end.is_some() && ended != flow.messages
            || flow.ended_ok > flow.delivered_count();
        if wrong {
            let messages = flow.messages;
            return Err(Violation::EndedWrongly { flow: number, messages, ended });
        }
    }
    Ok(())
}

fn check_buffers(network: &Network) -> Result<(), Violation> {
    let name = |link: LinkId| network.fabric.link_name(link);
    if let Some(pfc) = &network.pfc {
        if let Some(Overflow { at, link }) = pfc.overflow {
            return Err(Violation::PausedTooLate { at, link: name(link) });
        }
        if let Some(Miscount { link, share_bytes, found_bytes }) = pfc.miscounted() {
            return Err(Violation::Miscounted { link: name(link), share_bytes, found_bytes });
        }
        return Ok(());
    }
    if let Some(Overfull { link, held_bytes }) = network.census.overfull {
        let buffer_bytes = network.fabric.links[link.index()].buffer_bytes();
        return Err(Violation::QueueTooLong { link: name(link), held_bytes, buffer_bytes });
    }
    Ok(())
}
