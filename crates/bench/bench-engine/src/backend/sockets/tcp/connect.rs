//! Set-up of a TCP connection between the two sides.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use bench_record::failure::Failure;
use fabric::OutOfBand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::PreparedTcp;
use crate::backend::Opener;
use crate::backend::sockets::{exchange, failed};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same time, for waiting on a socket.
const CONNECT_WAIT: Timespec = Timespec { tv_sec: CONNECT_TIMEOUT.as_secs() as i64, tv_nsec: 0 };

/// Connects or accepts, so that exactly one side connects. Both sides decide from the same facts.
pub(super) fn connect_or_accept(
    prepared: &PreparedTcp,
    oob: &mut dyn OutOfBand,
) -> Result<TcpStream, Failure> {
    let ours = prepared.address()?;
    let theirs = exchange(ours, oob)?;
    let can_accept = |side: SocketAddr| side.port() != 0;
    let listener = prepared.listener.as_ref().filter(|_| !can_accept(theirs) || theirs < ours);
    let Some(listener) = listener else {
        let stream = match prepared.wants.opener {
            Opener::Either => connect_from(ours.ip(), theirs),
            // A side that connects again and again leaves the port to the kernel, which then has
            // more of them to choose from, and the address, which is chosen as for the control
            // connection.
            Opener::Us | Opener::Peer => TcpStream::connect_timeout(&theirs, CONNECT_TIMEOUT),
        };
        return stream.map_err(|e| failed("connecting over TCP", &e));
    };
    let mut waiting = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut waiting, Some(&CONNECT_WAIT)) {
        Ok(0) => Err(Failure::Timeout {
            doing: "waiting for the peer's TCP connection".to_owned(),
            seconds: CONNECT_TIMEOUT.as_secs_f64(),
        }),
        Ok(_) => {
            let (stream, from) = listener.accept().map_err(|e| failed("accepting", &e))?;
            if from.ip().to_canonical() != theirs.ip().to_canonical() {
                return Err(Failure::Fabric(format!("{from} connected instead of the peer")));
            }
            Ok(stream)
        }
        Err(error) => Err(failed("waiting for the peer's TCP connection", &error.into())),
    }
}

/// Connects from the address that the peer was told and that it accepts only. The kernel might
/// choose another one if there are several.
fn connect_from(ours: IpAddr, theirs: SocketAddr) -> io::Result<TcpStream> {
    let family = if theirs.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(ours, 0))?;
    match rustix::net::connect(&socket, &theirs) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let mut connecting = [PollFd::new(&socket, PollFlags::OUT)];
    let ready = retry_on_intr(|| poll(&mut connecting, Some(&CONNECT_WAIT)))?;
    if ready == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    sockopt::socket_error(&socket)??;
    Ok(TcpStream::from(socket))
}
