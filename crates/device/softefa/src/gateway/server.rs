//! The gateway itself: it forwards each packet that arrives at its port to the program that the
//! packet is for.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use cm::Seed;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::classify::{self, Datagram, Recipient};
use super::counts::Counts;
use super::envelope;
use super::fallback_agent::FallbackAgent;
use super::listener::{BUFFER_LEN, Incoming, Listener};
use super::program_socket::{self, NameHolder, ProgramListener};
use super::programs::Programs;
use super::table::Registration;
use crate::address::{NOWHERE, is_of_a_link};
use crate::host;
use crate::interface;

/// The most datagrams that are read from one socket before the next socket has its turn.
const DATAGRAMS_PER_TURN: usize = 64;
const EVENTS: usize = 64;
/// The epoll token of the programs; a listener's token is its index.
const PROGRAMS_TOKEN: u64 = u64::MAX;

/// The reason why a gateway cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenGatewayError {
    /// Another socket is bound to the port.
    #[error(
        "UDP port {} of {} is taken: by the kernel's RoCE (rdma link, rxe), or another program; end it, or choose --address or --port",
        at.port(), at.ip()
    )]
    Taken {
        /// Address and port.
        at: SocketAddr,
    },
    /// Another gateway runs.
    #[error(
        "another gateway of UDP port {port} runs here, process {pid} of user {uid}; one serves all programs of a network namespace"
    )]
    Running {
        /// The port.
        port: u16,
        /// The process of the other gateway.
        pid: i32,
        /// The user of the other gateway.
        uid: u32,
    },
    /// Another process holds the name by which programs find a gateway.
    #[error(
        "process {pid} of user {uid} has the name of the gateway of UDP port {port} and does not answer as one; end it, or choose --port"
    )]
    NameTaken {
        /// The port.
        port: u16,
        /// The process.
        pid: i32,
        /// The user of that process.
        uid: u32,
    },
    /// Another process holds that name, and does not accept connections.
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
    /// The operating system refused a call.
    #[error("UDP port {} of {} cannot be served: {source}", at.port(), at.ip())]
    Io {
        /// Address and port.
        at: SocketAddr,
        /// The error of that call.
        #[source]
        source: io::Error,
    },
}

/// A gateway, which serves one UDP port at some addresses of this machine.
#[derive(Debug)]
pub struct Server {
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    programs: Programs,
    fallback_agent: FallbackAgent,
    counts: Counts,
    buffer: Box<[u8; BUFFER_LEN]>,
}

impl Server {
    /// Binds `port` at each of `addrs`, or at all addresses of this machine if `addrs` is empty or
    /// contains 0.0.0.0 or ::. With `may_see_headers` the gateway reads IP headers, which the ICRC
    /// covers, if the operating system allows it.
    ///
    /// # Errors
    /// [`OpenGatewayError`].
    pub fn open(
        addrs: &[IpAddr],
        port: u16,
        may_see_headers: bool,
    ) -> Result<Self, OpenGatewayError> {
        let program_listener =
            ProgramListener::open(port).map_err(|source| match source.kind() {
                io::ErrorKind::AddrInUse => name_conflict(port),
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
        for addr in unique_addrs(addrs) {
            match listen(addr) {
                // The address was not asked for; IPv6 still checks whether another host has it.
                Err(OpenGatewayError::NotLocal { .. }) if !addrs.contains(&addr) => {}
                listener => listeners.push(listener?),
            }
        }
        let failed = |source| OpenGatewayError::Io { at: SocketAddr::new(NOWHERE, port), source };
        let served = listeners.iter().map(|listener| listener.at().ip()).collect();
        let programs = Programs::open(program_listener, served).map_err(failed)?;
        let epoll = watch(&programs, &listeners).map_err(failed)?;
        let seed = Seed(host::unguessable_bytes().map_err(failed)?);
        Ok(Self {
            epoll,
            listeners,
            programs,
            fallback_agent: FallbackAgent::new(seed),
            counts: Counts::default(),
            buffer: Box::new([0; BUFFER_LEN]),
        })
    }

    /// Returns the addresses that are served.
    pub fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        self.listeners.iter().map(|listener| listener.at().ip())
    }

    /// Returns true if the gateway sees IP headers, so that it can verify the ICRC of every sender.
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

    /// Returns the numbers of registered programs and of their sockets.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        self.programs.state().table.sizes()
    }

    /// Waits for up to `timeout` until something arrives, and serves it. A signal ends the wait.
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
                PROGRAMS_TOKEN => self.send_disconnects(),
                index => self.receive(index as usize),
            }
        }
        self.fallback_agent.repeat_overdue(&self.listeners);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    #[cfg(test)]
    pub(super) fn waits_for_answers(&self) -> bool {
        self.fallback_agent.waits_for_answers()
    }

    /// Tells the peers of programs that are gone.
    fn send_disconnects(&mut self) {
        for orphan in self.programs.take_orphans() {
            let mut listeners = self.listeners.iter();
            if let Some(listener) = listeners.find(|it| it.at().ip() == orphan.addr) {
                self.fallback_agent.disconnect(listener, &orphan);
                self.counts.farewells += 1;
            }
        }
    }

    fn receive(&mut self, index: usize) {
        let Self { listeners, programs, fallback_agent, counts, buffer, .. } = self;
        let Some(listener) = listeners.get(index) else { return };
        let mut state = programs.state();
        for _ in 0..DATAGRAMS_PER_TURN {
            match listener.receive(buffer) {
                Incoming::Nothing => return,
                Incoming::Malformed => {
                    counts.packets += 1;
                    counts.malformed += 1;
                }
                Incoming::Packet(datagram) => {
                    counts.packets += 1;
                    counts.bytes += datagram.packet.len() as u64;
                    match classify::classify(&mut state.table, &datagram) {
                        Ok(Recipient::Program(to, registration)) => {
                            hand_over(listener, counts, &datagram, to, &registration);
                        }
                        Ok(Recipient::None(mad)) => {
                            let is_answered =
                                fallback_agent.answer(listener, datagram.from.ip(), &mad);
                            counts.answered += u64::from(is_answered);
                            counts.no_connection += u64::from(!is_answered);
                        }
                        Err(reason) => reason.count(counts),
                    }
                }
            }
        }
    }
}

fn hand_over(
    listener: &Listener,
    counts: &mut Counts,
    datagram: &Datagram<'_>,
    to: SocketAddr,
    registration: &Registration,
) {
    let envelope = envelope::seal(&registration.key, datagram.from);
    match listener.hand_over(to, &envelope, datagram.packet) {
        Ok(()) if registration.kind == super::SocketKind::QueuePair => counts.forwarded += 1,
        Ok(()) => counts.messages += 1,
        Err(_) => counts.no_room += 1,
    }
}

/// Returns the reason why the name of this gateway is not available.
fn name_conflict(port: u16) -> OpenGatewayError {
    match program_socket::name_holder(port) {
        Some(NameHolder { pid, uid, is_gateway: true }) => {
            OpenGatewayError::Running { port, pid, uid }
        }
        Some(NameHolder { pid, uid, .. }) => OpenGatewayError::NameTaken { port, pid, uid },
        None => OpenGatewayError::NameHeld { port },
    }
}

fn watch(programs: &Programs, listeners: &[Listener]) -> io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    add(&epoll, programs.fd(), PROGRAMS_TOKEN)?;
    for (listener, name) in listeners.iter().zip(0..) {
        add(&epoll, listener.fd(), name)?;
    }
    Ok(epoll)
}

fn add(epoll: &OwnedFd, socket: impl std::os::fd::AsFd, name: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, EventData::new_u64(name), EventFlags::IN)?)
}

/// Returns the addresses to serve, sorted and without duplicates.
fn unique_addrs(addrs: &[IpAddr]) -> Vec<IpAddr> {
    let mut addrs = addrs.to_vec();
    if addrs.is_empty() || addrs.iter().any(IpAddr::is_unspecified) {
        addrs.retain(|addr| !addr.is_unspecified());
        let all = interface::all().into_iter().map(|interface| interface.addr);
        // Devices have no link-local IPv6 addresses.
        addrs.extend(all.filter(|addr| addr.is_ipv4() || !is_of_a_link(*addr)));
    }
    addrs.sort_unstable();
    addrs.dedup();
    addrs
}
