//! Transports: the protocols that the sockets of hosts speak.
//!
//! A transport is a value that is told everything, as the `srd` engine is: the time, packets,
//! messages to send. After each call the loop asks it for its notices, for packets when its host's
//! adapter is free, and for the time of its next timer. [`Transport`] holds the kinds there are; to
//! add one, write its [`Machine`], give it a variant here and in [`Kind`], a [`Body`] for its
//! packets, and make its sockets in [`crate::sim`].

pub(crate) mod roce;
mod route;
mod srd;
pub(crate) mod tcp;

pub(crate) use srd::{SrdSetup, SrdSocket};

use crate::id::Process;
use crate::packet::{Body, Packet, Payload};
use crate::socket::Ports;
use crate::time::Time;
use ::srd::HEADER_MAX;
use roce::QueuePair;
use serde::{Deserialize, Serialize};
use tcp::{Receiver, Sender};

/// The transport that a flow uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The `srd` engine, unchanged.
    #[default]
    Srd,
    /// TCP with the scenario's congestion control.
    Tcp,
    /// TCP that reacts to marks (RFC 8257).
    Dctcp,
    /// RDMA over UDP, in order: the `rc` engine, unchanged.
    Roce,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Srd, Self::Tcp, Self::Dctcp, Self::Roce];

    /// Returns its name in scenario files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Srd => "srd",
            Self::Tcp => "tcp",
            Self::Dctcp => "dctcp",
            Self::Roce => "roce",
        }
    }

    /// Returns whether switches send all packets of a connection the same way.
    pub(crate) const fn has_one_path(self) -> bool {
        !matches!(self, Self::Srd)
    }

    /// Returns the bytes of a data packet on the wire that are no payload.
    pub(crate) const fn overhead_bytes(self) -> u32 {
        match self {
            Self::Srd => srd::OVERHEAD_BYTES,
            Self::Tcp | Self::Dctcp => tcp::OVERHEAD_BYTES,
            Self::Roce => roce::OVERHEAD_BYTES,
        }
    }

    /// Returns the bytes of the shortest acknowledgement on the wire.
    pub(crate) const fn ack_bytes(self) -> u32 {
        match self {
            Self::Srd => srd::ACK_BYTES,
            Self::Tcp | Self::Dctcp => tcp::OVERHEAD_BYTES,
            Self::Roce => roce::ACK_BYTES,
        }
    }

    /// Returns the payload of a full packet that has at most `packet_bytes` on the wire.
    pub(crate) const fn message_bytes(self, packet_bytes: u32) -> u32 {
        let most = packet_bytes - self.overhead_bytes();
        match self {
            Self::Roce => roce::payload_bytes(most),
            Self::Srd | Self::Tcp | Self::Dctcp => most,
        }
    }

    /// Returns the bytes on the wire of a packet with so much payload.
    pub(crate) const fn packet_bytes(self, message_bytes: u32) -> u32 {
        let pad = match self {
            Self::Roce => roce::pad_bytes(message_bytes),
            Self::Srd | Self::Tcp | Self::Dctcp => 0,
        };
        message_bytes + pad + self.overhead_bytes()
    }
}

/// Configuration of the transports of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) srd: SrdSetup,
    pub(crate) tcp: tcp::TcpSetup,
    pub(crate) roce: roce::RoceSetup,
}

impl Setup {
    /// Returns the way in which applications hand flows to a transport.
    pub(crate) fn posting(&self, kind: Kind) -> Posting {
        match kind {
            Kind::Srd => self.srd.posting,
            Kind::Tcp | Kind::Dctcp => self.tcp.posting(),
            Kind::Roce => self.roce.posting,
        }
    }
}

/// The way in which an application hands a flow to its transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posting {
    /// Payload of a full message, which fills a packet.
    pub(crate) message_bytes: u32,
    /// Maximum number of messages of a flow that are posted and have not ended.
    pub(crate) depth: u32,
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Name of the message in packets and notices.
    pub(crate) name: Payload,
    pub(crate) bytes: u32,
    pub(crate) dst: Process,
}

/// The meaning of a packet that brought something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// A message that a flow had posted.
    Message(Payload),
    /// No message at all, which violates a rule.
    FromNowhere,
}

impl Delivery {
    /// Returns what a packet with this payload delivers.
    pub(crate) fn of(payload: Option<Payload>) -> Self {
        payload.map_or(Self::FromNowhere, Self::Message)
    }
}

/// A message from a transport to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A message is new at the receiver, and handed to the application.
    Delivered(Delivery),
    /// A message has ended at the sender, well when `code` is zero.
    Ended { message: Payload, code: u8 },
}

/// Counters of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Data packets sent for the first time or again.
    pub(crate) data_packets: u64,
    /// Data packets sent again.
    pub(crate) repeated_packets: u64,
    /// Data packets received again.
    pub(crate) needless_repeats: u64,
}

/// One end of a transport: the contract between it and the loop.
///
/// After each call of `post`, `receive` or `handle_timeout` the loop empties `poll_notice`, takes
/// `poll_timeout`, and, when `has_backlog`, calls `poll_transmit` whenever the adapter is free
/// until that returns `None`.
pub(crate) trait Machine {
    /// Takes a message to send. The loop calls this only for sockets at which flows begin.
    fn post(&mut self, now: Time, message: Message);

    /// Takes a packet that has arrived.
    fn receive(&mut self, now: Time, packet: &Packet, body: Body<'_>);

    /// Handles a timeout. `now` is a time that `poll_timeout` once returned, or later; timers may
    /// have moved since.
    fn handle_timeout(&mut self, now: Time);

    /// Returns the time at which to call `handle_timeout`.
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns whether something waits to be sent; `poll_transmit` decides whether it may be sent
    /// now.
    fn has_backlog(&self) -> bool;

    /// Returns the next packet; `None` when nothing may be sent until something else happens.
    fn poll_transmit<'a>(
        &mut self,
        now: Time,
        ports: &Ports,
        scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)>;

    /// Returns the number of packets that it may send in a row before another socket of the host
    /// has its turn.
    fn turn_packets(&self) -> u32 {
        1
    }

    fn poll_notice(&mut self) -> Option<Notice>;

    fn counts(&self) -> Counts;
}

/// The transport of a socket. Boxed, so that what the loop looks at lies close together.
#[derive(Debug)]
pub(crate) enum Transport {
    Srd(Box<SrdSocket>),
    TcpSender(Box<Sender>),
    TcpReceiver(Box<Receiver>),
    Roce(Box<QueuePair>),
}

/// Calls a method of whatever a [`Transport`] holds.
macro_rules! each {
    ($transport:expr, $machine:ident => $call:expr) => {
        match $transport {
            Transport::Srd($machine) => $call,
            Transport::TcpSender($machine) => $call,
            Transport::TcpReceiver($machine) => $call,
            Transport::Roce($machine) => $call,
        }
    };
}

impl Machine for Transport {
    fn post(&mut self, now: Time, message: Message) {
        each!(self, machine => machine.post(now, message));
    }

    fn receive(&mut self, now: Time, packet: &Packet, body: Body<'_>) {
        each!(self, machine => machine.receive(now, packet, body));
    }

    fn handle_timeout(&mut self, now: Time) {
        each!(self, machine => machine.handle_timeout(now));
    }

    fn poll_timeout(&self) -> Option<Time> {
        each!(self, machine => machine.poll_timeout())
    }

    fn has_backlog(&self) -> bool {
        each!(self, machine => machine.has_backlog())
    }

    fn poll_transmit<'a>(
        &mut self,
        now: Time,
        ports: &Ports,
        scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)> {
        each!(self, machine => machine.poll_transmit(now, ports, scratch))
    }

    fn turn_packets(&self) -> u32 {
        each!(self, machine => machine.turn_packets())
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        each!(self, machine => machine.poll_notice())
    }

    fn counts(&self) -> Counts {
        each!(self, machine => machine.counts())
    }
}
