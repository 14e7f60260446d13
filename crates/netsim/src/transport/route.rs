//! The one path of a connection.

use crate::packet::{Packet, Payload};
use crate::socket::Ports;

/// One direction of a connection: what all its packets have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    src_host: u32,
    dst_host: u32,
    dst_socket: u32,
    flow_hash: u32,
}

impl Route {
    /// The way of data and of acknowledgements, for a connection between two hosts whose sockets
    /// are `sockets`. Each has its own 5-tuple (`tuples`: protocol and ports), and takes one path.
    pub(super) fn both(
        ports: &Ports,
        hosts: (u32, u32),
        sockets: (u32, u32),
        tuples: (u64, u64),
    ) -> (Self, Self) {
        let route = |src_host: u32, dst_host: u32, dst_socket: u32, tuple: u64| {
            let flow_hash = ports.flow_hash(src_host, dst_host, tuple);
            Self { src_host, dst_host, dst_socket, flow_hash }
        };
        (route(hosts.0, hosts.1, sockets.1, tuples.0), route(hosts.1, hosts.0, sockets.0, tuples.1))
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
