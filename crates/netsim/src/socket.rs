//! Sockets of hosts, and the ports that packets find them by.

use crate::rng::mix;
use crate::time::Time;
use crate::transport::Transport;

/// A transport's end on a host, and what the loop keeps beside it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) transport: Transport,
    pub(crate) host: u32,
    /// When its next timer event fires; later ones in the queue are stale.
    pub(crate) timer_at: Time,
    /// It waits for its turn at the host's adapter.
    pub(crate) waits_for_link: bool,
}

impl Socket {
    pub(crate) fn new(transport: Transport, host: u32) -> Self {
        Self { transport, host, timer_at: Time::FAR, waits_for_link: false }
    }
}

/// Which socket a process has, and where the network's hash sends its packets.
#[derive(Debug)]
pub(crate) struct Ports {
    /// What switches hash besides the 5-tuple.
    secret: u64,
    /// Sockets of processes, by host and process.
    sockets: Vec<Vec<Option<u32>>>,
}

impl Ports {
    pub(crate) fn new(hosts: u32, secret: u64) -> Self {
        Self { secret, sockets: vec![Vec::new(); hosts as usize] }
    }

    /// The socket of a process that shares one among all its peers.
    pub(crate) fn socket_of(&self, host: u32, process: u16) -> Option<u32> {
        self.sockets[host as usize].get(usize::from(process)).copied().flatten()
    }

    /// Gives a process its socket.
    pub(crate) fn bind(&mut self, host: u32, process: u16, socket: u32) {
        let sockets = &mut self.sockets[host as usize];
        let place = usize::from(process);
        sockets.resize(sockets.len().max(place + 1), None);
        sockets[place] = Some(socket);
    }

    /// The hash of a 5-tuple: hosts, and in `tuple` the protocol and its ports.
    #[inline]
    pub(crate) fn flow_hash(&self, src_host: u32, dst_host: u32, tuple: u64) -> u32 {
        let hosts = u64::from(src_host) << 32 | u64::from(dst_host);
        (mix(mix(self.secret ^ hosts) ^ tuple) >> 32) as u32
    }
}
