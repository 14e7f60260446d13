//! What can be set, and the two presets.

use core::ops::Range;

/// Which algorithm sizes the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// Delay-based window (SRD-8).
    Delay,
    /// The initial window for ever: for tests and for links that cannot be congested.
    Fixed,
}

/// Constants of the protocol machine. Times are nanoseconds, sizes are bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Longest message in bytes, 1..=65,000.
    pub max_message_bytes: u32,
    /// Most messages queued to one peer, sent or not.
    pub queue_messages_max: usize,
    /// Most contexts that strangers' datagrams can make this endpoint keep.
    pub peers_max: usize,
    /// Nobody opens a connection before it has proved its address (SRD-3.10), at the cost of a
    /// round trip.
    pub always_challenge: bool,
    /// Addresses that one machine can have as many of as it likes, as those of loopback: their wrong
    /// queue keys are counted together (SRD-3.12).
    pub own_hosts: Range<u64>,
    /// Bytes a packet costs on the wire besides its payload (for window and pacing).
    pub overhead_bytes: u32,
    /// Number of paths (source ports) the host offers, 1..=256.
    pub paths: u16,
    /// Consecutive packets of a burst that stay on one path (segmentation offload), at least 1.
    pub burst_packets_per_path: u32,
    /// Payload bytes of a burst that stay on one path.
    pub burst_bytes_per_path: u32,
    /// Packets to one peer before the next peer gets its turn.
    pub burst_packets_per_peer: u32,
    /// The algorithm that sizes the window.
    pub congestion: CongestionKind,
    /// First window of a connection.
    pub window_initial_bytes: u32,
    /// Smallest window; below one packet it turns into a rate.
    pub window_min_bytes: u32,
    /// Largest window.
    pub window_max_bytes: u32,
    /// The packet size the window algorithm reckons with.
    pub mtu_bytes: u32,
    /// Queueing delay aimed at, as a share of the base round-trip time.
    pub target_rtt_share: f32,
    /// Lower bound of the queueing delay aimed at.
    pub target_floor_ns: u64,
    /// Space packets out at 1.25 x window per round-trip time.
    pub pacing: bool,
    /// Cap the window by the receiver's fair-share hint.
    pub use_hint: bool,
    /// Rate of this host's link in bytes per microsecond, 0 when unknown (then no hint is given).
    pub line_rate_bytes_per_us: u32,
    /// Round-trip time assumed before the first measurement.
    pub rtt_guess_ns: u64,
    /// Lower bound of the retransmission time-out.
    pub rto_floor_ns: u64,
    /// When acknowledgements stop: transmit only the oldest packet again, not all that is due.
    pub probe_on_silence: bool,
    /// First quarantine of a path that lost a packet; doubles up to 512 times.
    pub quarantine_ns: u64,
    /// Tell the host of each transmission that is declared lost ([`Event::Lost`](crate::Event::Lost)).
    pub report_losses: bool,
    /// Longest time an acknowledgement is held back.
    pub ack_hold_ns: u64,
    /// Packets after which an acknowledgement is due.
    pub ack_every_packets: u32,
    /// Payload bytes after which an acknowledgement is due.
    pub ack_every_bytes: u32,
    /// First pause after "receiver not ready"; doubles up to `rnr_pause_max_ns`.
    pub rnr_pause_ns: u64,
    /// Longest pause after "receiver not ready".
    pub rnr_pause_max_ns: u64,
    /// Silence with data outstanding after which the peer is dead.
    pub dead_after_ns: u64,
    /// Idle time after which a sender forgets its connection.
    pub sender_idle_ns: u64,
    /// Idle time after which a receiver forgets a connection; more than `sender_idle_ns` plus
    /// `dead_after_ns`.
    pub receiver_idle_ns: u64,
}

impl Config {
    /// For a host with UDP sockets and busy processes: few paths, bursts that stay on one path,
    /// one acknowledgement per burst, a window that survives being descheduled.
    #[must_use]
    pub fn socket() -> Self {
        Self {
            max_message_bytes: 8928,
            queue_messages_max: 1 << 20,
            peers_max: 1 << 20,
            always_challenge: false,
            own_hosts: 0..0,
            overhead_bytes: 72,
            paths: 4,
            burst_packets_per_path: 64,
            burst_bytes_per_path: 64 << 10,
            burst_packets_per_peer: 64,
            congestion: CongestionKind::Delay,
            window_initial_bytes: 512 << 10,
            window_min_bytes: 64 << 10,
            window_max_bytes: 1536 << 10,
            mtu_bytes: 9000,
            target_rtt_share: 1.0,
            target_floor_ns: 500_000,
            pacing: false,
            use_hint: false,
            line_rate_bytes_per_us: 0,
            rtt_guess_ns: 100_000,
            rto_floor_ns: 5_000_000,
            probe_on_silence: true,
            quarantine_ns: 10_000_000,
            report_losses: false,
            ack_hold_ns: 50_000,
            ack_every_packets: 256,
            ack_every_bytes: 256 << 10,
            rnr_pause_ns: 100_000,
            rnr_pause_max_ns: 10_000_000,
            dead_after_ns: 8_000_000_000,
            sender_idle_ns: 10_000_000_000,
            receiver_idle_ns: 30_000_000_000,
        }
    }

    /// For a simulated network: exact clocks, an acknowledgement per packet, every packet on its
    /// own path, a window from the link's rate and the base round-trip time.
    ///
    /// `line_rate_bytes_per_us` is the rate of the slowest host link, `base_rtt_ns` the
    /// round-trip time of an empty network, `mtu_bytes` the size of a full packet on the wire.
    #[must_use]
    pub fn simulated(line_rate_bytes_per_us: u32, base_rtt_ns: u64, mtu_bytes: u32) -> Self {
        let bdp = u64::from(line_rate_bytes_per_us).saturating_mul(base_rtt_ns) / 1000;
        let bdp = u32::try_from(bdp).unwrap_or(u32::MAX / 2).max(mtu_bytes);
        Self {
            max_message_bytes: 65_000,
            paths: 64,
            burst_packets_per_path: 1,
            burst_bytes_per_path: 0,
            burst_packets_per_peer: 1,
            window_initial_bytes: bdp.saturating_add(bdp / 5),
            window_min_bytes: mtu_bytes / 8,
            window_max_bytes: bdp.saturating_add(bdp / 5 * 4),
            mtu_bytes,
            target_floor_ns: 0,
            pacing: true,
            use_hint: true,
            line_rate_bytes_per_us,
            rtt_guess_ns: base_rtt_ns,
            rto_floor_ns: 0,
            probe_on_silence: false,
            quarantine_ns: 200_000,
            report_losses: false,
            ack_hold_ns: 5_000,
            ack_every_packets: 1,
            ..Self::socket()
        }
    }
}
