//! The program's side of the gateway.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cm::mad::Mad;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
    connect, recv, send, sendmsg, shutdown,
};
use rustix::process::geteuid;

use super::envelope::{self, Key};
use super::mad;
use super::message::{self, ANSWER_LEN, Question, SocketKind, Status};
use super::program_socket::unix_socket;
use crate::fork_release::ForkReleased;
use crate::generation::Generation;
use crate::lifecycle;
use crate::say::say;

/// How long a program waits for an answer. The gateway answers at once unless it is stopped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The stack of the thread that watches a gateway.
const STACK_BYTES: usize = 128 << 10;

/// The sockets by which this process is connected to gateways. A gateway notices by their closing
/// that the process is gone.
pub(crate) static GATEWAY_SOCKETS: ForkReleased<64> = ForkReleased::new();

/// The reason why a program is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// No gateway runs.
    #[error("no gateway of UDP port {port} runs here; start `softefa gateway`")]
    Absent {
        /// The port.
        port: u16,
    },
    /// The gateway belongs to a user whom this program does not trust.
    #[error(
        "the gateway of UDP port {port} is user {uid}'s, and programs trust that of root or of their own user alone"
    )]
    Stranger {
        /// The port.
        port: u16,
        /// The user of the gateway.
        uid: u32,
    },
    /// The gateway serves other addresses.
    #[error("the gateway of UDP port {port} does not serve {addr}; start it with --address {addr}")]
    NotServed {
        /// The port.
        port: u16,
        /// The address.
        addr: IpAddr,
    },
    /// The gateway refused the request.
    #[error("the gateway of UDP port {port} refused: {why}")]
    Refused {
        /// The port.
        port: u16,
        /// The reason.
        why: &'static str,
    },
    /// The gateway has ended, or does not answer in time; in the latter case try again.
    #[error(
        "the gateway of UDP port {port} does not answer ({source}); if it has ended, start it again, and then this program"
    )]
    Silent {
        /// The port.
        port: u16,
        /// The error of the call.
        #[source]
        source: io::Error,
    },
}

impl From<GatewayError> for io::Error {
    fn from(error: GatewayError) -> Self {
        Self::other(error)
    }
}

/// A connection to the gateway of this machine.
#[derive(Debug)]
pub struct Gateway {
    port: u16,
    link: Arc<Link>,
    /// The lock serialises questions.
    exchange: Mutex<Exchange>,
    generation: Generation,
}

/// The Unix socket, which a thread watches.
#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    /// This program closes the connection.
    is_closing: AtomicBool,
    /// The gateway has ended, and the user has been told.
    is_reported: AtomicBool,
}

/// The state of questions and answers.
#[derive(Debug, Default)]
struct Exchange {
    /// Answers that did not come in time. They may still come, if the gateway was only stopped for
    /// a while.
    late_answers: u32,
    /// The error after which no more questions are sent.
    failed: Option<io::ErrorKind>,
}

/// A UDP socket that receives packets from the gateway, until this is dropped.
#[derive(Debug)]
pub struct RegisteredSocket {
    gateway: Arc<Gateway>,
    at: SocketAddr,
    key: Key,
}

impl Gateway {
    /// Connects to the gateway of UDP port `port`, which must serve `addr`.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn connect(addr: IpAddr, port: u16) -> Result<Arc<Self>, GatewayError> {
        let silent = |source| GatewayError::Silent { port, source };
        let socket = unix_socket(SocketFlags::empty()).map_err(silent)?;
        let name = message::name(port).map_err(silent)?;
        for direction in [Timeout::Recv, Timeout::Send] {
            let set = set_socket_timeout(&socket, direction, Some(ANSWER_TIMEOUT));
            set.map_err(|error| silent(error.into()))?;
        }
        connect(&socket, &name).map_err(|error| match error {
            // The backlog of the gateway's socket is full, and it accepts nobody.
            Errno::AGAIN => silent(error.into()),
            _ => GatewayError::Absent { port },
        })?;
        let owner = socket_peercred(&socket).map_err(|error| silent(error.into()))?.uid;
        if !owner.is_root() && owner != geteuid() {
            return Err(GatewayError::Stranger { port, uid: owner.as_raw() });
        }
        let generation = Generation::current();
        GATEWAY_SOCKETS.add(socket.as_raw_fd());
        let (is_closing, is_reported) = (AtomicBool::new(false), AtomicBool::new(false));
        let link = Arc::new(Link { socket, is_closing, is_reported });
        let gateway =
            Self { port, link: Arc::clone(&link), exchange: Mutex::default(), generation };
        gateway.ask(Question::Serves(addr), addr, None)?;
        // Without the thread the program notices the end at its next question.
        let _ = lifecycle::spawn("softefa-gateway", STACK_BYTES, move || link.watch(port));
        Ok(Arc::new(gateway))
    }

    #[cfg(test)]
    pub(super) fn is_known_to_have_ended(&self) -> bool {
        self.link.is_reported.load(Ordering::Relaxed)
    }

    /// Returns the UDP port that the gateway serves.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Registers `socket`, which is bound to `at`: from now on the gateway forwards to it the
    /// packets of this kind for `at`.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn register(
        self: &Arc<Self>,
        at: SocketAddr,
        socket: BorrowedFd<'_>,
        kind: SocketKind,
    ) -> Result<RegisteredSocket, GatewayError> {
        let key = self.ask(Question::Register(at, kind), at.ip(), Some(socket))?;
        Ok(RegisteredSocket { gateway: Arc::clone(self), at, key })
    }

    /// Claims the answers to `mad` for this program. Call it before `mad` leaves from `addr`.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn announce(&self, addr: IpAddr, mad: &[u8]) -> Result<(), GatewayError> {
        let mad = Mad::parse(mad).ok();
        let Some(id) = mad.and_then(|mad| mad::id_to_claim(&mad.message)) else { return Ok(()) };
        self.ask(Question::Claim(addr, id), addr, None).map(|_| ())
    }

    fn ask(
        &self,
        question: Question,
        addr: IpAddr,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Key, GatewayError> {
        let port = self.port;
        let refused = |why| GatewayError::Refused { port, why };
        if !self.generation.is_current() {
            return Err(refused("another process than the one that asked goes on with its socket"));
        }
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = self.ask_once(&mut exchange, question, file);
        let (status, key) = answered.map_err(|source| GatewayError::Silent { port, source })?;
        match status {
            Status::Done => Ok(key),
            Status::NotServed => Err(GatewayError::NotServed { port, addr }),
            Status::NoSocket => Err(refused("the socket is not bound where it should be")),
            Status::Taken => Err(refused("another user's program has it")),
            Status::Full => Err(refused("it serves as much as it can")),
            Status::Invalid => Err(refused("it is of another version")),
            Status::NoDescriptor => {
                Err(refused("it has no file descriptor left; start it with a higher `ulimit -n`"))
            }
        }
    }

    /// Sends a question and waits for the answer. After an answer that did not come in time, no
    /// question is sent before it has arrived, because it would be taken for the answer to the next
    /// one.
    fn ask_once(
        &self,
        exchange: &mut Exchange,
        question: Question,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Status, Key)> {
        if let Some(kind) = exchange.failed {
            return Err(kind.into());
        }
        let mut answered = Ok(());
        while exchange.late_answers > 0 && answered.is_ok() {
            answered = self.receive_answer(RecvFlags::DONTWAIT).map(|_| ());
            exchange.late_answers -= u32::from(answered.is_ok());
        }
        let answered = answered.and_then(|()| self.send(question, file)).and_then(|()| {
            exchange.late_answers += 1;
            let answer = self.receive_answer(RecvFlags::empty())?;
            exchange.late_answers -= 1;
            Ok(answer)
        });
        if let Err(error) = &answered {
            // A gateway that does not answer in time may only be stopped, and continue later.
            exchange.failed = Some(error.kind()).filter(|kind| *kind != io::ErrorKind::WouldBlock);
        }
        answered
    }

    fn send(&self, question: Question, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let files: Vec<_> = file.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&files));
        }
        let bytes = question.emit();
        let parts = [IoSlice::new(&bytes)];
        uninterrupted(|| sendmsg(&self.link.socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    fn receive_answer(&self, flags: RecvFlags) -> io::Result<(Status, Key)> {
        let mut bytes = [0; ANSWER_LEN];
        let (len, _) = uninterrupted(|| recv(&self.link.socket, &mut bytes[..], flags))?;
        if len == 0 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let answer = message::parse_answer(&bytes[..len]);
        answer.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

impl RegisteredSocket {
    /// Returns the sender and the packet of a datagram that came from `from`; `None` if the
    /// datagram is not the gateway's.
    #[must_use]
    pub fn open<'a>(&self, from: SocketAddr, datagram: &'a [u8]) -> Option<(SocketAddr, &'a [u8])> {
        let sender = self.sender_of(from, datagram)?;
        Some((sender, &datagram[envelope::LEN..]))
    }

    /// Returns the sender as [`RegisteredSocket::open`] does; the packet begins after
    /// [`envelope::LEN`] bytes.
    pub(crate) fn sender_of(&self, from: SocketAddr, datagram: &[u8]) -> Option<SocketAddr> {
        let gateway = SocketAddr::new(self.at.ip(), self.gateway.port);
        (from == gateway).then(|| envelope::open(&self.key, datagram)).flatten()
    }
}

impl Link {
    /// Waits until the connection ends, and tells the user if the gateway has ended: nothing else
    /// explains why no packet arrives any more.
    fn watch(&self, port: u16) {
        // `poll` always reports a hang-up.
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        while matches!(poll(&mut fds, None), Ok(0) | Err(Errno::INTR)) {}
        if !self.is_closing.load(Ordering::Acquire) {
            say(&format!(
                "softefa: the gateway of UDP port {port} has ended, and nothing reaches this program any more; start it again, and then this program"
            ));
            self.is_reported.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        GATEWAY_SOCKETS.remove(self.link.socket.as_raw_fd());
        self.link.is_closing.store(true, Ordering::Release);
        // In a forked child the parent keeps using its connection.
        if self.generation.is_current() {
            let _ = shutdown(&self.link.socket, Shutdown::Both);
        }
    }
}

impl Drop for RegisteredSocket {
    fn drop(&mut self) {
        // In a forked child the parent keeps using its connection.
        if self.gateway.generation.is_current() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // If it is lost, the registration ends with the process.
            let _ =
                send(self.gateway.link.socket.as_fd(), &Question::Release(self.at).emit(), flags);
        }
    }
}
