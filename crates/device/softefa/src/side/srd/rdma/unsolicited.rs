//! How the immediate of a WRITE is received: by a posted receive, or unsolicited (SRD-10.3).

use std::sync::atomic::Ordering;

use srd::{Arrival, Reject};

use super::{Block, Extras};
use crate::completion::CompletionOp;
use crate::request::SendOp;
use crate::side::FLAG_IMM;
use crate::side::srd::SrdSide;
use crate::side::srd::socket_addr;

/// Part of a WRITE that ends with an immediate.
const FLAG_NOTIFIES: u8 = 2;
/// The requester's queue pair receives such WRITEs unsolicited.
const FLAG_UNSOLICITED: u8 = 4;

/// The kind of receiving that a queue pair was created for.
#[derive(Debug, Clone, Copy)]
pub(in crate::side::srd) struct WriteRecv {
    is_unsolicited: bool,
    /// Unsolicited completions that may wait to be polled.
    unpolled_max: u32,
}

impl WriteRecv {
    pub(in crate::side::srd) fn new(is_unsolicited: bool, unpolled_max: u32) -> Self {
        Self { is_unsolicited, unpolled_max }
    }

    /// What goes with a message of `op`, which is the one that tells the receiver or not.
    pub(super) fn extras(self, op: SendOp, tells: bool) -> Extras {
        let SendOp::WriteImm(_, imm) = op else { return Extras::NONE };
        let mode = if self.is_unsolicited { FLAG_UNSOLICITED } else { 0 };
        let flags = FLAG_NOTIFIES | mode;
        if tells { Extras { flags: flags | FLAG_IMM, imm } } else { Extras { flags, imm: 0 } }
    }

    /// Refuses a WRITE with an immediate unless both sides receive those in the same way. Each of
    /// its messages tells, so that none is placed before.
    pub(super) fn agree(self, flags: u8) -> Result<(), Reject> {
        let theirs = flags & FLAG_UNSOLICITED != 0;
        let agrees = flags & FLAG_NOTIFIES == 0 || theirs == self.is_unsolicited;
        if agrees { Ok(()) } else { Err(Reject::FeatureMismatch) }
    }
}

impl SrdSide {
    /// Refuses the message of a WRITE that tells the receiver as long as there is no room for it.
    pub(super) fn check_room_for_immediate(&mut self, flags: u8) -> Result<(), Reject> {
        if flags & FLAG_IMM == 0 {
            return Ok(());
        }
        // Nothing but the limit bounds what peers can put into the program's completion queue.
        let has_room = if self.write_recv.is_unsolicited {
            self.shell.unpolled.unsolicited.load(Ordering::Acquire) < self.write_recv.unpolled_max
        } else {
            self.shell.rq.len() > 0 && !self.shell.deal_not_ready()
        };
        if has_room { Ok(()) } else { Err(Reject::Rnr) }
    }

    /// Completes the immediate that a WRITE ends with, if it is here and
    /// [`SrdSide::check_room_for_immediate`] had nothing against it.
    pub(super) fn complete_immediate(&mut self, arrival: &Arrival, block: &Block) {
        if arrival.flags & FLAG_IMM == 0 {
            return;
        }
        let (wr_id, op) = if self.write_recv.is_unsolicited {
            self.shell.unpolled.unsolicited.fetch_add(1, Ordering::AcqRel);
            (0, CompletionOp::UnsolicitedWrite)
        } else {
            let Some(wqe) = self.shell.rq.pop() else { return };
            (wqe.wr_id, CompletionOp::RecvWrite)
        };
        let from = self.endpoint.address(arrival.peer).unwrap_or_default();
        let src = socket_addr(from.host, from.qpn);
        self.shell.complete_recv(
            wr_id,
            &src.into(),
            block.total as usize,
            Some(arrival.imm),
            false,
        );
        if let Some(completion) = self.shell.recvs_done.last_mut() {
            completion.op = op;
        }
    }
}
