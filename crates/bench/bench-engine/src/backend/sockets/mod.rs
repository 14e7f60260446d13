//! Plain sockets, as a program without any fabric library would use them: one system call for each
//! message or list of messages, polled without sleeping unless the job asks for events.

mod slots;
mod tcp;
mod udp;

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bench_record::FabricRecord;
use bench_record::failure::{Failure, plain};
use bench_record::spec::Operation;
use fabric::OutOfBand;

pub(crate) use self::tcp::Tcp;
pub(crate) use self::udp::Udp;

use super::Wants;
use super::unable::Unable;

/// The most sends and receives that may be outstanding. The slots are memory of this process, so
/// that the limit only refuses typing errors.
const DEPTH_MAX: usize = 1 << 20;

/// Refuses requirements that sockets cannot meet.
fn check(wants: &Wants) -> Result<(), Failure> {
    let fabric = || wants.fabric.clone();
    match wants.operation {
        Operation::Send => {}
        Operation::Tagged => return Err(Unable::Tags(fabric()).into()),
        Operation::Inject => return Err(Unable::Inject(fabric()).into()),
        Operation::Read | Operation::Write | Operation::InjectWrite => {
            return Err(Unable::PeerMemory(fabric()).into());
        }
        Operation::FetchAdd | Operation::CompareSwap | Operation::Add => {
            return Err(Unable::Atomics(fabric()).into());
        }
    }
    if wants.quiet {
        return Err(Unable::Silence(fabric()).into());
    }
    if let Some(domain) = &wants.domain {
        return Err(Unable::Domains { fabric: fabric(), domain: domain.clone() }.into());
    }
    if wants.tx_depth.max(wants.rx_depth) > DEPTH_MAX {
        return Err(Unable::Depth(DEPTH_MAX).into());
    }
    Ok(())
}

/// Returns any free port of the address that the control connection uses.
fn local(wants: &Wants) -> Result<SocketAddr, Failure> {
    let address = wants.source.as_deref().unwrap_or("127.0.0.1");
    let address: IpAddr = address
        .parse()
        .map_err(|_| Failure::Fabric(format!("{address:?} is no address for {}", wants.fabric)))?;
    Ok(SocketAddr::new(address, 0))
}

/// Returns the description of sockets for the record.
fn record(wants: &Wants, address: SocketAddr, max_message_bytes: usize) -> FabricRecord {
    FabricRecord {
        provider: wants.fabric.label(),
        fabric: "sockets".to_owned(),
        domain: address.ip().to_string(),
        mtu_bytes: None,
        max_message_bytes,
        inject_bytes: 0,
        tx_depth: DEPTH_MAX,
        rx_depth: DEPTH_MAX,
        text: format!(
            "{}: kernel defaults for buffers, one system call per send, no sleeping",
            wants.fabric.label()
        ),
        numa_node: None,
    }
}

/// Tells the peer this side's address and returns the address of the peer.
fn exchange(address: SocketAddr, oob: &mut dyn OutOfBand) -> Result<SocketAddr, Failure> {
    let theirs = oob.exchange(address.to_string().as_bytes()).map_err(Failure::Fabric)?;
    let theirs = String::from_utf8_lossy(&theirs);
    theirs.parse().map_err(|_| Failure::Fabric(format!("the peer's address is {theirs:?}")))
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::Fabric(format!("{what} failed: {}", plain(error)))
}

/// Makes a failure of an error for which the peer is the likely reason.
#[cold]
fn gone(doing: &'static str, error: &std::io::Error) -> Failure {
    Failure::PeerGone { doing: doing.to_owned(), reason: plain(error) }
}

/// The durations of the steps of the set-up.
struct Phases {
    before: Instant,
    setup_us: Vec<(String, f64)>,
}

impl Phases {
    fn start() -> Self {
        Self { before: Instant::now(), setup_us: Vec::new() }
    }

    fn done(&mut self, phase: &str) {
        let now = Instant::now();
        let took_us = (now - self.before).as_nanos() as f64 / 1_000.0;
        self.setup_us.push((phase.to_owned(), took_us));
        self.before = now;
    }
}
