//! Where programs come to: a Unix socket in the network namespace of the gateway, which knows whose
//! they are.

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
/// How long whoever has the name is given to answer.
const HOLDER_TIME: Duration = Duration::from_secs(1);

/// A Unix socket that keeps messages apart.
pub(super) fn unix_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    let open = || Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?);
    with_descriptor(open)
}

#[derive(Debug)]
pub(super) struct Door(OwnedFd);

/// A program that has come in.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) socket: OwnedFd,
    /// The user, when it is served.
    pub(super) uid: Option<u32>,
}

/// A message of a program to the gateway.
#[derive(Debug)]
pub(super) enum ProgramMessage {
    /// Waiting was interrupted.
    Nothing,
    /// It has gone, or is as good as that.
    Goodbye,
    /// Something that is no question.
    Strange,
    /// What came along was lost: the process has no descriptor left.
    Lost,
    Question(Question, Option<OwnedFd>),
}

impl Door {
    pub(super) fn open(port: u16) -> io::Result<Self> {
        let socket = unix_socket(SocketFlags::empty())?;
        bind(&socket, &message::name(port)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self(socket))
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Waits for the next program. Another user than this one is served by root alone: its programs
    /// would not believe anybody else.
    ///
    /// # Errors
    /// The socket was shut down, or the process has no descriptor left.
    pub(super) fn next(&self) -> io::Result<Visitor> {
        let socket = with_descriptor(|| Ok(accept_with(&self.0, SocketFlags::CLOEXEC)?))?;
        let peer = socket_peercred(&socket).ok().map(|peer| peer.uid);
        let served = peer.filter(|uid| geteuid().is_root() || *uid == geteuid());
        Ok(Visitor { socket, uid: served.map(Uid::as_raw) })
    }
}

/// Who has the name of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: i32,
    pub(super) uid: u32,
    /// It answers as a gateway does.
    pub(super) is_gateway: bool,
}

/// Looks who has the name of the gateway of a port; `None` when that cannot be known.
pub(super) fn holder(port: u16) -> Option<Holder> {
    let socket = unix_socket(SocketFlags::empty()).ok()?;
    for way in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, way, Some(HOLDER_TIME)).ok()?;
    }
    connect(&socket, &message::name(port).ok()?).ok()?;
    let owner = socket_peercred(&socket).ok()?;
    let question = Question::Serves(NOWHERE).emit();
    let mut bytes = [0; ANSWER_LEN];
    let answered = send(&socket, &question, SendFlags::NOSIGNAL)
        .and_then(|_| recv(&socket, &mut bytes[..], RecvFlags::empty()));
    let is_gateway = answered.is_ok_and(|(len, _)| message::parse_answer(&bytes[..len]).is_some());
    let pid = Pid::as_raw(Some(owner.pid));
    Some(Holder { pid, uid: owner.uid.as_raw(), is_gateway })
}

/// Waits for the next thing that a program says.
pub(super) fn hear(socket: &OwnedFd) -> ProgramMessage {
    let mut bytes = [0; QUESTION_LEN + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(got) => got,
        Err(rustix::io::Errno::INTR) => return ProgramMessage::Nothing,
        Err(_) => return ProgramMessage::Goodbye,
    };
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match Question::parse(&bytes[..got.bytes]) {
        None if got.bytes == 0 => ProgramMessage::Goodbye,
        None => ProgramMessage::Strange,
        Some(_) if file.is_none() && got.flags.contains(ReturnFlags::CTRUNC) => {
            ProgramMessage::Lost
        }
        Some(question) => ProgramMessage::Question(question, file),
    }
}

/// Answers a program; `false` when it does not listen.
pub(super) fn answer(socket: &OwnedFd, status: Status, key: Key) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    send(socket, &message::answer(status, key), flags).is_ok()
}

/// What a socket that came along says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// It has the address and port for itself, in the gateway's network: whoever had them before
    /// has them no more.
    Sole,
    /// It has them in some network; which one this kernel does not tell.
    Somewhere,
}

/// Looks whether the socket is UDP's and bound there, so that whoever has it is whom packets for
/// there are for. `way` is a socket of the gateway's network.
pub(super) fn prove(socket: &OwnedFd, at: SocketAddr, way: &OwnedFd) -> Option<Proof> {
    let is_ours = socket_type(socket) == Ok(SocketType::DGRAM)
        && socket_protocol(socket) == Ok(Some(ipproto::UDP))
        && socket_reuseaddr(socket) == Ok(false)
        && socket_reuseport(socket) == Ok(false);
    let proof = match (network_of(socket), network_of(way)) {
        (Ok(its), Ok(ours)) if its != ours => return None,
        (Ok(_), Ok(_)) => Proof::Sole,
        _ => Proof::Somewhere,
    };
    let bound = getsockname(socket.as_fd()).ok().and_then(|name| SocketAddr::try_from(name).ok());
    (is_ours && bound == Some(at)).then_some(proof)
}
