//! The transports section of a scenario file, with defaults for what it leaves out.

use super::field::Bounded;
use super::network::Wrong;
use super::spec::{File, RoceCongestion, TcpCongestion};
use crate::id::{Ends, HostId};
use crate::topology::Fabric;
use crate::transport::roce::{DcqcnSetup, RoceSetup};
use crate::transport::tcp::{Algorithm, TcpSetup};
use crate::transport::{Kind, Posting, Setup, SrdSetup};
use std::sync::Arc;
use toml::Spanned;

/// Length of a packet in the published comparisons: 4,150 bytes on the wire.
const PACKET_BYTES: u32 = 4150;
const POSTED_MESSAGES: u32 = 128;
/// Maximum window; the engine adds packets to it.
const WINDOW_MAX_BYTES: u32 = u32::MAX / 2;
const SEND_BUFFER_BYTES: u32 = 4 << 20;
const BURST_BYTES: u32 = 64 << 10;
const PS_PER_MS: u64 = 1_000_000_000;
const PS_PER_US: u64 = 1_000_000;
const NS_PER_US: u64 = 1000;
/// Default timeout: 4.096 us x 2^14, which perftest sets and programs copy.
const ROCE_TIMEOUT_US: u32 = 67_109;
const ROCE_RETRIES: u32 = 7;

pub(super) fn of(file: &File, fabric: &Fabric) -> Setup {
    Setup { srd: srd(file, fabric), tcp: tcp(file), roce: roce(file) }
}

/// Finds settings that do not fit together.
pub(super) fn check(file: &File) -> Result<(), Wrong> {
    let roce = &file.transport.roce;
    let dcqcn = roce.congestion.as_ref().filter(|kind| *kind.get_ref() == RoceCongestion::Dcqcn);
    if let Some(kind) = dcqcn.filter(|_| file.network.mark_above_bytes.is_none()) {
        let problem = "\"dcqcn\" reacts to marks: set network.mark_above_bytes".to_owned();
        return Err((kind.span(), "transport.roce.congestion", problem));
    }
    let of_dcqcn = [
        ("transport.roce.cnp_interval_us", roce.cnp_interval_us.as_ref().map(Spanned::span)),
        ("transport.roce.additive_mbps", roce.additive_mbps.as_ref().map(Spanned::span)),
        ("transport.roce.hyper_mbps", roce.hyper_mbps.as_ref().map(Spanned::span)),
    ];
    let set = of_dcqcn.into_iter().find_map(|(field, span)| Some((field, span?)));
    match set.filter(|_| dcqcn.is_none()) {
        Some((field, span)) => {
            let problem = "it changes nothing without congestion = \"dcqcn\"".to_owned();
            Err((span, field, problem))
        }
        None => Ok(()),
    }
}

/// Returns why a field, named from the top of the file, changes nothing for the flows of the
/// scenario.
pub(super) fn idle_because(file: &File, field: &str) -> Option<String> {
    let used: Vec<Kind> = file.transports().collect();
    let users: &[Kind] = match field.strip_prefix("transport.")? {
        "kind" => {
            let all_name_one = file.named_transports().all(|kind| kind.is_some());
            return all_name_one.then(|| "every workload names its own".to_owned());
        }
        "paths"
        | "ack_every_packets"
        | "posted_messages"
        | "hint"
        | "pacing"
        | "initial_window_percent" => &[Kind::Srd],
        "tcp.congestion" => &[Kind::Tcp],
        other if other.starts_with("tcp.") => &[Kind::Tcp, Kind::Dctcp],
        other if other.starts_with("roce.") => &[Kind::Roce],
        _ => return None,
    };
    let names: Vec<&str> = users.iter().map(|kind| kind.name()).collect();
    let is_used = used.iter().any(|kind| users.contains(kind));
    (!is_used).then(|| format!("no flow uses {}", names.join(" or ")))
}

/// Returns the length of a full data packet on the wire.
pub(super) fn packet_bytes(file: &File) -> u32 {
    file.transport.packet_bytes.map_or(PACKET_BYTES, Bounded::get)
}

fn srd(file: &File, fabric: &Fabric) -> SrdSetup {
    let transport = &file.transport;
    let packet_bytes = packet_bytes(file);
    let rate = file.network.host_gbps().bytes_per_us();
    // The first and the last host are as far apart as any two.
    let farthest = Ends { src: HostId(0), dst: HostId(fabric.hosts() - 1) };
    let rtt_ps = fabric.base_rtt_ps(farthest, packet_bytes);
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
        window_initial_bytes: transport.initial_window_percent.map_or(
            preset.window_initial_bytes,
            |percent| {
                let bytes = bdp_bytes * u64::from(percent.get()) / 100;
                u32::try_from(bytes).unwrap_or(u32::MAX).min(WINDOW_MAX_BYTES)
            },
        ),
        // The application's depth bounds it for each flow.
        queue_messages_max: usize::MAX,
        ..preset
    };
    let posting = Posting {
        message_bytes: Kind::Srd.message_bytes(packet_bytes),
        depth: transport.posted_messages.map_or(POSTED_MESSAGES, Bounded::get),
    };
    SrdSetup { config: Arc::new(config), posting }
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
        rack: tcp.rack,
        hystart: tcp.hystart,
        prr: tcp.prr,
        delayed_ack: tcp.delayed_ack,
        send_buffer_bytes: tcp.send_buffer_bytes.map_or(SEND_BUFFER_BYTES, Bounded::get),
        burst_bytes: tcp.burst_bytes.map_or(BURST_BYTES, Bounded::get),
    }
}

fn roce(file: &File) -> RoceSetup {
    let roce = &file.transport.roce;
    let congestion = roce.congestion.as_ref().map(Spanned::get_ref);
    let bps = |mbps: u32| f64::from(mbps) * 1e6;
    let dcqcn = congestion.filter(|&&kind| kind == RoceCongestion::Dcqcn).map(|_| DcqcnSetup {
        cnp_interval_ps: u64::from(
            roce.cnp_interval_us.as_ref().map_or(50, |us| us.get_ref().get()),
        ) * PS_PER_US,
        line_bps: f64::from(file.network.host_gbps().bytes_per_us()) * 8e6,
        additive_bps: bps(roce.additive_mbps.as_ref().map_or(40, |mbps| mbps.get_ref().get())),
        hyper_bps: bps(roce.hyper_mbps.as_ref().map_or(400, |mbps| mbps.get_ref().get())),
    });
    let window_packets = roce.window_packets.map_or(POSTED_MESSAGES, Bounded::get);
    let timeout_us = roce.timeout_us.map_or(ROCE_TIMEOUT_US, Bounded::get);
    let config = rc::Config {
        is_window_fixed: congestion != Some(&RoceCongestion::Window),
        ack_every_messages: roce.ack_every_packets.map_or(1, Bounded::get),
        // Connections ask for less.
        timeout_min_ns: u64::from(timeout_us) * NS_PER_US,
        ..rc::Config::hardware(window_packets)
    };
    let message_bytes = Kind::Roce.message_bytes(packet_bytes(file));
    RoceSetup {
        config: Arc::new(config),
        posting: Posting { message_bytes, depth: window_packets },
        retries: roce.retries.map_or(ROCE_RETRIES, Bounded::get) as u8,
        dcqcn,
    }
}
