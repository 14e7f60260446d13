//! Settings of an endpoint and the two presets.

use core::ops::Range;

/// The algorithm that sizes the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// Delay-based window (SRD-8).
    Delay,
    /// The initial window never changes: for tests and for links that cannot be congested.
    Fixed,
}

/// Constants of the protocol machine.
///
/// Start from [`Config::socket`], whose values are the defaults below, or [`Config::simulated`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The longest message that may be sent.
    ///
    /// * Unit: bytes.
    /// * Range: 1 to 65,000.
    /// * Default: 8,928 (simulated: 65,000).
    /// * Change it when the network carries larger datagrams, or smaller ones must not be
    ///   fragmented.
    pub max_message_bytes: u32,
    /// The most messages that may be queued to one peer, sent or not.
    ///
    /// * Unit: messages.
    /// * Range: at least 1.
    /// * Default: 1,048,576.
    /// * Change it when a program that posts without end must be stopped earlier, to save memory.
    pub queue_messages_max: usize,
    /// The most peers that the datagrams of strangers can make this endpoint remember.
    ///
    /// * Unit: peers.
    /// * Range: at least 1.
    /// * Default: 1,048,576.
    /// * Change it when memory is short, or an attacker must find less of it to fill.
    pub peers_max: usize,
    /// Whether every sender must prove its address before it opens a connection (SRD-3.10).
    ///
    /// * Unit: none.
    /// * Range: `true` or `false`.
    /// * Default: false.
    /// * Change it when source addresses may be forged. It costs a round trip per connection.
    pub always_challenge: bool,
    /// Addresses of which one machine has any number, such as those of loopback. The wrong queue
    /// keys from all of them share one counter (SRD-3.12).
    ///
    /// * Unit: host addresses.
    /// * Range: any; an empty range is none.
    /// * Default: 0..0.
    /// * Change it when peers live on loopback addresses.
    pub own_hosts: Range<u64>,
    /// The bytes that a packet costs on the wire besides its payload. The window and pacing count
    /// it.
    ///
    /// * Unit: bytes.
    /// * Range: at least 0.
    /// * Default: 72.
    /// * Change it when headers below SRD are larger or smaller than those of UDP over IPv4 over
    ///   Ethernet.
    pub overhead_bytes: u32,
    /// The number of paths (source ports) that the host offers.
    ///
    /// * Unit: paths.
    /// * Range: 1 to 256.
    /// * Default: 4 (simulated: 64).
    /// * Change it when the network has more equal paths than this, or only one.
    pub paths: u16,
    /// The number of consecutive packets of a burst that stay on one path, so that one system call
    /// sends them.
    ///
    /// * Unit: packets.
    /// * Range: at least 1.
    /// * Default: 64 (simulated: 1).
    /// * Change it when the host sends packets one by one; then 1 spreads them best.
    pub burst_packets_per_path: u32,
    /// The payload of a burst that stays on one path.
    ///
    /// * Unit: bytes.
    /// * Range: at least 0; 0 changes the path with each packet that has payload.
    /// * Default: 65,536 (simulated: 0).
    /// * Change it when segmentation offload takes longer or shorter trains.
    pub burst_bytes_per_path: u32,
    /// The number of packets that leave to one peer before the next peer has its turn.
    ///
    /// * Unit: packets.
    /// * Range: at least 1.
    /// * Default: 64 (simulated: 1).
    /// * Change it when peers must take turns more often, at the cost of shorter trains.
    pub burst_packets_per_peer: u32,
    /// The algorithm that sizes the window.
    ///
    /// * Unit: none.
    /// * Range: a [`CongestionKind`].
    /// * Default: Delay.
    /// * Change it when a test or a link without competitors needs a window that never moves.
    pub congestion: CongestionKind,
    /// The first window of a connection.
    ///
    /// * Unit: bytes.
    /// * Range: `window_min_bytes` to `window_max_bytes`.
    /// * Default: 524,288 (simulated: 1.2 bandwidth-delay products).
    /// * Change it when short transfers matter: a larger one starts faster, and overflows small
    ///   buffers.
    pub window_initial_bytes: u32,
    /// The smallest window. Below one packet it becomes a rate.
    ///
    /// * Unit: bytes.
    /// * Range: 1 to `window_max_bytes`.
    /// * Default: 65,536 (simulated: an eighth of `mtu_bytes`).
    /// * Change it when hundreds of senders share one link; then it must be below a packet.
    pub window_min_bytes: u32,
    /// The largest window.
    ///
    /// * Unit: bytes.
    /// * Range: at least `mtu_bytes`.
    /// * Default: 1,572,864 (simulated: 1.8 bandwidth-delay products).
    /// * Change it when the product of bandwidth and round-trip time is larger.
    pub window_max_bytes: u32,
    /// The size of a full packet, with which the window algorithm calculates.
    ///
    /// * Unit: bytes.
    /// * Range: at least 1.
    /// * Default: 9,000.
    /// * Change it when full packets have another size.
    pub mtu_bytes: u32,
    /// The queueing delay that the window aims at, as a share of the base round-trip time.
    ///
    /// * Unit: none, a ratio.
    /// * Range: above 0.
    /// * Default: 1.0.
    /// * Change it when queues must be shorter, at the cost of throughput.
    pub target_rtt_share: f32,
    /// The least queueing delay that the window aims at.
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least 0.
    /// * Default: 500,000 (simulated: 0).
    /// * Change it when clocks and schedulers disturb measurements less or more than this.
    pub target_floor_ns: u64,
    /// Whether packets are spaced out at 1.25 windows per round-trip time.
    ///
    /// * Unit: none.
    /// * Range: `true` or `false`.
    /// * Default: false (simulated: `true`).
    /// * Change it when the host has timers precise enough to send single packets.
    pub pacing: bool,
    /// Whether the receiver's hint of a fair share caps the window (SRD-8.6).
    ///
    /// * Unit: none.
    /// * Range: `true` or `false`.
    /// * Default: false (simulated: `true`).
    /// * Change it when receivers know the rate of their links (`line_rate_bytes_per_us`).
    pub use_hint: bool,
    /// The rate of this host's link. From it the endpoint computes its hints to senders.
    ///
    /// * Unit: bytes per microsecond.
    /// * Range: at least 0; 0 is unknown, and no hint is given.
    /// * Default: 0 (simulated: the rate of the slowest link).
    /// * Change it when the rate is known and incasts are expected.
    pub line_rate_bytes_per_us: u32,
    /// The round-trip time assumed before the first measurement.
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least 1.
    /// * Default: 100,000 (simulated: that of the empty network).
    /// * Change it when peers are further away or nearer.
    pub rtt_guess_ns: u64,
    /// The least retransmission timeout.
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least 0; 0 leaves it to the measurements.
    /// * Default: 5,000,000 (simulated: 0).
    /// * Change it when receivers are descheduled for longer, or losses must be repaired sooner.
    pub rto_floor_ns: u64,
    /// Whether silence repeats only the oldest packet of each path instead of everything overdue.
    ///
    /// * Unit: none.
    /// * Range: `true` or `false`.
    /// * Default: true (simulated: `false`).
    /// * Change it when silence means lost packets rather than a process that does not run; then
    ///   repeat all.
    pub probe_on_silence: bool,
    /// The first quarantine of a path that lost a packet. It doubles up to 512 times its length.
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least 0.
    /// * Default: 10,000,000 (simulated: 200,000).
    /// * Change it when routing repairs broken paths faster or slower.
    pub quarantine_ns: u64,
    /// Whether the host is notified of each transmission that is declared lost
    /// ([`Event::Lost`](crate::Event::Lost)).
    ///
    /// * Unit: none.
    /// * Range: `true` or `false`.
    /// * Default: false.
    /// * Change it when a trace is written.
    pub report_losses: bool,
    /// The time for which an acknowledgement may be held back.
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least 0.
    /// * Default: 50,000 (simulated: 5,000).
    /// * Change it when acknowledgements should ride on answers that take longer.
    pub ack_hold_ns: u64,
    /// After how many packets an acknowledgement is due.
    ///
    /// * Unit: packets.
    /// * Range: at least 1.
    /// * Default: 256 (simulated: 1).
    /// * Change it when an acknowledgement costs less than a late one, as where no system call is
    ///   made.
    pub ack_every_packets: u32,
    /// After how much payload an acknowledgement is due.
    ///
    /// * Unit: bytes.
    /// * Range: at least 1.
    /// * Default: 262,144.
    /// * Change it when the window is smaller than a few times this.
    pub ack_every_bytes: u32,
    /// The first pause after "receiver not ready". It doubles up to `rnr_pause_max_ns`.
    ///
    /// * Unit: nanoseconds.
    /// * Range: 1 to `rnr_pause_max_ns`.
    /// * Default: 100,000.
    /// * Change it when receivers post later or sooner than this.
    pub rnr_pause_ns: u64,
    /// The longest pause after "receiver not ready".
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least `rnr_pause_ns`.
    /// * Default: 10,000,000.
    /// * Change it when receivers must be found ready sooner, at the cost of more attempts.
    pub rnr_pause_max_ns: u64,
    /// The time for which a peer may be silent, with messages outstanding, before it counts as
    /// dead.
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least 1.
    /// * Default: 8,000,000,000.
    /// * Change it when peers are stopped for longer, or failures must be told sooner.
    pub dead_after_ns: u64,
    /// After how much idle time a sender forgets its connection.
    ///
    /// * Unit: nanoseconds.
    /// * Range: at least 1.
    /// * Default: 10,000,000,000.
    /// * Change it when connections rest for longer and opening them again is too slow.
    pub sender_idle_ns: u64,
    /// After how much idle time a receiver forgets a connection.
    ///
    /// * Unit: nanoseconds.
    /// * Range: more than `sender_idle_ns` plus `dead_after_ns`.
    /// * Default: 30,000,000,000.
    /// * Change it when either of those two changes.
    pub receiver_idle_ns: u64,
}

impl Config {
    /// The settings for a host with UDP sockets and busy processes.
    ///
    /// It has few paths, bursts that stay on one path, one acknowledgement per burst, and a window
    /// that survives a process that is descheduled.
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

    /// The settings for a simulated network with exact clocks.
    ///
    /// It has an acknowledgement per packet, every packet on its own path, and a window from the
    /// link's rate and the base round-trip time.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each field of [`Config`] with the lines of its documentation.
    fn documented() -> Vec<(&'static str, String)> {
        let source = include_str!("config.rs");
        let body = source.split_once("pub struct Config {\n").expect("the struct").1;
        let body = body.split_once("\n}\n").expect("its end").0;
        let mut fields = Vec::new();
        let mut text = String::new();
        for line in body.lines().map(str::trim) {
            match line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')) {
                Some((name, _)) => fields.push((name, std::mem::take(&mut text))),
                None => text = format!("{text}\n{}", line.trim_start_matches("///").trim()),
            }
        }
        fields
    }

    #[test]
    fn every_field_says_what_it_is_and_when_to_change_it() {
        let fields = documented();
        assert_eq!(fields.len(), 33);
        for (name, text) in fields {
            for part in ["\n* Unit: ", "\n* Range: ", "\n* Default: ", "\n* Change it when "] {
                assert!(text.contains(part), "{name} lacks {part:?}");
            }
        }
    }

    #[test]
    fn the_defaults_that_are_documented_are_those_of_sockets() {
        let values = format!("{:?}", Config::socket());
        for (name, text) in documented() {
            let default = text.split_once("* Default: ").expect(name).1;
            let default = default.split_whitespace().next().expect(name).trim_end_matches('.');
            let value = format!(" {name}: {}", default.replace(',', ""));
            let is_value = |end: &str| values.contains(&format!("{value}{end}"));
            assert!(is_value(", ") || is_value(" }"), "{name} has not {default}: {values}");
        }
    }
}
