//! What is measured; rows share it.

use std::time::Duration;

use anyhow::Result;

use crate::effort::Effort;
use crate::floor;
use crate::tool::{self, EfaBench, Perftest, Tools, Wire};

const SMALL_BYTES: usize = 64;
const TINY_BYTES: usize = 16;
const LARGE_BYTES: usize = 8192;
const DEPTH: usize = 256;
/// What RDMA's own papers measure: a WRITE of a word, messages of 64 KiB, and 128 of them under
/// way.
const WORD_BYTES: usize = 8;
const LONG_BYTES: usize = 64 << 10;
const RC_DEPTH: usize = 128;
const LONG_MESSAGES: u32 = 100_000;
const CONNECTIONS: u32 = 1000;
const READ_BYTES: usize = 1 << 20;
/// READs under way in `read_bw`, and messages over `tcp` beside it.
const READ_DEPTH: usize = 16;
const STREAM_TIME: Duration = Duration::from_secs(1);
const PING_PONGS: u32 = 200_000;
const ROUND_TRIPS: u32 = 100_000;
const FI_ROUND_TRIPS: u32 = 50_000;
const SMALL_MESSAGES: u32 = 4_000_000;
const TINY_MESSAGES: u32 = 2_000_000;
/// Of what has a tenth of the rate.
const TCP_MESSAGES: u32 = 200_000;
const LARGE_MESSAGES: u32 = 500_000;
const MPI_BYTES: usize = 1 << 20;
const MPI_MESSAGES: u32 = 4_000;

/// What libfabric runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    /// The software device.
    Efa(Wire),
    Tcp,
    Shm,
}

/// A figure that is measured once in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Floors: 64 B to and fro in microseconds, 8 KiB in Gbit/s, 64 B in millions per second.
    UdpPingPong,
    UdpGoodput,
    UdpRate,
    RingPingPong,
    RingGoodput,
    RingRate,
    /// What perftest measures over SRD: 64 B in microseconds, 8 KiB in Gbit/s, 64 B in millions per
    /// second.
    SendLatency(Wire),
    SendGoodput(Wire),
    SendRate(Wire),
    /// SENDs of perftest, 64 B over RC of a RoCE device, in microseconds.
    RcSendLatency(Wire),
    /// Its WRITEs of 8 B, in microseconds.
    RcWriteLatency(Wire),
    /// Its SENDs of 64 KiB, in Gbit/s.
    RcSendGoodput(Wire),
    /// Its WRITEs of 64 KiB, in Gbit/s.
    RcWriteGoodput(Wire),
    /// Its SENDs of 64 B, in millions per second.
    RcSendRate(Wire),
    /// Connections of a RoCE device that `cmtime` sets up by rdma_cm in a second.
    CmRate,
    /// `fi_pingpong`, 64 B in microseconds.
    FiPingPong(Provider),
    /// `efa-bench` over libfabric, 16 B in millions per second.
    TinyRate(Provider),
    /// 8 KiB and 1 MiB over libfabric's `tcp` in Gbit/s.
    TcpGoodput,
    TcpLong,
    /// RDMA READ of 1 MiB in Gbit/s.
    Read(Wire),
    /// Open MPI: 64 B in microseconds, 1 MiB in Gbit/s.
    MpiLatency(Provider),
    MpiGoodput(Provider),
}

impl Quantity {
    /// It is measured on the software device.
    pub(super) const fn is_ours(self) -> bool {
        match self {
            Self::SendLatency(_) | Self::SendGoodput(_) | Self::SendRate(_) | Self::Read(_) => true,
            Self::RcSendLatency(_) | Self::RcWriteLatency(_) | Self::RcSendRate(_) => true,
            Self::RcSendGoodput(_) | Self::RcWriteGoodput(_) | Self::CmRate => true,
            Self::FiPingPong(on)
            | Self::TinyRate(on)
            | Self::MpiLatency(on)
            | Self::MpiGoodput(on) => {
                matches!(on, Provider::Efa(_))
            }
            _ => false,
        }
    }

    /// Measures it.
    ///
    /// # Errors
    /// A program is missing, fails or prints something unknown; or fewer than two cores.
    pub(super) fn measure(self, tools: &Tools, effort: Effort) -> Result<f64> {
        let count = |messages| effort.messages(messages);
        let trips = effort.messages(PING_PONGS) as usize;
        let time = effort.time(STREAM_TIME);
        let over = |wire| tools.over(wire);
        Ok(match self {
            Self::UdpPingPong => floor::half_round_trip_ns(trips)? / 1e3,
            Self::UdpGoodput => floor::stream(LARGE_BYTES, time)?.gbit_per_s,
            Self::UdpRate => floor::stream(SMALL_BYTES, time)?.segments_per_s / 1e6,
            Self::RingPingPong => floor::ring_half_round_trip_ns(trips)? / 1e3,
            Self::RingGoodput => floor::ring_stream(LARGE_BYTES, time)?.gbit_per_s,
            Self::RingRate => floor::ring_stream(SMALL_BYTES, time)?.segments_per_s / 1e6,
            Self::SendLatency(wire)
            | Self::SendGoodput(wire)
            | Self::SendRate(wire)
            | Self::RcSendLatency(wire)
            | Self::RcWriteLatency(wire)
            | Self::RcSendGoodput(wire)
            | Self::RcWriteGoodput(wire)
            | Self::RcSendRate(wire) => self.by_perftest(&over(wire), effort)?,
            Self::CmRate => tool::connections_per_s(tools, count(CONNECTIONS))?,
            Self::FiPingPong(on) => {
                let round_trips = count(FI_ROUND_TRIPS);
                tool::half_round_trip_us(&on.tools(tools), on.name(), SMALL_BYTES, round_trips)?
            }
            Self::TinyRate(on) => tiny_rate(on, tools, effort)?,
            Self::TcpGoodput => tool::tcp_gbit_per_s(tools, LARGE_BYTES, DEPTH)?,
            Self::TcpLong => tool::tcp_gbit_per_s(tools, READ_BYTES, READ_DEPTH)?,
            Self::Read(wire) => tool::read_gbit_per_s(&over(wire), READ_BYTES, time)?,
            Self::MpiLatency(on) => {
                let round_trips = count(FI_ROUND_TRIPS);
                tool::mpi_half_round_trip_us(&on.tools(tools), on.name(), SMALL_BYTES, round_trips)?
            }
            Self::MpiGoodput(on) => {
                let messages = count(MPI_MESSAGES);
                tool::mpi_gbit_per_s(&on.tools(tools), on.name(), MPI_BYTES, messages)?
            }
        })
    }
}

impl Quantity {
    fn by_perftest(self, tools: &Tools, effort: Effort) -> Result<f64> {
        let latency = |program: Perftest, bytes| {
            program.latency_us(tools, bytes, effort.messages(ROUND_TRIPS))
        };
        let stream = |program: Perftest, bytes, depth, messages| {
            program.stream(tools, bytes, depth, effort.messages(messages))
        };
        let rate = |program, depth| stream(program, SMALL_BYTES, depth, SMALL_MESSAGES);
        let long = |program| stream(program, LONG_BYTES, RC_DEPTH, LONG_MESSAGES);
        Ok(match self {
            Self::SendLatency(_) => latency(Perftest::Srd, SMALL_BYTES)?,
            Self::RcSendLatency(_) => latency(Perftest::RcSend, SMALL_BYTES)?,
            Self::RcWriteLatency(_) => latency(Perftest::RcWrite, WORD_BYTES)?,
            Self::SendRate(_) => rate(Perftest::Srd, DEPTH)?.segments_per_s / 1e6,
            Self::RcSendRate(_) => rate(Perftest::RcSend, RC_DEPTH)?.segments_per_s / 1e6,
            Self::RcSendGoodput(_) => long(Perftest::RcSend)?.gbit_per_s,
            Self::RcWriteGoodput(_) => long(Perftest::RcWrite)?.gbit_per_s,
            _ => stream(Perftest::Srd, LARGE_BYTES, DEPTH, LARGE_MESSAGES)?.gbit_per_s,
        })
    }
}

impl Provider {
    const fn name(self) -> &'static str {
        match self {
            Self::Efa(_) => "efa",
            Self::Tcp => "tcp",
            Self::Shm => "shm",
        }
    }

    fn tools(self, tools: &Tools) -> Tools {
        match self {
            Self::Efa(wire) => tools.over(wire),
            Self::Tcp | Self::Shm => tools.clone(),
        }
    }
}

fn tiny_rate(on: Provider, tools: &Tools, effort: Effort) -> Result<f64> {
    let (fabric, messages) = match on {
        Provider::Efa(_) => ("libfabric:efa", TINY_MESSAGES),
        Provider::Tcp | Provider::Shm => (tool::TCP, TCP_MESSAGES),
    };
    let stream = EfaBench {
        benchmark: "bandwidth",
        fabric,
        operation: None,
        bytes: TINY_BYTES,
        depth: Some(DEPTH),
        messages: effort.messages(messages),
    };
    Ok(stream.rate(&on.tools(tools))?.segments_per_s / 1e6)
}
