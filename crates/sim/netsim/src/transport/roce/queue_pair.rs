//! One end of a connection: an `rc` engine, unchanged, with DCQCN around it.

use super::dcqcn::Limiter;
use super::notifier::Notifier;
use super::{MTU, RoceSetup};
use crate::id::{Ends, SocketId};
use crate::packet::{Body, FRAME_BYTES, Packet, Payload, UDP_BYTES};
use crate::socket::Ports;
use crate::time::Time;
use crate::transport::route::Route;
use crate::transport::{Counts, Delivery, Machine, Message, Notice};
use rc::wire::{Cnp, DEFAULT_PKEY, icrc};
use rc::{
    Access, Arrival, Endpoint, Event, Instant, Operation, Psn, ReceiveAttr, SendAttr, SendRequest,
    Service, WrId,
};
use srd::HEADER_MAX;
use std::sync::Arc;

/// Bytes of frame and headers around the output of an engine.
const AROUND_BYTES: u32 = FRAME_BYTES + UDP_BYTES;
/// Code of the shortest timeout that a connection can ask for; the host's is longer.
const TIMEOUT_CODE: u8 = 1;
/// RNR retry count: for ever. Receives are always posted, so it never counts.
const RNR_RETRY: u8 = 7;

/// Role of a queue pair in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Sender,
    Receiver,
}

#[derive(Debug)]
pub(crate) struct QueuePair {
    engine: Endpoint,
    route: Route,
    peer_qpn: u32,
    /// Rate limiter of a sender with DCQCN.
    limiter: Option<Limiter>,
    /// Time until which the limiter holds a packet back.
    held_until: Option<Time>,
    /// Notification point of a receiver with DCQCN.
    notifier: Option<Notifier>,
    /// Delivery by the packet that just arrived, until the loop is told.
    arrived: Option<Delivery>,
    received_at: Time,
}

impl QueuePair {
    /// Creates the queue pair of the socket `src`, connected to that of `dst`. Sockets are fewer
    /// than there are numbers of queue pairs.
    pub(super) fn new(setup: &RoceSetup, end: End, route: Route, sockets: Ends<SocketId>) -> Self {
        let (qpn, peer_qpn) = (sockets.src.0, sockets.dst.0);
        let mut engine = Endpoint::new(Arc::clone(&setup.config), Service::Rc, qpn);
        engine.ready_to_receive(ReceiveAttr {
            dest_qpn: peer_qpn,
            path_mtu: MTU,
            rq_psn: Psn::default(),
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            access: Access::default(),
        });
        engine.ready_to_send(SendAttr {
            sq_psn: Psn::default(),
            max_rd_atomic: 0,
            timeout: TIMEOUT_CODE,
            retry_cnt: setup.retries,
            rnr_retry: RNR_RETRY,
        });
        let limiter = setup.dcqcn.filter(|_| end == End::Sender).map(Limiter::new);
        let notifier = setup.dcqcn.filter(|_| end == End::Receiver);
        let notifier = notifier.map(|dcqcn| Notifier::new(dcqcn.cnp_interval_ps));
        Self {
            engine,
            route,
            peer_qpn,
            limiter,
            held_until: None,
            notifier,
            arrived: None,
            received_at: Time::ZERO,
        }
    }

    fn notification<'a>(&self, scratch: &'a mut [u8; HEADER_MAX]) -> (Packet, Body<'a>) {
        let wire_bytes = AROUND_BYTES + (Cnp::LEN + icrc::LEN) as u32;
        Cnp { pkey: DEFAULT_PKEY, dest_qpn: self.peer_qpn }.emit(scratch);
        (self.route.packet(wire_bytes, None), Body::Engine(&scratch[..Cnp::LEN]))
    }
}

impl Machine for QueuePair {
    fn post(&mut self, now: Time, message: Message) {
        let id = WrId(message.name.to_u64());
        let request = SendRequest::new(id, Operation::Send, message.bytes);
        let posted = self.engine.post(clock(now), request);
        assert_eq!(posted, Ok(()), "a valid message to a connected queue pair");
    }

    fn receive(&mut self, now: Time, packet: &Packet, body: Body<'_>) {
        let Body::Engine(header) = body else { return };
        self.received_at = now;
        if let Some(notifier) = &mut self.notifier {
            if packet.marked && packet.payload.is_some() {
                notifier.mark(now);
            }
        }
        let len = (packet.wire_bytes - AROUND_BYTES) as usize;
        let result = self.engine.handle_packet(clock(now), header, len);
        if let Ok(received) = result {
            if let Some(Arrival::Send(_)) = received.arrival {
                self.engine.accept(clock(now));
                self.arrived = Some(Delivery::of(packet.payload));
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(limiter) = &mut self.limiter {
            limiter.handle_timeout(now);
            self.held_until = self.held_until.map(|_| limiter.next_at());
        }
        self.held_until = self.held_until.filter(|&at| at > now);
        self.engine.handle_timeout(clock(now));
    }

    fn poll_timeout(&self) -> Option<Time> {
        let engine = self.engine.poll_timeout().map(|at| Time::from_engine_ns(at.as_ns()));
        let increase = self.limiter.as_ref().and_then(|limiter| limiter.timeout());
        // A rate that nobody uses need not grow in time.
        let increase = increase.filter(|_| self.engine.in_flight() > 0);
        [engine, increase, self.held_until].into_iter().flatten().min()
    }

    fn has_backlog(&self) -> bool {
        let notifies = self.notifier.as_ref().is_some_and(Notifier::is_due);
        notifies || self.held_until.is_none() && self.engine.has_backlog()
    }

    fn poll_transmit<'a>(
        &mut self,
        now: Time,
        _ports: &Ports,
        scratch: &'a mut [u8; HEADER_MAX],
    ) -> Option<(Packet, Body<'a>)> {
        if self.notifier.as_mut().is_some_and(Notifier::take) {
            return Some(self.notification(scratch));
        }
        let free_at = self.limiter.as_ref().map_or(now, |limiter| limiter.next_at());
        if free_at > now && self.engine.has_backlog() {
            self.held_until = Some(free_at);
            return None;
        }
        let header = scratch.first_chunk_mut::<{ rc::HEADER_MAX }>()?;
        let out = self.engine.poll_transmit(clock(now), header)?;
        let wire_bytes = out.packet_len() as u32 + AROUND_BYTES;
        if let Some(limiter) = &mut self.limiter {
            limiter.sent(now, wire_bytes);
        }
        let payload = match out.payload {
            rc::Payload::Request { id, .. } => Some(Payload::from_u64(id.0)),
            rc::Payload::Response { .. } | rc::Payload::None => None,
        };
        Some((self.route.packet(wire_bytes, payload), Body::Engine(&scratch[..out.header_len])))
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        if let Some(delivery) = self.arrived.take() {
            return Some(Notice::Delivered(delivery));
        }
        loop {
            match self.engine.poll_event()? {
                Event::Completed { id, status } => {
                    let message = Payload::from_u64(id.0);
                    return Some(Notice::Ended { message, code: status.code() });
                }
                Event::Congestion => {
                    if let Some(limiter) = &mut self.limiter {
                        limiter.cut(self.received_at);
                        self.held_until = self.held_until.map(|_| limiter.next_at());
                    }
                }
                _ => {}
            }
        }
    }

    fn counts(&self) -> Counts {
        let stats = self.engine.stats();
        Counts {
            data_packets: stats.tx_packets - stats.tx_acks - stats.tx_sequence_naks,
            repeated_packets: stats.tx_repeated,
            needless_repeats: stats.rx_duplicates,
        }
    }
}

fn clock(now: Time) -> Instant {
    Instant::from_ns(now.to_engine_ns())
}

#[cfg(test)]
mod tests;
