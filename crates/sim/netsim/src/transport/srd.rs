//! A process's SRD socket: an `srd` engine, unchanged.

use super::{Counts, Delivery, Machine, Message, Notice, Posting};
use crate::id::{Ends, HostId, Process};
use crate::packet::{Body, FRAME_BYTES, Packet, Payload, UDP_BYTES};
use crate::socket::Ports;
use crate::time::Time;
use srd::{Address, Config, Endpoint, Event, HEADER_MAX, Instant, MsgId, Seed};
use std::sync::Arc;

/// Bytes of a data packet that are no payload: frame, common header, data block.
pub(super) const OVERHEAD_BYTES: u32 =
    FRAME_BYTES + UDP_BYTES + (srd::wire::Header::LEN + srd::wire::DataRepr::LEN) as u32;

/// Bytes of an acknowledgement on the wire: common header, block without bits.
pub(super) const ACK_BYTES: u32 = FRAME_BYTES + UDP_BYTES + srd::wire::Header::LEN as u32 + 44;

/// Configuration of all engines.
#[derive(Clone, Debug)]
pub(crate) struct SrdSetup {
    pub(crate) config: Arc<Config>,
    pub(crate) posting: Posting,
}

#[derive(Debug)]
pub(crate) struct SrdSocket {
    engine: Endpoint,
    host: HostId,
    /// Delivery by the packet that just arrived, until the loop is told.
    arrived: Option<Delivery>,
}

impl SrdSocket {
    pub(crate) fn new(config: &Arc<Config>, process: Process, seed: u64) -> Self {
        let engine = Endpoint::new(Arc::clone(config), qpn_of(process), Seed::from_u64(seed));
        Self { engine, host: process.host, arrived: None }
    }
}

impl Machine for SrdSocket {
    fn post(&mut self, now: Time, message: Message) {
        let to = Address { host: u64::from(message.dst.host.0), qpn: qpn_of(message.dst) };
        let peer = self.engine.peer(clock(now), to);
        let descriptor = srd::Message {
            id: MsgId(message.name.to_u64()),
            len: message.bytes,
            rnr_retry: 7,
            ..srd::Message::default()
        };
        let posted = self.engine.send(clock(now), peer, descriptor);
        assert_eq!(posted, Ok(()), "a valid message to a peer just named");
    }

    fn receive(&mut self, now: Time, packet: &Packet, body: Body<'_>) {
        let Body::Engine(header) = body else { return };
        let (now, from) = (clock(now), u64::from(packet.src_host.0));
        let len = (packet.wire_bytes - FRAME_BYTES - UDP_BYTES) as usize;
        let result = self.engine.handle_datagram(now, from, header, len);
        if let Ok(received) = result {
            if let Some(arrival) = received.data {
                self.engine.accept(now, arrival.peer, arrival.psn);
                self.arrived = Some(Delivery::of(packet.payload));
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.engine.handle_timeout(clock(now));
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.engine.poll_timeout().map(|at| Time::from_engine_ns(at.as_ns()))
    }

    fn has_backlog(&self) -> bool {
        self.engine.has_backlog()
    }

    fn poll_transmit<'a>(
        &mut self,
        now: Time,
        ports: &Ports,
        scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)> {
        let out = self.engine.poll_transmit(clock(now), scratch)?;
        let dst_host = HostId(out.addr.host as u32);
        // The source port is the path.
        let tuple = u64::from(out.path.0) << 16 | u64::from(out.addr.qpn);
        #[expect(clippy::expect_used, reason = "engines only know addresses that flows named")]
        let dst_socket =
            ports.socket_of(process_of(dst_host, out.addr.qpn)).expect("the socket exists");
        let packet = Packet {
            wire_bytes: out.header_len as u32 + out.payload_len + FRAME_BYTES + UDP_BYTES,
            flow_hash: ports.flow_hash(Ends { src: self.host, dst: dst_host }, tuple),
            src_host: self.host,
            dst_host,
            dst_socket,
            payload: out.msg.map(|id| Payload::from_u64(id.0)),
            marked: false,
        };
        Some((packet, Body::Engine(&scratch[..out.header_len])))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        if let Some(delivery) = self.arrived.take() {
            return Some(Notice::Delivered(delivery));
        }
        loop {
            if let Event::Completed { msg, status, .. } = self.engine.poll_event()? {
                let message = Payload::from_u64(msg.0);
                return Some(Notice::Ended { message, code: status.code() });
            }
        }
    }

    fn counts(&self) -> Counts {
        let stats = self.engine.stats();
        Counts {
            data_packets: stats.tx_data,
            repeated_packets: stats.retrans_pkts,
            needless_repeats: stats.rx_duplicates,
        }
    }
}

fn clock(now: Time) -> Instant {
    Instant::from_ns(now.to_engine_ns())
}

fn qpn_of(process: Process) -> u16 {
    process.number + 1
}

/// Returns the process of a host whose socket has this queue pair number.
fn process_of(host: HostId, qpn: u16) -> Process {
    Process { host, number: qpn.wrapping_sub(1) }
}
