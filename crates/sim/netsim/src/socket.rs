//! Sockets of hosts, and the ports by which packets find them.

use crate::id::{Ends, HostId, Process, SocketId};
use crate::rng::mix;
use crate::time::Time;
use crate::transport::Transport;

/// A transport's end on a host, with the loop's own state for it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) transport: Transport,
    pub(crate) host: HostId,
    /// Time of its next timer event; later ones in the queue are stale.
    pub(crate) timer_at: Time,
    /// Whether it waits for its turn at the host's adapter.
    pub(crate) waits_for_link: bool,
}

impl Socket {
    pub(crate) fn new(transport: Transport, host: HostId) -> Self {
        Self { transport, host, timer_at: Time::FAR, waits_for_link: false }
    }
}

/// Ports: the socket of each process, and the hash by which the network spreads its packets.
#[derive(Debug)]
pub(crate) struct Ports {
    /// Salt that switches hash besides the 5-tuple.
    secret: u64,
    /// Begin of each host's processes in `sockets`. Every packet of SRD is looked up here: both
    /// tables together are a few bytes for each socket, and stay in the cache.
    first: Vec<u32>,
    /// Sockets of processes, by host and process; [`NO_SOCKET`] until they are made.
    sockets: Vec<SocketId>,
}

const NO_SOCKET: SocketId = SocketId(u32::MAX);

impl Ports {
    /// Creates tables for so many hosts, on which these processes have sockets.
    pub(crate) fn new(hosts: u32, named: impl Iterator<Item = Process>, secret: u64) -> Self {
        let mut counts = vec![0; hosts as usize];
        for Process { host, number } in named {
            let count = &mut counts[host.index()];
            *count = (u32::from(number) + 1).max(*count);
        }
        let begin_after = |end: &mut u32, count: u32| {
            let begin = *end;
            *end += count;
            Some(begin)
        };
        let sockets = vec![NO_SOCKET; counts.iter().sum::<u32>() as usize];
        Self { secret, first: counts.into_iter().scan(0, begin_after).collect(), sockets }
    }

    /// Returns the socket of a process that shares one among all its peers.
    #[inline]
    pub(crate) fn socket_of(&self, process: Process) -> Option<SocketId> {
        let socket = self.sockets[self.place(process)];
        (socket != NO_SOCKET).then_some(socket)
    }

    /// Gives a process its socket.
    pub(crate) fn bind(&mut self, process: Process, socket: SocketId) {
        let place = self.place(process);
        self.sockets[place] = socket;
    }

    #[inline]
    fn place(&self, process: Process) -> usize {
        self.first[process.host.index()] as usize + usize::from(process.number)
    }

    /// Returns the hash of a 5-tuple: hosts, and in `tuple` the protocol and its ports.
    #[inline]
    pub(crate) fn flow_hash(&self, hosts: Ends<HostId>, tuple: u64) -> u32 {
        let hosts = u64::from(hosts.src.0) << 32 | u64::from(hosts.dst.0);
        (mix(mix(self.secret ^ hosts) ^ tuple) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_own_socket() {
        let processes = [(0, 1), (2, 0), (0, 0)];
        let processes = processes.map(|(host, number)| Process { host: HostId(host), number });
        let mut ports = Ports::new(3, processes.into_iter(), 7);
        for (process, socket) in processes.into_iter().zip(SocketId::all().skip(10)) {
            assert_eq!(ports.socket_of(process), None);
            ports.bind(process, socket);
        }
        let sockets = processes.map(|process| ports.socket_of(process));
        assert_eq!(sockets, [10, 11, 12].map(|number| Some(SocketId(number))));
    }
}
