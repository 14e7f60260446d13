//! What a scenario file says about transports, with what it leaves out.

use super::field::Bounded;
use super::spec::{File, TcpCongestion};
use crate::topology::Fabric;
use crate::transport::tcp::{Algorithm, TcpSetup};
use crate::transport::{Kind, Posting, Setup, SrdSetup};

/// Packet of the published comparisons: 4,150 bytes on the wire.
const PACKET_BYTES: u32 = 4150;
const POSTED_MESSAGES: u32 = 128;
const SEND_BUFFER_BYTES: u32 = 4 << 20;
const BURST_BYTES: u32 = 64 << 10;
const PS_PER_MS: u64 = 1_000_000_000;

pub(super) fn of(file: &File, fabric: &Fabric) -> Setup {
    Setup { srd: srd(file, fabric), tcp: tcp(file) }
}

/// A full data packet on the wire.
pub(super) fn packet_bytes(file: &File) -> u32 {
    file.transport.packet_bytes.map_or(PACKET_BYTES, Bounded::get)
}

fn srd(file: &File, fabric: &Fabric) -> SrdSetup {
    let transport = &file.transport;
    let packet_bytes = packet_bytes(file);
    let rate = file.network.gbps.bytes_per_us();
    // The first and the last host are as far apart as any two.
    let rtt_ps = fabric.base_rtt_ps(0, fabric.hosts() - 1, packet_bytes);
    let preset = srd::Config::simulated(rate, rtt_ps / 1000, packet_bytes);
    let bdp_bytes = u64::from(rate) * rtt_ps / 1_000_000;
    let config = srd::Config {
        overhead_bytes: Kind::Srd.overhead_bytes(),
        paths: transport.paths.map_or(preset.paths, |paths| paths.get() as u16),
        ack_every_packets: transport
            .ack_every_packets
            .map_or(preset.ack_every_packets, Bounded::get),
        use_hint: transport.hint.unwrap_or(preset.use_hint),
        pacing: transport.pacing.unwrap_or(preset.pacing),
        window_initial_bytes: transport
            .initial_window_percent
            .map_or(preset.window_initial_bytes, |percent| {
                (bdp_bytes * u64::from(percent.get()) / 100) as u32
            }),
        ..preset
    };
    let posting = Posting {
        message_bytes: Kind::Srd.message_bytes(packet_bytes),
        depth: transport.posted_messages.map_or(POSTED_MESSAGES, Bounded::get),
    };
    SrdSetup { config, posting }
}

fn tcp(file: &File) -> TcpSetup {
    let tcp = &file.transport.tcp;
    TcpSetup {
        algorithm: match tcp.congestion {
            TcpCongestion::Cubic => Algorithm::Cubic,
            TcpCongestion::NewReno => Algorithm::NewReno,
        },
        mss_bytes: Kind::Tcp.message_bytes(packet_bytes(file)),
        initial_window_packets: tcp.initial_window_packets.map_or(10, Bounded::get),
        rto_min_ps: u64::from(tcp.min_rto_ms.map_or(50, Bounded::get)) * PS_PER_MS,
        delayed_ack: tcp.delayed_ack,
        send_buffer_bytes: tcp.send_buffer_bytes.map_or(SEND_BUFFER_BYTES, Bounded::get),
        burst_bytes: tcp.burst_bytes.map_or(BURST_BYTES, Bounded::get),
    }
}
