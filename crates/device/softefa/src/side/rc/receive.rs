//! Receiving: packets from the wire to the engine, and their requests to the parts that serve them.

use std::net::IpAddr;

use rc::{DropReason, Received, Reject};
use srd::Instant;

use super::{RcSide, time};
use crate::counters::Counter;
use crate::datagram::Datagram;
use crate::lint::is_wanted;
use crate::qp_state::QpState;

impl RcSide {
    pub(super) fn receive_packet(&mut self, now: Instant, from: IpAddr, datagram: &Datagram<'_>) {
        // Not up yet, or not any more: as if the packet had been lost.
        if !self.is_ready_to_receive() && !self.is_closing {
            self.take_in_error(now, from, datagram);
            self.shell.drop_datagram(from, &"the queue pair does not receive");
            return;
        }
        if self.peer.is_none_or(|peer| peer.ip() != from) {
            self.shell.useless += 1;
            self.shell.drop_datagram(from, &"not the connected peer");
            return;
        }
        if is_wanted() {
            self.lint_packet(datagram);
        }
        if self.take_short(now, datagram) {
            return;
        }
        let (at, head, len) = (time(now), datagram.head, datagram.len());
        let result = if self.shell.is_from_memory {
            self.endpoint.handle_joined(at, head, len)
        } else {
            self.endpoint.handle_packet(at, head, len)
        };
        if self.shell.is_traced() {
            self.trace_received(datagram.head, &result);
        }
        match &result {
            &Ok(Received { payload_at, arrival: Some(ref arrival), srq }) => {
                // A queue pair that is destroyed takes nothing new: the peer hears nothing, as of
                // hardware.
                if self.is_closing {
                    return;
                }
                let is_there = self.shell.turn_to(srq);
                if !is_there {
                    self.lint_no_queue(srq);
                }
                let payload = datagram.payload(payload_at);
                let served =
                    if is_there { self.serve(arrival, payload) } else { Err(Reject::NoQueue) };
                match served {
                    Ok(original) => {
                        self.last_accepted = Some(now);
                        match original {
                            None => self.endpoint.accept(time(now)),
                            Some(original) => self.endpoint.accept_atomic(time(now), original),
                        }
                    }
                    Err(why) => {
                        self.note_lost(from, why);
                        self.endpoint.reject(time(now), why);
                    }
                }
            }
            Ok(Received { arrival: None, .. }) => {}
            &Err(why) => self.drop_packet(from, why),
        }
    }

    /// Makes the engine repeat its refusal if the refused request comes again (RC-6.3).
    #[cold]
    fn take_in_error(&mut self, now: Instant, from: IpAddr, datagram: &Datagram<'_>) {
        if self.shell.attrs.state == QpState::Error && self.peer.is_some_and(|p| p.ip() == from) {
            // It is dropped, whatever the engine says.
            let _ = self.endpoint.handle_packet(time(now), datagram.head, datagram.len());
        }
    }

    /// Notes that an unreliable connection has lost a message that a reliable one would refuse.
    #[cold]
    fn note_lost(&mut self, from: IpAddr, why: Reject) {
        if self.is_reliable {
            return;
        }
        if why == Reject::NotReady {
            self.shell.device.counters.add(Counter::RxNoReceive, 1);
        }
        self.shell.drop_datagram(from, &"the message cannot be taken, and is lost");
    }

    #[cold]
    fn drop_packet(&mut self, from: IpAddr, why: DropReason) {
        // What a lossy network leaves over is no stranger's.
        let is_usual = matches!(
            why,
            DropReason::Gap | DropReason::Duplicate | DropReason::Stale | DropReason::Missing
        );
        if !is_usual {
            self.shell.useless += 1;
            self.shell.drop_datagram(from, &why);
        }
    }
}
