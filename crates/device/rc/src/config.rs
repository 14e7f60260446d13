//! Settings of a host and of a connection.

use crate::Psn;
use crate::wire::{Bth, DEFAULT_PKEY, Transport};

/// Settings of a host. Times are nanoseconds, sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets that may be unacknowledged at first (RC-3.5).
    pub window_initial_packets: u32,
    /// Packets that may ever be unacknowledged, 1..=2^22.
    pub window_max_packets: u32,
    /// Whether the window is `window_max_packets` from the first packet on, whatever is lost
    /// (RC-3.5).
    pub is_window_fixed: bool,
    /// Payload bytes that may ever be unacknowledged; a single packet always may be.
    pub window_max_bytes: u64,
    /// One in this many messages requests an acknowledgement; 0 and 1 mean each (RC-3.8).
    pub ack_every_messages: u32,
    /// Response packets that one READ request asks for at most; a longer READ takes several
    /// requests (RC-3.6).
    pub read_packets_max: u32,
    /// Shortest acknowledgement timeout, whatever a connection asks for (RC-4.1).
    pub timeout_min_ns: u64,
    /// The shortest retransmission timeout that is based on measured round trips (RC-4.5). 0
    /// disables it: only the acknowledgement timeout counts, and a refusal is sent once (RC-6.3),
    /// as by adapters.
    pub rto_floor_ns: u64,
    /// Shortest silence after which a peer counts as dead, whatever `retry_cnt` says (RC-4.3).
    pub silence_min_ns: u64,
    /// Partition key of packets sent, and of those taken.
    pub pkey: u16,
}

impl Config {
    /// The settings for a host with UDP sockets, whose peers may be processes that were stopped for
    /// a while.
    #[must_use]
    pub const fn socket() -> Self {
        Self {
            window_initial_packets: 16,
            window_max_packets: 128,
            is_window_fixed: false,
            window_max_bytes: 256 << 10,
            ack_every_messages: 16,
            read_packets_max: 16,
            timeout_min_ns: 5_000_000,
            rto_floor_ns: 1_000_000,
            silence_min_ns: 8_000_000_000,
            pkey: DEFAULT_PKEY,
        }
    }

    /// Settings with timeouts, repetitions and retries exactly as the connection requests.
    #[must_use]
    pub const fn strict() -> Self {
        Self { timeout_min_ns: 0, rto_floor_ns: 0, silence_min_ns: 0, ..Self::socket() }
    }

    /// The settings of adapters: [`Config::strict`], a window of packets that stays as it is, an
    /// acknowledgement of each message, READs in one piece.
    #[must_use]
    pub const fn hardware(window_packets: u32) -> Self {
        Self {
            window_max_packets: window_packets,
            is_window_fixed: true,
            window_max_bytes: u64::MAX,
            ack_every_messages: 1,
            read_packets_max: 1 << 22,
            ..Self::strict()
        }
    }
}

/// The transport of an endpoint, or one half of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// The sending half of an extended reliable connection.
    XrcInitiator,
    /// The receiving half of an extended reliable connection.
    XrcTarget,
}

impl Service {
    pub(crate) const fn transport(self) -> Transport {
        match self {
            Self::Rc => Transport::Rc,
            Self::Uc => Transport::Uc,
            Self::XrcInitiator | Self::XrcTarget => Transport::Xrc,
        }
    }

    pub(crate) const fn is_reliable(self) -> bool {
        !matches!(self, Self::Uc)
    }

    pub(crate) const fn has_requester(self) -> bool {
        !matches!(self, Self::XrcTarget)
    }

    pub(crate) const fn has_responder(self) -> bool {
        !matches!(self, Self::XrcInitiator)
    }
}

/// Payload bytes of a full packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 256,
    /// 512 bytes.
    B512 = 512,
    /// 1,024 bytes.
    #[default]
    B1024 = 1024,
    /// 2,048 bytes.
    B2048 = 2048,
    /// 4,096 bytes.
    B4096 = 4096,
}

impl Mtu {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self as u32
    }

    /// Returns the number of packets that carry `len` bytes; an empty message takes one.
    #[must_use]
    pub const fn packets(self, len: u32) -> u32 {
        let packets = len.div_ceil(self.bytes());
        if packets == 0 { 1 } else { packets }
    }

    /// Returns how many of the next `left` packets are joined into one with a payload of at most
    /// `bytes` (RC-1.15); at least one.
    pub(crate) fn joinable(self, bytes: u32, left: u64) -> u64 {
        u64::from(bytes / self.bytes()).min(left).clamp(1, 1 + u64::from(Bth::JOINED_MAX))
    }
}

/// The operations that a peer may do here (`qp_access_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// WRITE and ATOMIC WRITE.
    pub write: bool,
    /// READ.
    pub read: bool,
    /// Atomics with a result.
    pub atomic: bool,
    /// FLUSH.
    pub flush: bool,
}

impl Access {
    /// Everything.
    pub const ALL: Self = Self { write: true, read: true, atomic: true, flush: true };
}

/// The attributes that an endpoint needs before it receives (INIT to RTR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveAttr {
    /// Queue pair of the peer, 24 bits.
    pub dest_qpn: u32,
    /// Payload bytes of a full packet, the same at both ends.
    pub path_mtu: Mtu,
    /// The number that the peer's first packet will have.
    pub rq_psn: Psn,
    /// READs and atomics of the peer that may be unanswered.
    pub max_dest_rd_atomic: u8,
    /// Code of the time that the peer waits when no receive is posted, 5 bits.
    pub min_rnr_timer: u8,
    /// The operations that the peer may do.
    pub access: Access,
}

/// The attributes that an endpoint needs before it sends (RTR to RTS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendAttr {
    /// The number of the first packet.
    pub sq_psn: Psn,
    /// READs and atomics that may be unanswered.
    pub max_rd_atomic: u8,
    /// Code of the acknowledgement timeout, 5 bits; 0 for none.
    pub timeout: u8,
    /// Timeouts and sequence errors without progress that are tolerated, 0..=7.
    pub retry_cnt: u8,
    /// Times that "receiver not ready" is tolerated, 0..=6, or 7 for ever.
    pub rnr_retry: u8,
}
