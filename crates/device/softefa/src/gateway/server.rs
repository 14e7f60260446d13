//! The gateway itself: what comes to its port goes to the programs that it is for.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use cm::Seed;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::counts::Counts;
use super::door::{self, Door, Holder};
use super::envelope;
use super::judge::{self, Arrived, Whose};
use super::listener::{BUFFER_LEN, Incoming, Listener};
use super::programs::Programs;
use super::stand_in::StandIn;
use super::table::Seat;
use crate::address::{NOWHERE, is_of_a_link};
use crate::host;
use crate::interface;

/// The number of datagrams that are taken of one socket before another has its turn.
const DATAGRAMS_PER_TURN: usize = 64;
const EVENTS: usize = 64;
/// The name of the programs in the set; listeners have their index.
const PROGRAMS: u64 = u64::MAX;

/// The reason why a gateway cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenGatewayError {
    /// Somebody has the port.
    #[error(
        "UDP port {} of {} is taken: by the kernel's RoCE (rdma link, rxe), or another program; end it, or choose --address or --port",
        at.port(), at.ip()
    )]
    Taken {
        /// Address and port.
        at: SocketAddr,
    },
    /// There is a gateway.
    #[error(
        "another gateway of UDP port {port} runs here, process {pid} of user {uid}; one serves all programs of a network namespace"
    )]
    Running {
        /// The port.
        port: u16,
        /// Its process.
        pid: i32,
        /// The user whose it is.
        uid: u32,
    },
    /// Somebody has the name by which programs find a gateway.
    #[error(
        "process {pid} of user {uid} has the name of the gateway of UDP port {port} and does not answer as one; end it, or choose --port"
    )]
    NameTaken {
        /// The port.
        port: u16,
        /// The process.
        pid: i32,
        /// The user whose it is.
        uid: u32,
    },
    /// Somebody has that name, and waits for nobody.
    #[error(
        "a process has the name of the gateway of UDP port {port} and answers nobody; `ss -xap` as root shows it (softefa-gateway); end it, or choose --port"
    )]
    NameHeld {
        /// The port.
        port: u16,
    },
    /// No interface has the address.
    #[error("{addr} is no address of this machine; choose one that `ip addr` shows")]
    NotLocal {
        /// The address.
        addr: IpAddr,
    },
    /// The operating system refused something.
    #[error("UDP port {} of {} cannot be served: {source}", at.port(), at.ip())]
    Io {
        /// Address and port.
        at: SocketAddr,
        /// The reason why.
        #[source]
        source: io::Error,
    },
}

/// Serves the port of some addresses of this machine.
#[derive(Debug)]
pub struct Server {
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    programs: Programs,
    stand_in: StandIn,
    counts: Counts,
    buffer: Box<[u8; BUFFER_LEN]>,
}

impl Server {
    /// Takes `port` at each of `addrs`, or at all addresses of this machine when there are none or
    /// 0.0.0.0 or ::. IP headers, which the ICRC covers, are seen if that is wanted and allowed.
    ///
    /// # Errors
    /// [`OpenGatewayError`].
    pub fn open(
        addrs: &[IpAddr],
        port: u16,
        may_see_headers: bool,
    ) -> Result<Self, OpenGatewayError> {
        let door = Door::open(port).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => running(port),
            _ => OpenGatewayError::Io { at: SocketAddr::new(NOWHERE, port), source },
        })?;
        let listen = |addr: IpAddr| {
            let at = SocketAddr::new(addr, port);
            Listener::open(at, may_see_headers).map_err(|source| match source.kind() {
                io::ErrorKind::AddrInUse => OpenGatewayError::Taken { at },
                io::ErrorKind::AddrNotAvailable => OpenGatewayError::NotLocal { addr },
                _ => OpenGatewayError::Io { at, source },
            })
        };
        let mut listeners = Vec::new();
        for addr in each_once(addrs) {
            match listen(addr) {
                // Nobody has named it, and IPv6 still looks whether another host has it.
                Err(OpenGatewayError::NotLocal { .. }) if !addrs.contains(&addr) => {}
                listener => listeners.push(listener?),
            }
        }
        let failed = |source| OpenGatewayError::Io { at: SocketAddr::new(NOWHERE, port), source };
        let served = listeners.iter().map(|listener| listener.at().ip()).collect();
        let programs = Programs::open(door, served).map_err(failed)?;
        let epoll = watch(&programs, &listeners).map_err(failed)?;
        let seed = Seed(host::unguessable_bytes().map_err(failed)?);
        Ok(Self {
            epoll,
            listeners,
            programs,
            stand_in: StandIn::new(seed),
            counts: Counts::default(),
            buffer: Box::new([0; BUFFER_LEN]),
        })
    }

    /// Addresses that are served.
    pub fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        self.listeners.iter().map(|listener| listener.at().ip())
    }

    /// It sees IP headers, so that it can check the ICRC of every sender.
    #[must_use]
    pub fn sees_headers(&self) -> bool {
        self.listeners.iter().all(Listener::knows_headers)
    }

    /// Returns what the gateway has counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let overruns = self.listeners.iter().map(|listener| u64::from(listener.overruns())).sum();
        Counts { refused: self.programs.refused(), overruns, ..self.counts }
    }

    /// Programs that are served, and their sockets.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        self.programs.state().table.sizes()
    }

    /// Waits until something has come, or so long, and serves it. A signal ends the waiting.
    ///
    /// # Errors
    /// The operating system refuses to wait.
    pub fn turn(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).ok();
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let events = match epoll::wait(&self.epoll, &mut space[..], timeout.as_ref()) {
            Ok((events, _)) => &*events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            match event.data.u64() {
                PROGRAMS => self.part(),
                index => self.receive(index as usize),
            }
        }
        self.stand_in.repeat(&self.listeners);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    #[cfg(test)]
    pub(super) fn waits_for_answers(&self) -> bool {
        self.stand_in.waits_for_answers()
    }

    /// Tells the peers of programs that are gone.
    fn part(&mut self) {
        for orphan in self.programs.orphans() {
            let mut listeners = self.listeners.iter();
            if let Some(listener) = listeners.find(|it| it.at().ip() == orphan.addr) {
                self.stand_in.part(listener, &orphan);
                self.counts.farewells += 1;
            }
        }
    }

    fn receive(&mut self, index: usize) {
        let Self { listeners, programs, stand_in, counts, buffer, .. } = self;
        let Some(listener) = listeners.get(index) else { return };
        let mut state = programs.state();
        for _ in 0..DATAGRAMS_PER_TURN {
            match listener.receive(buffer) {
                Incoming::Nothing => return,
                Incoming::Malformed(len) => {
                    counts.packets += 1;
                    counts.bytes += len as u64;
                    counts.malformed += 1;
                }
                Incoming::Packet(arrived) => {
                    counts.packets += 1;
                    counts.bytes += arrived.packet.len() as u64;
                    match judge::judge(&mut state.table, &arrived) {
                        Ok(Whose::Program(to, seat)) => {
                            hand_over(listener, counts, &arrived, to, &seat);
                        }
                        Ok(Whose::Nobody(mad)) => {
                            let is_answered = stand_in.answer(listener, arrived.from.ip(), &mad);
                            counts.answered += u64::from(is_answered);
                            counts.no_connection += u64::from(!is_answered);
                        }
                        Err(dropped) => dropped.count(counts),
                    }
                }
            }
        }
    }
}

fn hand_over(
    listener: &Listener,
    counts: &mut Counts,
    arrived: &Arrived<'_>,
    to: SocketAddr,
    seat: &Seat,
) {
    let envelope = envelope::seal(&seat.key, arrived.from);
    match listener.hand_over(to, &envelope, arrived.packet) {
        Ok(()) if seat.kind == super::SeatKind::QueuePair => counts.forwarded += 1,
        Ok(()) => counts.messages += 1,
        Err(_) => counts.no_room += 1,
    }
}

/// Why there is no name for this gateway.
fn running(port: u16) -> OpenGatewayError {
    match door::holder(port) {
        Some(Holder { pid, uid, is_gateway: true }) => OpenGatewayError::Running { port, pid, uid },
        Some(Holder { pid, uid, .. }) => OpenGatewayError::NameTaken { port, pid, uid },
        None => OpenGatewayError::NameHeld { port },
    }
}

fn watch(programs: &Programs, listeners: &[Listener]) -> io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    add(&epoll, programs.fd(), PROGRAMS)?;
    for (listener, name) in listeners.iter().zip(0..) {
        add(&epoll, listener.fd(), name)?;
    }
    Ok(epoll)
}

fn add(epoll: &OwnedFd, socket: impl std::os::fd::AsFd, name: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, EventData::new_u64(name), EventFlags::IN)?)
}

/// The addresses that are meant, in order.
fn each_once(addrs: &[IpAddr]) -> Vec<IpAddr> {
    let mut addrs = addrs.to_vec();
    if addrs.is_empty() || addrs.iter().any(IpAddr::is_unspecified) {
        addrs.retain(|addr| !addr.is_unspecified());
        let all = interface::all().into_iter().map(|interface| interface.addr);
        // No device has an address of a single link of IPv6.
        addrs.extend(all.filter(|addr| addr.is_ipv4() || !is_of_a_link(*addr)));
    }
    addrs.sort_unstable();
    addrs.dedup();
    addrs
}
