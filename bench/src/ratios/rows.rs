//! The rows of the table: what stands beside what, and what is wanted of it.

use super::quantity::{Provider, Quantity};
use crate::comparison::{Bound, Comparison};
use crate::tool::Wire;

/// A row and what fills it.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) wire: Wire,
    pub(super) row: Comparison,
    pub(super) ours: Quantity,
    pub(super) reference: Option<Quantity>,
}

impl Compared {
    fn new(
        wire: Wire,
        what: &'static str,
        ours: Quantity,
        unit: &'static str,
        (reference, name): Reference,
        wanted: Bound,
    ) -> Self {
        let section = match wire {
            Wire::Auto => AUTO,
            Wire::Udp => UDP,
        };
        let row = Comparison { section, ..Comparison::new(what, unit, name, wanted) };
        Self { wire, row, ours, reference: Some(reference) }
    }

    const fn aim(mut self, aim: f64) -> Self {
        self.row.aim = Some(aim);
        self
    }

    /// Its name: "udp ib_send_lat 64 B UDP ping-pong".
    pub(super) fn name(&self) -> String {
        let wire = match self.wire {
            Wire::Auto => "auto",
            Wire::Udp => "udp",
        };
        format!("{wire} {} {}", self.row.what, self.row.reference_name)
    }
}

const AUTO: &str = "Default wire (memory between programs of one user on one machine):";
const UDP: &str = "UDP (softefa run --wire udp):";
const FLOORS: &str = "Floors of this machine:";

use Bound::{AtLeast, Nothing, RatioAtLeast, RatioAtMost};
use Quantity as Q;

const SEND_LAT: &str = "ib_send_lat 64 B";
const SEND_BW: &str = "ib_send_bw 8 KiB";
const SEND_RATE: &str = "ib_send_bw 64 B";
const RC_LAT: &str = "RC send 64 B";
const RC_WRITE_LAT: &str = "RC write 8 B";
const RC_SEND: &str = "RC send 64 KiB";
const RC_WRITE: &str = "RC write 64 KiB";
/// Three times the best that was published of the kernel's rxe on one machine, 8.7 Gbit/s.
const THREE_RXE: Bound = AtLeast(26.1);
const RDMA_CM: &str = "rdma_cm connections";
const FI_PINGPONG: &str = "fi_pingpong 64 B";
const READ: &str = "RDMA READ 1 MiB";

/// What something is compared with, and its name.
type Reference = (Quantity, &'static str);

const RING: &str = "bare ring";
const GSO: &str = "UDP GSO/GRO";
const TCP: &str = "libfabric tcp";
const UDP_PING: Reference = (Q::UdpPingPong, "UDP ping-pong");
const FI_SHM: Reference = (Q::FiPingPong(Provider::Shm), "libfabric shm");
const FI_TCP: Reference = (Q::FiPingPong(Provider::Tcp), TCP);
const READ_TCP: Reference = (Q::TcpLong, TCP);

/// Soft-EFA beside what is below and beside it.
pub(super) fn all() -> Vec<Compared> {
    let mut all = over_default();
    all.extend(over_udp());
    all
}

fn over_default() -> Vec<Compared> {
    let wire = Wire::Auto;
    let on = Provider::Efa(wire);
    let row =
        |what, unit, ours, beside, wanted| Compared::new(wire, what, ours, unit, beside, wanted);
    let mpi_lat = (Q::MpiLatency(Provider::Tcp), TCP);
    let mpi_bw = (Q::MpiGoodput(Provider::Tcp), TCP);
    let ring = (Q::RingGoodput, RING);
    let tiny_tcp = (Q::TinyRate(Provider::Tcp), TCP);
    vec![
        row(SEND_LAT, "us", Q::SendLatency(wire), FI_SHM, RatioAtMost(2.0)).aim(1.3),
        row(SEND_LAT, "us", Q::SendLatency(wire), (Q::RingPingPong, RING), Nothing),
        row(FI_PINGPONG, "us", Q::FiPingPong(on), FI_TCP, RatioAtMost(0.35)).aim(0.2),
        row(SEND_BW, "Gbit/s", Q::SendGoodput(wire), (Q::RingGoodput, RING), RatioAtLeast(0.6))
            .aim(0.85),
        row(SEND_RATE, "M/s", Q::SendRate(wire), (Q::RingRate, RING), AtLeast(7.5)).aim(12.0),
        row("efa-bench 16 B", "M/s", Q::TinyRate(on), tiny_tcp, AtLeast(3.0)).aim(4.0),
        row("Open MPI 64 B", "us", Q::MpiLatency(on), mpi_lat, RatioAtMost(0.4)),
        row("Open MPI 1 MiB", "Gbit/s", Q::MpiGoodput(on), mpi_bw, RatioAtLeast(1.5)),
        row(READ, "Gbit/s", Q::Read(wire), READ_TCP, RatioAtLeast(2.0)),
        row(RC_LAT, "us", Q::RcSendLatency(wire), FI_SHM, Nothing),
        row(RC_WRITE_LAT, "us", Q::RcWriteLatency(wire), FI_SHM, RatioAtMost(3.0)).aim(1.5),
        row(RC_SEND, "Gbit/s", Q::RcSendGoodput(wire), ring, RatioAtLeast(0.5)).aim(0.8),
        row(RC_WRITE, "Gbit/s", Q::RcWriteGoodput(wire), ring, RatioAtLeast(0.5)).aim(0.8),
        row(RC_LAT, "M/s", Q::RcSendRate(wire), (Q::RingRate, RING), AtLeast(6.0)).aim(8.0),
        connections().aim(5000.0),
    ]
}

fn over_udp() -> Vec<Compared> {
    let wire = Wire::Udp;
    let gso = (Q::UdpGoodput, GSO);
    let row =
        |what, unit, ours, beside, wanted| Compared::new(wire, what, ours, unit, beside, wanted);
    vec![
        row(SEND_LAT, "us", Q::SendLatency(wire), UDP_PING, RatioAtMost(1.35)).aim(1.2),
        row(FI_PINGPONG, "us", Q::FiPingPong(Provider::Efa(wire)), FI_TCP, RatioAtMost(1.0)),
        row(SEND_BW, "Gbit/s", Q::SendGoodput(wire), (Q::UdpGoodput, GSO), RatioAtLeast(0.75))
            .aim(0.85),
        row(SEND_BW, "Gbit/s", Q::SendGoodput(wire), (Q::TcpGoodput, TCP), RatioAtLeast(3.0)),
        row(SEND_RATE, "M/s", Q::SendRate(wire), (Q::UdpRate, GSO), AtLeast(5.0)).aim(8.0),
        row(READ, "Gbit/s", Q::Read(wire), READ_TCP, RatioAtLeast(1.2)),
        row(RC_LAT, "us", Q::RcSendLatency(wire), UDP_PING, RatioAtMost(1.6)).aim(1.2),
        row(RC_SEND, "Gbit/s", Q::RcSendGoodput(wire), gso, RatioAtLeast(0.6)).aim(0.8),
        row(RC_WRITE, "Gbit/s", Q::RcWriteGoodput(wire), gso, RatioAtLeast(0.6)).aim(0.8),
        row(RC_WRITE, "Gbit/s", Q::RcWriteGoodput(wire), READ_TCP, THREE_RXE),
        row(RC_LAT, "M/s", Q::RcSendRate(wire), (Q::UdpRate, GSO), AtLeast(3.0)).aim(8.0),
    ]
}

/// Nothing here is like it: each connection is four messages, a queue pair, and its way through
/// four states.
fn connections() -> Compared {
    let row = Comparison { section: AUTO, ..Comparison::new(RDMA_CM, "/s", "", AtLeast(500.0)) };
    Compared { wire: Wire::Auto, row, ours: Q::CmRate, reference: None }
}

/// Floors alone.
pub(super) fn floors() -> Vec<Compared> {
    let row = |ours, wire, what, unit| {
        let row = Comparison { section: FLOORS, ..Comparison::new(what, unit, "", Nothing) };
        Compared { wire, row, ours, reference: None }
    };
    vec![
        row(Q::RingPingPong, Wire::Auto, "ring 64 B, half a round trip", "us"),
        row(Q::RingGoodput, Wire::Auto, "ring 8 KiB", "Gbit/s"),
        row(Q::RingRate, Wire::Auto, "ring 64 B", "M/s"),
        row(Q::UdpPingPong, Wire::Udp, "UDP 64 B, half a round trip", "us"),
        row(Q::UdpGoodput, Wire::Udp, "UDP GSO/GRO 8 KiB", "Gbit/s"),
        row(Q::UdpRate, Wire::Udp, "UDP GSO/GRO 64 B", "M/s"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_a_name_of_its_own() {
        let mut names: Vec<String> = all().iter().map(Compared::name).collect();
        assert!(names.contains(&"udp ib_send_lat 64 B UDP ping-pong".to_owned()), "{names:?}");
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn rows_of_a_wire_stand_together_below_its_name() {
        let rows = all();
        let udp_from = rows.iter().position(|own| own.wire == Wire::Udp).expect("UDP");
        assert!(rows[udp_from..].iter().all(|own| own.wire == Wire::Udp && own.row.section == UDP));
        assert!(rows[..udp_from].iter().all(|own| own.row.section == AUTO));
    }

    #[test]
    fn an_aim_is_harder_than_what_must_be() {
        for Compared { row, .. } in all() {
            let Some(aim) = row.aim else { continue };
            let is_harder = match row.wanted {
                RatioAtMost(limit) => aim < limit,
                RatioAtLeast(limit) | AtLeast(limit) => aim > limit,
                Bound::RatioWithin(_) | Nothing => false,
            };
            assert!(is_harder, "{row:?}");
        }
    }
}
