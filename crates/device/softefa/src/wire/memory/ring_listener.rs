//! Passes the memory of a ring from its writer to its reader, through an abstract Unix socket in
//! the network namespace of both. Its name is the queue pair's address. Only programs of one user
//! share memory (SRD-12.1).

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

/// The most connections that wait to be accepted; others try again. Each peer connects twice for a
/// ring, because it makes the ring only if there is a listener.
const BACKLOG: i32 = 128;
/// The version of the protocol, with which a hello begins.
const VERSION: u8 = 4;
const HELLO_LEN: usize = 20;

/// The listeners of this process. A child would keep their names and receive rings of others.
pub(crate) static RING_LISTENERS: ForkReleased<4096> = ForkReleased::new();

/// The socket on which a queue pair receives the rings of others.
#[derive(Debug)]
pub(super) struct RingListener(OwnedFd);

/// A ring that a program of this user has handed over.
#[derive(Debug)]
pub(super) struct OfferedRing {
    /// The queue pair that claims to write it. Its packets must prove more.
    pub(super) from: SocketAddr,
    pub(super) file: OwnedFd,
}

/// Returns the name of the abstract Unix socket on which queue pair `of` receives rings (SRD-12.1).
#[must_use]
pub fn ring_socket_name(of: SocketAddr) -> String {
    format!("softefa-{VERSION}-{of}")
}

fn name(of: SocketAddr) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(ring_socket_name(of).as_bytes())?)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?);
    with_descriptor(open)
}

/// Returns true if the other end belongs to a program of this user.
fn is_of_this_user(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(socket_peercred(socket)?.uid == geteuid())
}

impl RingListener {
    /// Opens the listener of the queue pair `of`.
    pub(super) fn open(of: SocketAddr) -> io::Result<Self> {
        let socket = socket()?;
        bind(&socket, &name(of)?)?;
        listen(&socket, BACKLOG)?;
        RING_LISTENERS.add(socket.as_raw_fd());
        Ok(Self(socket))
    }

    /// Accepts the waiting connections, and returns their rings. Connections without a valid ring
    /// are closed.
    pub(super) fn accept_rings(&self) -> impl Iterator<Item = OfferedRing> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        accept_all(move || accept_with(&self.0, flags).ok())
    }
}

impl Drop for RingListener {
    fn drop(&mut self) {
        RING_LISTENERS.remove(self.0.as_raw_fd());
    }
}

/// Accepts no more connections than can wait at once, because strangers may connect for ever.
fn accept_all(mut accept: impl FnMut() -> Option<OwnedFd>) -> impl Iterator<Item = OfferedRing> {
    (0..=BACKLOG).map_while(move |_| accept()).filter_map(|socket| receive(&socket).ok()?)
}

fn receive(socket: &OwnedFd) -> io::Result<Option<OfferedRing>> {
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
    Ok(from.zip(file).map(|(from, file)| OfferedRing { from, file }))
}

/// A connection to the ring listener of a peer.
#[derive(Debug)]
pub(super) struct RingConnection(OwnedFd);

impl RingConnection {
    /// Connects to the listener of the queue pair `to`.
    ///
    /// # Errors
    /// There is no listener, or it belongs to another user.
    pub(super) fn of(to: SocketAddr) -> io::Result<Self> {
        let socket = socket()?;
        connect(&socket, &name(to)?)?;
        if !is_of_this_user(socket.as_fd())? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self(socket))
    }

    /// Hands over `file`, the ring that `from` writes. The reader accepts it at its next poll,
    /// which a datagram should cause.
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
        // The address is of this process alone, because other tests run beside this one.
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
        assert_eq!(RingConnection::of(at).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let ring_listener = RingListener::open(at).unwrap();
        assert!(ring_listener.accept_rings().next().is_none());
        RingConnection::of(at).unwrap().hand_in(addr(2), file("a ring").as_fd()).unwrap();
        let offered = ring_listener.accept_rings().next().unwrap();
        let mut text = String::new();
        File::from(offered.file).read_to_string(&mut text).unwrap();
        assert_eq!((offered.from, text.as_str()), (addr(2), "a ring"));
        assert!(ring_listener.accept_rings().next().is_none());
    }

    /// Connections of another version, without a file, in pieces or empty do not delay the next
    /// one.
    #[test]
    fn strange_visitors_are_sent_away() {
        let at = addr(3);
        let ring_listener = RingListener::open(at).unwrap();
        for hello in [&[1, 0, 127, 0, 0, 1, 0, 1][..], &[2, 0, 127, 0, 0, 1, 0, 1], &[2], &[]] {
            let socket = socket().unwrap();
            connect(&socket, &name(at).unwrap()).unwrap();
            let mut none = SendAncillaryBuffer::default();
            sendmsg(&socket, &[IoSlice::new(hello)], &mut none, SendFlags::NOSIGNAL).unwrap();
        }
        connect(socket().unwrap(), &name(at).unwrap()).unwrap();
        RingConnection::of(at).unwrap().hand_in(addr(4), file("").as_fd()).unwrap();
        assert_eq!(ring_listener.accept_rings().next().unwrap().from, addr(4));
    }

    /// Any user of the machine can knock as fast as it likes.
    #[test]
    fn strangers_who_keep_coming_do_not_hold_anybody_up() {
        let mut looks = 0;
        let strangers = accept_all(|| {
            looks += 1;
            Some(socket().unwrap())
        });
        assert_eq!(strangers.count(), 0);
        assert_eq!(looks, BACKLOG + 1);
    }
}
