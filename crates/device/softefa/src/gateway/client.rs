//! What a program has of the gateway.

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

use super::door::unix_socket;
use super::envelope::{self, Key};
use super::mad;
use super::message::{self, ANSWER_LEN, Question, SeatKind, Status};
use crate::generation::Generation;
use crate::kept::Kept;
use crate::lifecycle;
use crate::say::say;

/// The time for which an answer is waited for: the gateway does nothing else, so that it comes at
/// once unless it is stopped.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Of the thread that watches a gateway.
const STACK_BYTES: usize = 128 << 10;

/// The ways of this process to its gateways, which hear by them when it is gone.
pub(crate) static KEPT: Kept<64> = Kept::new();

/// The reason why a program is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Nobody is there.
    #[error("no gateway of UDP port {port} runs here; start `softefa gateway`")]
    Absent {
        /// The port.
        port: u16,
    },
    /// It is not to be trusted.
    #[error(
        "the gateway of UDP port {port} is user {uid}'s, and programs trust that of root or of their own user alone"
    )]
    Stranger {
        /// The port.
        port: u16,
        /// The user whose it is.
        uid: u32,
    },
    /// It serves other addresses.
    #[error("the gateway of UDP port {port} does not serve {addr}; start it with --address {addr}")]
    NotServed {
        /// The port.
        port: u16,
        /// The address.
        addr: IpAddr,
    },
    /// It refused.
    #[error("the gateway of UDP port {port} refused: {why}")]
    Refused {
        /// The port.
        port: u16,
        /// The reason.
        why: &'static str,
    },
    /// It ended, or hangs; ask again where it does not answer in time.
    #[error(
        "the gateway of UDP port {port} does not answer ({source}); if it has ended, start it again, and then this program"
    )]
    Silent {
        /// The port.
        port: u16,
        /// The error that happened.
        #[source]
        source: io::Error,
    },
}

impl From<GatewayError> for io::Error {
    fn from(error: GatewayError) -> Self {
        Self::other(error)
    }
}

/// A way to the gateway of this machine.
#[derive(Debug)]
pub struct Gateway {
    port: u16,
    link: Arc<Link>,
    /// One question at a time.
    asking: Mutex<Asking>,
    made: Generation,
}

/// The Unix socket, which a thread watches.
#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    /// This program is done with it.
    is_over: AtomicBool,
    /// The gateway has ended, and the user was told.
    is_told: AtomicBool,
}

/// How far the answers are.
#[derive(Debug, Default)]
struct Asking {
    /// Answers that were waited for in vain, and may still come: a gateway that was stopped for a
    /// while goes on.
    late: u32,
    /// Why nothing is asked any more.
    failed: Option<io::ErrorKind>,
}

/// A socket that the gateway hands packets to, while this lives.
#[derive(Debug)]
pub struct Seat {
    gateway: Arc<Gateway>,
    at: SocketAddr,
    key: Key,
}

impl Gateway {
    /// Goes to the gateway of UDP port `port`, which must serve `addr`.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn join(addr: IpAddr, port: u16) -> Result<Arc<Self>, GatewayError> {
        let silent = |source| GatewayError::Silent { port, source };
        let socket = unix_socket(SocketFlags::empty()).map_err(silent)?;
        let name = message::name(port).map_err(silent)?;
        for way in [Timeout::Recv, Timeout::Send] {
            let set = set_socket_timeout(&socket, way, Some(ANSWER_TIME));
            set.map_err(|error| silent(error.into()))?;
        }
        connect(&socket, &name).map_err(|error| match error {
            // Many wait at its door, and it looks at none.
            Errno::AGAIN => silent(error.into()),
            _ => GatewayError::Absent { port },
        })?;
        let owner = socket_peercred(&socket).map_err(|error| silent(error.into()))?.uid;
        if !owner.is_root() && owner != geteuid() {
            return Err(GatewayError::Stranger { port, uid: owner.as_raw() });
        }
        let made = Generation::current();
        KEPT.add(socket.as_raw_fd());
        let (is_over, is_told) = (AtomicBool::new(false), AtomicBool::new(false));
        let link = Arc::new(Link { socket, is_over, is_told });
        let gateway = Self { port, link: Arc::clone(&link), asking: Mutex::default(), made };
        gateway.ask(Question::Serves(addr), addr, None)?;
        // Without the thread the program hears of it when it asks.
        let _ = lifecycle::spawn("softefa-gateway", STACK_BYTES, move || link.watch(port));
        Ok(Arc::new(gateway))
    }

    #[cfg(test)]
    pub(super) fn is_known_to_have_ended(&self) -> bool {
        self.link.is_told.load(Ordering::Relaxed)
    }

    /// The UDP port of the network.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Has the gateway hand what is for the UDP socket, which is bound at `at`, to it.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn admit(
        self: &Arc<Self>,
        at: SocketAddr,
        socket: BorrowedFd<'_>,
        kind: SeatKind,
    ) -> Result<Seat, GatewayError> {
        let key = self.ask(Question::Admit(at, kind), at.ip(), Some(socket))?;
        Ok(Seat { gateway: Arc::clone(self), at, key })
    }

    /// Before `mad` leaves from `addr`: answers to it are for this program.
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
        if !self.made.is_current() {
            return Err(refused("another process than the one that asked goes on with its socket"));
        }
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = self.exchange(&mut asking, question, file);
        let (status, key) = answered.map_err(|source| GatewayError::Silent { port, source })?;
        match status {
            Status::Done => Ok(key),
            Status::NotServed => Err(GatewayError::NotServed { port, addr }),
            Status::NoSocket => Err(refused("the socket is not bound where it should be")),
            Status::Taken => Err(refused("another user's program has it")),
            Status::Full => Err(refused("it serves as much as it can")),
            Status::Strange => Err(refused("it is of another version")),
            Status::NoDescriptor => {
                Err(refused("it has no file descriptor left; start it with a higher `ulimit -n`"))
            }
        }
    }

    /// Asks and waits for the answer. After one that did not come in time nothing is asked before
    /// it is there: it would be taken for that to the next question.
    fn exchange(
        &self,
        asking: &mut Asking,
        question: Question,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Status, Key)> {
        if let Some(kind) = asking.failed {
            return Err(kind.into());
        }
        let mut answered = Ok(());
        while asking.late > 0 && answered.is_ok() {
            answered = self.answer(RecvFlags::DONTWAIT).map(|_| ());
            asking.late -= u32::from(answered.is_ok());
        }
        let answered = answered.and_then(|()| self.send(question, file)).and_then(|()| {
            asking.late += 1;
            let answer = self.answer(RecvFlags::empty())?;
            asking.late -= 1;
            Ok(answer)
        });
        if let Err(error) = &answered {
            // Whoever does not answer in time may be stopped, and go on.
            asking.failed = Some(error.kind()).filter(|kind| *kind != io::ErrorKind::WouldBlock);
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

    fn answer(&self, flags: RecvFlags) -> io::Result<(Status, Key)> {
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

impl Seat {
    /// The packet in a datagram that came `from` somewhere to this socket, and who sent it; `None`
    /// when it is not the gateway's.
    #[must_use]
    pub fn open<'a>(&self, from: SocketAddr, datagram: &'a [u8]) -> Option<(SocketAddr, &'a [u8])> {
        let sender = self.sender_of(from, datagram)?;
        Some((sender, &datagram[envelope::LEN..]))
    }

    /// Opens as [`Seat::open`] does; the packet begins behind [`envelope::LEN`] bytes.
    pub(crate) fn sender_of(&self, from: SocketAddr, datagram: &[u8]) -> Option<SocketAddr> {
        let gateway = SocketAddr::new(self.at.ip(), self.gateway.port);
        (from == gateway).then(|| envelope::open(&self.key, datagram)).flatten()
    }
}

impl Link {
    /// Waits for the end, and tells the user when it is that of the gateway: nothing else says why
    /// no packet comes any more.
    fn watch(&self, port: u16) {
        // Hanging up is always looked for.
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        while matches!(poll(&mut fds, None), Ok(0) | Err(Errno::INTR)) {}
        if !self.is_over.load(Ordering::Acquire) {
            say(&format!(
                "softefa: the gateway of UDP port {port} has ended, and nothing reaches this program any more; start it again, and then this program"
            ));
            self.is_told.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        KEPT.remove(self.link.socket.as_raw_fd());
        self.link.is_over.store(true, Ordering::Release);
        // The parent of a forked child goes on with its own.
        if self.made.is_current() {
            let _ = shutdown(&self.link.socket, Shutdown::Both);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // The parent of a forked child goes on with its own.
        if self.gateway.made.is_current() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // Lost, it ends with the process.
            let _ =
                send(self.gateway.link.socket.as_fd(), &Question::Release(self.at).emit(), flags);
        }
    }
}
