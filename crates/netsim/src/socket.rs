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
    /// Where each host's processes begin in `sockets`. Every packet of SRD asks: both tables
    /// together are a few bytes for each socket, and stay in the cache.
    first: Vec<u32>,
    /// Sockets of processes, by host and process; [`NO_SOCKET`] until they are made.
    sockets: Vec<u32>,
}

const NO_SOCKET: u32 = u32::MAX;

impl Ports {
    /// For so many hosts, on which these processes, named by host and number, have sockets.
    pub(crate) fn new(hosts: u32, named: impl Iterator<Item = (u32, u16)>, secret: u64) -> Self {
        let mut counts = vec![0; hosts as usize];
        for (host, process) in named {
            let count = &mut counts[host as usize];
            *count = (u32::from(process) + 1).max(*count);
        }
        let begin_after = |end: &mut u32, count: u32| {
            let begin = *end;
            *end += count;
            Some(begin)
        };
        let sockets = vec![NO_SOCKET; counts.iter().sum::<u32>() as usize];
        Self { secret, first: counts.into_iter().scan(0, begin_after).collect(), sockets }
    }

    /// The socket of a process that shares one among all its peers.
    #[inline]
    pub(crate) fn socket_of(&self, host: u32, process: u16) -> Option<u32> {
        let socket = self.sockets[self.place(host, process)];
        (socket != NO_SOCKET).then_some(socket)
    }

    /// Gives a process its socket.
    pub(crate) fn bind(&mut self, host: u32, process: u16, socket: u32) {
        let place = self.place(host, process);
        self.sockets[place] = socket;
    }

    #[inline]
    fn place(&self, host: u32, process: u16) -> usize {
        self.first[host as usize] as usize + usize::from(process)
    }

    /// The hash of a 5-tuple: hosts, and in `tuple` the protocol and its ports.
    #[inline]
    pub(crate) fn flow_hash(&self, src_host: u32, dst_host: u32, tuple: u64) -> u32 {
        let hosts = u64::from(src_host) << 32 | u64::from(dst_host);
        (mix(mix(self.secret ^ hosts) ^ tuple) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_own_socket() {
        let processes = [(0, 1), (2, 0), (0, 0)];
        let mut ports = Ports::new(3, processes.into_iter(), 7);
        for ((host, process), socket) in processes.into_iter().zip(10..) {
            assert_eq!(ports.socket_of(host, process), None);
            ports.bind(host, process, socket);
        }
        let sockets = processes.map(|(host, process)| ports.socket_of(host, process));
        assert_eq!(sockets, [Some(10), Some(11), Some(12)]);
    }
}
