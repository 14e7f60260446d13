//! How the immediate of a WRITE is received: by a posted receive, or unsolicited (SRD-10.3).

use std::sync::atomic::Ordering;

use srd::{Arrival, Reject};

use super::Block;
use crate::core::{Core, FLAG_IMM};
use crate::cq::CompletionOp;
use crate::qp::{QpInit, SendOp, socket_addr};

/// Part of a WRITE that ends with an immediate.
const FLAG_NOTIFIES: u8 = 2;
/// The requester's queue pair receives such WRITEs unsolicited.
const FLAG_UNSOLICITED: u8 = 4;

/// What a queue pair was created for.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) struct WriteRecv {
    is_unsolicited: bool,
    /// Unsolicited completions that may wait to be polled.
    unpolled_max: u32,
}

impl WriteRecv {
    pub(in crate::core) fn of(init: &QpInit) -> Self {
        Self { is_unsolicited: init.unsolicited_write_recv, unpolled_max: init.recv_cq.depth() }
    }

    /// Flags and immediate of a message of `op`, which is the one that tells the receiver or not.
    pub(super) fn flags_and_imm(self, op: SendOp, tells: bool) -> (u8, u32) {
        let SendOp::WriteImm(_, imm) = op else { return (0, 0) };
        let mode = if self.is_unsolicited { FLAG_UNSOLICITED } else { 0 };
        if tells { (FLAG_NOTIFIES | mode | FLAG_IMM, imm) } else { (FLAG_NOTIFIES | mode, 0) }
    }

    /// Refuses a WRITE with an immediate unless both sides receive those in the same way. Each of
    /// its messages tells, so that none is placed before.
    pub(super) fn agree(self, flags: u8) -> Result<(), Reject> {
        let theirs = flags & FLAG_UNSOLICITED != 0;
        let agrees = flags & FLAG_NOTIFIES == 0 || theirs == self.is_unsolicited;
        if agrees { Ok(()) } else { Err(Reject::FeatureMismatch) }
    }
}

impl Core {
    /// Refuses the message of a WRITE that tells the receiver as long as there is no room for it.
    pub(super) fn can_tell(&mut self, flags: u8) -> Result<(), Reject> {
        if flags & FLAG_IMM == 0 {
            return Ok(());
        }
        // Nothing but the limit bounds what peers can put into the program's completion queue.
        let has_room = if self.write_recv.is_unsolicited {
            self.unpolled.unsolicited.load(Ordering::Acquire) < self.write_recv.unpolled_max
        } else {
            self.rq.len() > 0 && !self.is_not_ready_on_purpose()
        };
        if has_room { Ok(()) } else { Err(Reject::Rnr) }
    }

    /// Completes the immediate that a WRITE ends with, if it is here and [`Core::can_tell`] had
    /// nothing against it.
    pub(super) fn tell_written(&mut self, arrival: &Arrival, block: &Block) {
        if arrival.flags & FLAG_IMM == 0 {
            return;
        }
        let (wr_id, op) = if self.write_recv.is_unsolicited {
            self.unpolled.unsolicited.fetch_add(1, Ordering::AcqRel);
            (0, CompletionOp::UnsolicitedWrite)
        } else {
            let Some(wqe) = self.rq.pop() else { return };
            (wqe.wr_id, CompletionOp::RecvWrite)
        };
        let from = self.endpoint.address(arrival.peer).unwrap_or_default();
        let src = socket_addr(from.host, from.qpn);
        self.complete_recv(wr_id, src, block.total as usize, Some(arrival.imm), false);
        if let Some(completion) = self.recvs_done.last_mut() {
            completion.op = op;
        }
    }
}
