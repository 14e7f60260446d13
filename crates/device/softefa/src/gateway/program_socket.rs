//! The Unix socket by which programs reach the gateway. It is bound in the gateway's network
//! namespace and shows the user of each program.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{
    Timeout, set_socket_timeout, socket_peercred, socket_protocol, socket_reuseaddr,
    socket_reuseport, socket_type,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketFlags, SocketType, accept_with, bind, connect, getsockname, ipproto, listen, recv,
    recvmsg, send, socket_with,
};
use rustix::process::{Pid, Uid, geteuid};

use super::envelope::Key;
use super::message::{self, ANSWER_LEN, QUESTION_LEN, Question, Status};
use crate::address::NOWHERE;
use crate::descriptor::with_descriptor;
use crate::host::network_of;

const BACKLOG: i32 = 128;
/// The time within which the process that holds the name must answer.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens a Unix socket that preserves message boundaries.
pub(super) fn unix_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    let open = || Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?);
    with_descriptor(open)
}

#[derive(Debug)]
pub(super) struct ProgramListener(OwnedFd);

/// A connected program.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: OwnedFd,
    /// The user of the program; `None` if the gateway does not serve that user.
    pub(super) uid: Option<u32>,
}

/// A message from a program to the gateway.
#[derive(Debug)]
pub(super) enum ProgramMessage {
    /// The wait was interrupted.
    Interrupted,
    /// The program has disconnected, or its socket has failed.
    Disconnected,
    /// The message is not a question.
    Malformed,
    /// The descriptor that came with the question is lost: the process has no descriptor left.
    DescriptorLost,
    Question(Question, Option<OwnedFd>),
}

impl ProgramListener {
    pub(super) fn open(port: u16) -> io::Result<Self> {
        let socket = unix_socket(SocketFlags::empty())?;
        bind(&socket, &message::name(port)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self(socket))
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Waits for the next program. Only root serves other users, because their programs trust no
    /// gateway but root's or their own user's.
    ///
    /// # Errors
    /// The socket was shut down, or the process has no descriptor left.
    pub(super) fn accept(&self) -> io::Result<Client> {
        let socket = with_descriptor(|| Ok(accept_with(&self.0, SocketFlags::CLOEXEC)?))?;
        let peer = socket_peercred(&socket).ok().map(|peer| peer.uid);
        let served = peer.filter(|uid| geteuid().is_root() || *uid == geteuid());
        Ok(Client { socket, uid: served.map(Uid::as_raw) })
    }
}

/// The process that holds the name of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameHolder {
    pub(super) pid: i32,
    pub(super) uid: u32,
    /// It answers as a gateway does.
    pub(super) is_gateway: bool,
}

/// Finds out who holds the name of the gateway of `port`; `None` if that cannot be known.
pub(super) fn name_holder(port: u16) -> Option<NameHolder> {
    let socket = unix_socket(SocketFlags::empty()).ok()?;
    for direction in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, direction, Some(HOLDER_TIMEOUT)).ok()?;
    }
    connect(&socket, &message::name(port).ok()?).ok()?;
    let owner = socket_peercred(&socket).ok()?;
    let question = Question::Serves(NOWHERE).emit();
    let mut bytes = [0; ANSWER_LEN];
    let answered = send(&socket, &question, SendFlags::NOSIGNAL)
        .and_then(|_| recv(&socket, &mut bytes[..], RecvFlags::empty()));
    let is_gateway = answered.is_ok_and(|(len, _)| message::parse_answer(&bytes[..len]).is_some());
    let pid = Pid::as_raw(Some(owner.pid));
    Some(NameHolder { pid, uid: owner.uid.as_raw(), is_gateway })
}

/// Waits for the next question of a program.
pub(super) fn receive_question(socket: &OwnedFd) -> ProgramMessage {
    let mut bytes = [0; QUESTION_LEN + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(got) => got,
        Err(rustix::io::Errno::INTR) => return ProgramMessage::Interrupted,
        Err(_) => return ProgramMessage::Disconnected,
    };
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match Question::parse(&bytes[..got.bytes]) {
        None if got.bytes == 0 => ProgramMessage::Disconnected,
        None => ProgramMessage::Malformed,
        Some(_) if file.is_none() && got.flags.contains(ReturnFlags::CTRUNC) => {
            ProgramMessage::DescriptorLost
        }
        Some(question) => ProgramMessage::Question(question, file),
    }
}

/// Sends an answer to a program; returns false if it cannot be sent.
pub(super) fn send_answer(socket: &OwnedFd, status: Status, key: Key) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    send(socket, &message::emit_answer(status, key), flags).is_ok()
}

/// What a socket that a program has sent proves about its address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BindingProof {
    /// It is the only one that is bound there in the gateway's network namespace: any earlier owner
    /// has closed its socket.
    InThisNetwork,
    /// It is bound there in some network namespace, and this kernel does not tell in which.
    InUnknownNetwork,
}

/// Verifies that `socket` is a UDP socket that is bound to `at`, so that its owner is the rightful
/// receiver of packets to `at`. `gateway_socket` is any socket of the gateway's network namespace.
pub(super) fn prove_binding(
    socket: &OwnedFd,
    at: SocketAddr,
    gateway_socket: &OwnedFd,
) -> Option<BindingProof> {
    let is_ours = socket_type(socket) == Ok(SocketType::DGRAM)
        && socket_protocol(socket) == Ok(Some(ipproto::UDP))
        && socket_reuseaddr(socket) == Ok(false)
        && socket_reuseport(socket) == Ok(false);
    let proof = match (network_of(socket), network_of(gateway_socket)) {
        (Ok(its), Ok(ours)) if its != ours => return None,
        (Ok(_), Ok(_)) => BindingProof::InThisNetwork,
        _ => BindingProof::InUnknownNetwork,
    };
    let bound = getsockname(socket.as_fd()).ok().and_then(|name| SocketAddr::try_from(name).ok());
    (is_ours && bound == Some(at)).then_some(proof)
}
