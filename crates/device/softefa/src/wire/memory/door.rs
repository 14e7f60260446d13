//! How the memory of a ring gets from its writer to its reader: through an abstract Unix socket
//! that is named by the queue pair's address, in the network namespace of both. Only programs of
//! one user hand each other memory (SRD-12.1).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};
use rustix::process::geteuid;

use crate::address::to_v6;
use crate::descriptor::with_descriptor;
use crate::fork_release::ForkReleased;

/// Those who may wait to be let in; the others come again. Each peer knocks twice for a ring: it
/// makes the ring only where somebody answers.
const BACKLOG: i32 = 128;
/// What a visitor says: the version of all this, and who it is.
const VERSION: u8 = 4;
const HELLO_LEN: usize = 20;

/// The doors of this process. In a child they would keep their names, and take what is for others.
pub(crate) static RING_LISTENERS: ForkReleased<4096> = ForkReleased::new();

/// The socket that other queue pairs hand their rings to.
#[derive(Debug)]
pub(super) struct Door(OwnedFd);

/// A ring that somebody of this user has handed in.
#[derive(Debug)]
pub(super) struct Visitor {
    /// The queue pair that writes it, as it says: its packets must prove more.
    pub(super) from: SocketAddr,
    pub(super) file: OwnedFd,
}

/// The abstract Unix socket where queue pair `of` takes rings (SRD-12.1).
#[must_use]
pub fn door_name(of: SocketAddr) -> String {
    format!("softefa-{VERSION}-{of}")
}

fn name(of: SocketAddr) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(door_name(of).as_bytes())?)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?);
    with_descriptor(open)
}

/// The other end belongs to a program of this user.
fn is_of_this_user(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(socket_peercred(socket)?.uid == geteuid())
}

impl Door {
    /// That of the queue pair `of`.
    pub(super) fn open(of: SocketAddr) -> io::Result<Self> {
        let socket = socket()?;
        bind(&socket, &name(of)?)?;
        listen(&socket, BACKLOG)?;
        RING_LISTENERS.add(socket.as_raw_fd());
        Ok(Self(socket))
    }

    /// Those who wait; who hands in nothing useful is sent away.
    pub(super) fn visitors(&self) -> impl Iterator<Item = Visitor> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        those_of(move || accept_with(&self.0, flags).ok())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        RING_LISTENERS.remove(self.0.as_raw_fd());
    }
}

/// As many as can wait at once, of those who wait: strangers may come for ever.
fn those_of(mut accept: impl FnMut() -> Option<OwnedFd>) -> impl Iterator<Item = Visitor> {
    (0..=BACKLOG).map_while(move |_| accept()).filter_map(|socket| receive(&socket).ok()?)
}

fn receive(socket: &OwnedFd) -> io::Result<Option<Visitor>> {
    if !is_of_this_user(socket.as_fd())? {
        return Ok(None);
    }
    let mut hello = [0; HELLO_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut hello)], &mut control, flags)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let from = parse(&hello).filter(|_| got.bytes == HELLO_LEN);
    Ok(from.zip(file).map(|(from, file)| Visitor { from, file }))
}

/// The way to somebody's door.
#[derive(Debug)]
pub(super) struct Doorstep(OwnedFd);

impl Doorstep {
    /// That of the queue pair `to`.
    ///
    /// # Errors
    /// Nobody there has a door, or it is another user's.
    pub(super) fn of(to: SocketAddr) -> io::Result<Self> {
        let socket = socket()?;
        connect(&socket, &name(to)?)?;
        if !is_of_this_user(socket.as_fd())? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self(socket))
    }

    /// Hands in `file`, the ring that `from` writes. It is let in when its reader looks, which a
    /// datagram should make it do.
    pub(super) fn hand_in(self, from: SocketAddr, file: BorrowedFd<'_>) -> io::Result<()> {
        let files = [file];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(&emit(from))], &mut control, flags)?;
        Ok(())
    }
}

fn emit(from: SocketAddr) -> [u8; HELLO_LEN] {
    let mut hello = [0; HELLO_LEN];
    hello[0] = VERSION;
    hello[2..18].copy_from_slice(&to_v6(from.ip()).octets());
    hello[18..].copy_from_slice(&from.port().to_be_bytes());
    hello
}

fn parse(hello: &[u8; HELLO_LEN]) -> Option<SocketAddr> {
    let [VERSION, 0, octets @ .., high, low] = *hello else { return None };
    let ip = IpAddr::V6(Ipv6Addr::from(octets)).to_canonical();
    Some(SocketAddr::new(ip, u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::net::Ipv4Addr;

    use super::*;

    fn addr(port: u16) -> SocketAddr {
        // Of this process alone: other tests run beside this one.
        let addr = Ipv4Addr::from_bits(0x7F60_0000 | (std::process::id() & 0xF_FFFF));
        SocketAddr::new(addr.into(), port)
    }

    fn file(text: &str) -> OwnedFd {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        file.into()
    }

    #[test]
    fn what_is_handed_in_arrives() {
        let at = addr(1);
        assert_eq!(Doorstep::of(at).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let door = Door::open(at).unwrap();
        assert!(door.visitors().next().is_none());
        Doorstep::of(at).unwrap().hand_in(addr(2), file("a ring").as_fd()).unwrap();
        let visitor = door.visitors().next().unwrap();
        let mut text = String::new();
        File::from(visitor.file).read_to_string(&mut text).unwrap();
        assert_eq!((visitor.from, text.as_str()), (addr(2), "a ring"));
        assert!(door.visitors().next().is_none());
    }

    /// Of another version, without a file, in pieces, with nothing: none of them is in the way of
    /// the next.
    #[test]
    fn strange_visitors_are_sent_away() {
        let at = addr(3);
        let door = Door::open(at).unwrap();
        for hello in [&[1, 0, 127, 0, 0, 1, 0, 1][..], &[2, 0, 127, 0, 0, 1, 0, 1], &[2], &[]] {
            let socket = socket().unwrap();
            connect(&socket, &name(at).unwrap()).unwrap();
            let mut none = SendAncillaryBuffer::default();
            sendmsg(&socket, &[IoSlice::new(hello)], &mut none, SendFlags::NOSIGNAL).unwrap();
        }
        connect(socket().unwrap(), &name(at).unwrap()).unwrap();
        Doorstep::of(at).unwrap().hand_in(addr(4), file("").as_fd()).unwrap();
        assert_eq!(door.visitors().next().unwrap().from, addr(4));
    }

    /// Any user of the machine can knock as fast as it likes.
    #[test]
    fn strangers_who_keep_coming_do_not_hold_anybody_up() {
        let mut looks = 0;
        let strangers = those_of(|| {
            looks += 1;
            Some(socket().unwrap())
        });
        assert_eq!(strangers.count(), 0);
        assert_eq!(looks, BACKLOG + 1);
    }
}
