//! The gateway itself: what comes to its port goes to the programs that it is for.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cm::Seed;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::counts::Counts;
use super::door::{self, Door, ProgramMessage, Visitor};
use super::envelope::{self, Key};
use super::judge::{self, Arrived, Whose};
use super::listener::{BUFFER_LEN, Incoming, Listener};
use super::message::{Question, Status};
use super::stand_in::StandIn;
use super::table::{ProgramId, Seat, Table};
use crate::address::{NOWHERE, is_of_a_link};
use crate::host;
use crate::interface;

/// Programs at a time, and of one user.
const PROGRAMS_MAX: usize = 4096;
const PROGRAMS_OF_ONE_MAX: usize = 1024;
/// The number of datagrams that are taken of one socket before another has its turn.
const DATAGRAMS_PER_TURN: usize = 64;
const QUESTIONS_PER_TURN: usize = 16;
const EVENTS: usize = 64;
/// How long nobody is let in when no descriptor is left.
const DOOR_SHUT: Duration = Duration::from_secs(1);
/// Names of sockets in the set: that of the door; those of programs from there on; listeners have
/// their index.
const DOOR: u64 = u64::MAX;
const PROGRAMS: u64 = 1 << 32;

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
        "another gateway of UDP port {port} runs here; one serves all programs of a network namespace"
    )]
    Running {
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

/// Somebody who has come.
#[derive(Debug)]
struct Program {
    socket: OwnedFd,
    uid: u32,
}

/// Serves the port of some addresses of this machine.
#[derive(Debug)]
pub struct Server {
    epoll: OwnedFd,
    door: Door,
    /// Nobody can be let in for want of descriptors before that.
    door_opens_at: Option<Instant>,
    listeners: Vec<Listener>,
    programs: BTreeMap<ProgramId, Program>,
    last: ProgramId,
    table: Table,
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
            io::ErrorKind::AddrInUse => OpenGatewayError::Running { port },
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
        let epoll = watch(&door, &listeners).map_err(failed)?;
        let seed = Seed(host::unguessable_bytes().map_err(failed)?);
        Ok(Self {
            epoll,
            door,
            door_opens_at: None,
            listeners,
            programs: BTreeMap::new(),
            last: 0,
            table: Table::default(),
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
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Programs that are served, and their sockets.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        self.table.sizes()
    }

    /// Waits until something has come, or so long, and serves it. A signal ends the waiting.
    ///
    /// # Errors
    /// The operating system refuses to wait.
    pub fn turn(&mut self, timeout: Duration) -> io::Result<()> {
        if self.door_opens_at.is_some_and(|at| at <= Instant::now()) {
            self.door_opens_at = None;
            add(&self.epoll, self.door.fd(), DOOR)?;
        }
        let timeout = Timespec::try_from(timeout).ok();
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let events = match epoll::wait(&self.epoll, &mut space[..], timeout.as_ref()) {
            Ok((events, _)) => &*events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            match event.data.u64() {
                DOOR => self.let_in(),
                id @ PROGRAMS.. => self.serve(id - PROGRAMS),
                index => self.receive(index as usize),
            }
        }
        self.stand_in.repeat(&self.listeners);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn waits_for_answers(&self) -> bool {
        self.stand_in.waits_for_answers()
    }

    fn let_in(&mut self) {
        match self.door.next() {
            Ok(Some(Visitor { socket, uid })) => {
                let of_user = self.programs.values().filter(|program| program.uid == uid).count();
                if of_user >= PROGRAMS_OF_ONE_MAX || self.programs.len() >= PROGRAMS_MAX {
                    self.counts.refused += 1;
                    return;
                }
                self.last += 1;
                if add(&self.epoll, &socket, PROGRAMS + self.last).is_ok() {
                    self.table.come(self.last, uid);
                    self.programs.insert(self.last, Program { socket, uid });
                }
            }
            Ok(None) => self.counts.refused += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                // It stays readable, and would be asked for ever.
                let is_shut = epoll::delete(&self.epoll, self.door.fd()).is_ok();
                self.door_opens_at = is_shut.then(|| Instant::now() + DOOR_SHUT);
            }
        }
    }

    fn serve(&mut self, id: ProgramId) {
        for _ in 0..QUESTIONS_PER_TURN {
            let Some(program) = self.programs.get(&id) else { return };
            let (question, socket) = match door::hear(&program.socket) {
                ProgramMessage::Nothing => return,
                ProgramMessage::Goodbye => return self.forget(id),
                ProgramMessage::Strange => (None, None),
                ProgramMessage::Question(question, socket) => (Some(question), socket),
            };
            let Some((status, key)) = self.obey(id, question, socket.as_ref()) else { continue };
            self.counts.refused += u64::from(status != Status::Done);
            let is_heard =
                self.programs.get(&id).is_some_and(|it| door::answer(&it.socket, status, key));
            if !is_heard {
                return self.forget(id);
            }
        }
    }

    /// Does what a program asks, and returns what it is told; `None` when it waits for nothing.
    fn obey(
        &mut self,
        id: ProgramId,
        question: Option<Question>,
        socket: Option<&OwnedFd>,
    ) -> Option<(Status, Key)> {
        let nothing = Key([0; 16]);
        let serves = |addr: IpAddr| self.listeners.iter().any(|it| it.at().ip() == addr);
        let status = match question {
            None => Status::Strange,
            Some(Question::Serves(addr) | Question::Claim(addr, _)) if !serves(addr) => {
                Status::NotServed
            }
            Some(Question::Admit(at, _)) if !serves(at.ip()) => Status::NotServed,
            Some(Question::Serves(_)) => Status::Done,
            Some(Question::Claim(addr, claimed)) => self.table.claim(id, addr, claimed),
            Some(Question::Release(at)) => {
                self.table.release(id, at);
                return None;
            }
            Some(Question::Admit(at, kind)) => {
                let key = match host::unguessable_bytes() {
                    Ok(bytes) => Key(bytes),
                    Err(_) => return Some((Status::Full, nothing)),
                };
                if !socket.is_some_and(|socket| door::is_bound(socket, at)) {
                    return Some((Status::NoSocket, nothing));
                }
                let status = self.table.admit(at, Seat { program: id, kind, key });
                return Some((status, if status == Status::Done { key } else { nothing }));
            }
        };
        Some((status, nothing))
    }

    fn forget(&mut self, id: ProgramId) {
        // A child of the program may still have the other end, so that closing this one is not
        // enough.
        if let Some(program) = self.programs.remove(&id) {
            let _ = epoll::delete(&self.epoll, &program.socket);
        }
        for orphan in self.table.leave(id) {
            let mut listeners = self.listeners.iter();
            if let Some(listener) = listeners.find(|it| it.at().ip() == orphan.addr) {
                self.stand_in.part(listener, &orphan);
                self.counts.farewells += 1;
            }
        }
    }

    fn receive(&mut self, index: usize) {
        let Self { listeners, table, stand_in, counts, buffer, .. } = self;
        let Some(listener) = listeners.get(index) else { return };
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
                    match judge::judge(table, &arrived) {
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

fn watch(door: &Door, listeners: &[Listener]) -> io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    add(&epoll, door.fd(), DOOR)?;
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
