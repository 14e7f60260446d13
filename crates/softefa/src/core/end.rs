//! Work requests that end before their time: error and reset state, a destroyed queue pair, a
//! destroyed address handle.

use std::net::Ipv4Addr;

use srd::{Instant, PeerId};

use super::Core;
use crate::qp::{QpState, SendOp};
use crate::status::Status;

impl Core {
    /// Error state: everything posted completes as flushed.
    pub(crate) fn flush(&mut self, now: Instant) {
        self.restart_engine(now);
        for slot in self.sq.drain() {
            self.complete_send(&slot, Status::Flushed);
        }
        while let Some(wqe) = self.rq.pop() {
            self.flush_recv(&wqe);
        }
    }

    /// The adapter broke in a turn: everything posted ends without asking the engine, whose state
    /// may be the reason.
    pub(crate) fn fail(&mut self) {
        self.attrs.state = QpState::Error;
        // The program may use its memory once it hears of the end.
        self.rdma.clear();
        for slot in self.sq.drain() {
            self.complete_send(&slot, Status::LocalQpInternalError);
        }
        while let Some(wqe) = self.rq.pop() {
            self.flush_recv(&wqe);
        }
    }

    /// Reset state: everything posted is forgotten.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.restart_engine(now);
        self.sq.drain();
        while self.rq.pop().is_some() {}
        self.sends_done.clear();
        self.recvs_done.clear();
    }

    fn restart_engine(&mut self, now: Instant) {
        self.ud_queue.clear();
        for peer in self.sq.peers().chain(self.rdma.peers()) {
            self.endpoint.cancel_peer(now, peer);
        }
        while self.endpoint.poll_event().is_some() {}
        self.rdma.clear();
    }

    /// A peer has not acknowledged all that was posted for it.
    pub(crate) fn owes_data(&self) -> bool {
        self.sq.iter().any(|slot| slot.fault.is_none() && !matches!(slot.op, SendOp::Read(_)))
    }

    /// Region `key` is gone: nobody may copy its bytes, and no copy into it goes on.
    pub(crate) fn retire(&mut self, key: u32) {
        self.sq.end_leases_of(key);
        self.rdma.wait_for_copies();
    }

    /// The queue pair is destroyed: only acknowledgements go on.
    pub(crate) fn close(&mut self, now: Instant) {
        self.trace_state(self.attrs.state, None);
        self.endpoint.begin_close(now);
        self.reset(now);
        self.final_acks(now);
        self.count_sends();
        self.attrs.state = QpState::Error;
    }

    /// The last address handle for `addr` is gone: what is on its way there completes as flushed.
    pub(crate) fn flush_toward(&mut self, now: Instant, addr: Ipv4Addr) {
        for peer in self.sq.peers() {
            if is_at(&self.endpoint, peer, addr) {
                self.endpoint.cancel_peer(now, peer);
            }
        }
        self.harvest(now);
        // What is left had nothing in the engine: a WRITE that waits for its turn, a READ that
        // waits for its data.
        for index in 0..self.sq.end() {
            let peer = self.sq.get(index).and_then(|slot| slot.peer);
            if peer.is_some_and(|peer| is_at(&self.endpoint, peer, addr)) {
                self.flush_transfer(now, index);
            }
        }
        self.flush_ud_toward(addr);
    }
}

fn is_at(endpoint: &srd::Endpoint, peer: PeerId, addr: Ipv4Addr) -> bool {
    endpoint.address(peer).is_some_and(|at| at.host == u64::from(u32::from(addr)))
}
