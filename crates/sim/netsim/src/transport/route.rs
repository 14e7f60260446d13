//! The one path of a connection.

use crate::id::{Ends, HostId, SocketId};
use crate::packet::{Packet, Payload};
use crate::socket::Ports;

/// One direction of a connection: what all its packets have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    src_host: HostId,
    dst_host: HostId,
    dst_socket: SocketId,
    flow_hash: u32,
}

impl Route {
    /// Returns the routes of data and of acknowledgements for a connection between two hosts.
    /// Packets of an end have that end's 5-tuple (`tuples`: protocol and ports), and take one path.
    pub(super) fn both(
        ports: &Ports,
        hosts: Ends<HostId>,
        sockets: Ends<SocketId>,
        tuples: Ends<u64>,
    ) -> (Self, Self) {
        let route = |hosts: Ends<HostId>, dst_socket: SocketId, tuple: u64| {
            let Ends { src: src_host, dst: dst_host } = hosts;
            let flow_hash = ports.flow_hash(hosts, tuple);
            Self { src_host, dst_host, dst_socket, flow_hash }
        };
        (route(hosts, sockets.dst, tuples.src), route(hosts.reversed(), sockets.src, tuples.dst))
    }

    pub(super) fn packet(&self, wire_bytes: u32, payload: Option<Payload>) -> Packet {
        Packet {
            wire_bytes,
            flow_hash: self.flow_hash,
            src_host: self.src_host,
            dst_host: self.dst_host,
            dst_socket: self.dst_socket,
            payload,
            marked: false,
        }
    }
}
