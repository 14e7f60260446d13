//! Tests of which side opens a connection and which one closes it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use bench_record::fabric_name::FabricName;

use super::*;

/// A channel over which two threads tell each other their addresses.
struct Channel(Sender<Vec<u8>>, Receiver<Vec<u8>>);

impl OutOfBand for Channel {
    fn exchange(&mut self, ours: &[u8]) -> Result<Vec<u8>, String> {
        self.0.send(ours.to_vec()).map_err(|e| e.to_string())?;
        self.1.recv().map_err(|e| e.to_string())
    }

    fn barrier(&mut self) -> Result<(), String> {
        self.exchange(&[]).map(|_| ())
    }
}

fn channels() -> (Channel, Channel) {
    let ((to_a, a), (to_b, b)) = (channel(), channel());
    (Channel(to_b, a), Channel(to_a, b))
}

fn open(opener: Opener, to_peer: &mut Channel) -> Tcp {
    open_at(opener, None, to_peer)
}

fn open_at(opener: Opener, source: Option<&str>, to_peer: &mut Channel) -> Tcp {
    let source = source.map(str::to_owned);
    let wants = Wants { opener, source, ..Wants::least(FabricName::Tcp) };
    Tcp::connect(Tcp::prepare(&wants).expect("prepared"), to_peer).expect("connected")
}

/// A server that closed first would lose a port to listen on for a minute with each connection.
#[test]
fn who_opened_a_connection_closes_it_first() {
    let (mut near, mut far) = channels();
    let server = thread::spawn(move || drop(open(Opener::Peer, &mut far)));
    let client = open(Opener::Us, &mut near);
    let mut ended = [PollFd::new(&client.stream, PollFlags::RDHUP)];
    // The server ends its side now, but must not close before the client within this time.
    let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    assert_eq!(rustix::event::poll(&mut ended, Some(&wait)), Ok(0), "the server closed");
    drop(client);
    server.join().expect("the server");
}

#[test]
fn either_side_may_open_a_connection() {
    for (one, other) in [(Opener::Either, Opener::Either), (Opener::Peer, Opener::Us)] {
        let (mut near, mut far) = channels();
        let peer = thread::spawn(move || open(other, &mut far).stream.local_addr());
        let ours = open(one, &mut near).stream.peer_addr().expect("a peer");
        assert_eq!(peer.join().expect("the peer").expect("an address"), ours);
    }
}

/// The peer refuses a connection from an address other than the one that it was told.
#[test]
fn who_connects_does_so_from_the_address_that_it_told() {
    let (mut near, mut far) = channels();
    let (ours, theirs) = ("127.0.0.2", "127.0.0.3");
    // The lower address connects.
    let peer =
        thread::spawn(move || open_at(Opener::Either, Some(theirs), &mut far).stream.peer_addr());
    let here = open_at(Opener::Either, Some(ours), &mut near);
    let from = peer.join().expect("the peer").expect("an address");
    assert_eq!(from.ip().to_string(), ours);
    assert_eq!(here.stream.local_addr().expect("an address"), from);
}
