//! The transports of a queue pair.

mod rc;
mod roce_ud;
mod srd;
mod ud;

use std::sync::Arc;

use crate::config::Adapter;
use crate::qp_state::QpKind;
use crate::request::SendOp;
use crate::shell::{Shell, Side};
use crate::wire::PathSockets;

/// The message has immediate data. The engine carries the flags for us.
const FLAG_IMM: u8 = 1;

/// What a queue pair is created for, as far as transports differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SideInit {
    pub(crate) kind: QpKind,
    /// WRITEs with immediate consume no receive.
    pub(crate) unsolicited_write_recv: bool,
    /// The depth of the completion queue for receives.
    pub(crate) recv_cq_depth: u32,
    /// The size of the socket's receive buffer.
    pub(crate) receive_buffer_bytes: usize,
}

/// Makes the transport that `init` asks for, which the device has, around `shell`.
pub(crate) fn new(shell: Shell, paths: Arc<PathSockets>, init: SideInit) -> Box<dyn Side> {
    match (shell.device.adapter(), init.kind) {
        (Adapter::Roce, QpKind::Ud) => new_roce_ud(shell, &paths),
        (_, QpKind::Ud) => new_ud(shell, &paths),
        (_, QpKind::Srd) => new_srd(shell, paths, init),
        (_, QpKind::Rc | QpKind::Uc | QpKind::XrcInitiator | QpKind::XrcTarget) => {
            new_rc(shell, paths, init.kind)
        }
    }
}

// Each has a stack frame of its own: in one, the values of all four took 14 KiB, and a program's
// thread or fiber may have 16.

#[inline(never)]
fn new_roce_ud(shell: Shell, paths: &PathSockets) -> Box<dyn Side> {
    let path = paths.path_of(shell.port);
    Box::new(roce_ud::RoceUdSide::new(shell, path))
}

#[inline(never)]
fn new_ud(shell: Shell, paths: &PathSockets) -> Box<dyn Side> {
    Box::new(ud::UdSide::new(shell, paths.paths()))
}

#[inline(never)]
fn new_srd(shell: Shell, paths: Arc<PathSockets>, init: SideInit) -> Box<dyn Side> {
    Box::new(srd::SrdSide::new(shell, paths, init))
}

#[inline(never)]
fn new_rc(shell: Shell, paths: Arc<PathSockets>, kind: QpKind) -> Box<dyn Side> {
    Box::new(rc::RcSide::new(shell, paths, kind))
}

/// Returns the flags and the immediate of a message.
fn imm_of(op: SendOp) -> (u8, u32) {
    match op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => (FLAG_IMM, imm),
        // Those of a RoCE device do not come here.
        _ => (0, 0),
    }
}
