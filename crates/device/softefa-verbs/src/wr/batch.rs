//! The work requests of a posting session.

use std::sync::Arc;

use softefa::{PostError, SendData, SendOp, SendWr, Target};

use crate::errno::Errno;
use crate::post::Sges;
use crate::sys;

/// The most inline bytes of a work request, over all devices.
const INLINE_MAX: usize = 512;

/// The work requests of a session. Keeps its memory from session to session.
#[derive(Default)]
pub(crate) struct Batch {
    /// The first `len` are in use; the others are left over from earlier sessions, to be
    /// overwritten.
    wrs: Vec<PendingWr>,
    len: usize,
    error: Option<Errno>,
}

/// A work request between `ibv_wr_send` and `ibv_wr_complete`.
pub(crate) struct PendingWr {
    wr_id: u64,
    pub(super) op: SendOp,
    flags: u32,
    /// Kept for the next work request in this position: a program that sends to the same peer again
    /// costs no reference.
    ah: Option<Arc<softefa::Ah>>,
    has_target: bool,
    qpn: u32,
    qkey: u32,
    /// The peer's shared receive queue; only with XRC.
    pub(super) remote_srq: u32,
    pub(super) sges: Sges,
    /// If set, the payload is this many bytes of `inline`, not `sges`.
    pub(super) inline_len: Option<usize>,
    pub(super) inline: [u8; INLINE_MAX],
}

impl Batch {
    /// Records the first error: later ones follow from it.
    pub(super) fn fail(&mut self, errno: Errno) {
        self.error.get_or_insert(errno);
    }

    /// Begins a work request.
    pub(super) fn begin(&mut self, wr_id: u64, op: SendOp, flags: u32) {
        if self.len == self.wrs.len() {
            self.wrs.push(PendingWr::vacant());
        }
        let wr = &mut self.wrs[self.len];
        (wr.wr_id, wr.op, wr.flags) = (wr_id, op, flags);
        (wr.has_target, wr.remote_srq, wr.inline_len) = (false, 0, None);
        wr.sges.clear();
        self.len += 1;
    }

    /// Returns the work requests that were begun.
    fn begun(&self) -> &[PendingWr] {
        &self.wrs[..self.len]
    }

    /// Changes the last work request.
    #[inline]
    pub(super) fn amend(&mut self, amend: impl FnOnce(&mut PendingWr) -> Result<(), Errno>) {
        let last = self.wrs[..self.len].last_mut();
        let amended = last.ok_or(Errno::EINVAL).and_then(amend);
        if let Err(errno) = amended {
            self.fail(errno);
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.error = None;
    }

    pub(super) fn post(&self, qp: &softefa::Qp) -> Result<(), Errno> {
        if let Some(errno) = self.error {
            return Err(errno);
        }
        // All or nothing: this thread's session keeps others from taking the room meanwhile.
        let (begun, is_connected) = (self.begun(), qp.init().kind.is_connected());
        if begun.len() > qp.send_room() as usize {
            return Err(Errno::ENOMEM);
        }
        // Nothing may be posted before an invalid request.
        if begun.len() > 1 {
            begun
                .iter()
                .try_for_each(|wr| wr.pass_to(is_connected, false, |wr| qp.check_send(wr)))?;
        }
        let last = begun.len().saturating_sub(1);
        let mut wrs = begun.iter().enumerate();
        wrs.try_for_each(|(index, wr)| {
            wr.pass_to(is_connected, index < last, |wr| qp.post_send(wr))
        })
    }
}

impl PendingWr {
    fn vacant() -> Self {
        Self {
            wr_id: 0,
            op: SendOp::Send,
            flags: 0,
            ah: None,
            has_target: false,
            qpn: 0,
            qkey: 0,
            remote_srq: 0,
            sges: Sges::default(),
            inline_len: None,
            inline: [0; INLINE_MAX],
        }
    }

    /// Sets the destination.
    #[inline]
    pub(super) fn set_destination(&mut self, ah: &Arc<softefa::Ah>, qpn: u32, qkey: u32) {
        (self.has_target, self.qpn, self.qkey) = (true, qpn, qkey);
        if !self.ah.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, ah)) {
            self.ah = Some(Arc::clone(ah));
        }
    }

    /// Passes the work request to `take` if it is complete.
    #[inline]
    fn pass_to(
        &self,
        is_connected: bool,
        more: bool,
        take: impl FnOnce(&SendWr<'_>) -> Result<(), PostError>,
    ) -> Result<(), Errno> {
        let target = match self.ah.as_ref().filter(|_| self.has_target) {
            Some(ah) => Some(Target { ah, qpn: self.qpn, qkey: self.qkey }),
            None if is_connected => None,
            None => return Err(Errno::EINVAL),
        };
        let is_message = matches!(self.op, SendOp::Send | SendOp::SendImm(_));
        let inline;
        let data = match (self.inline_len, self.sges.as_slice()) {
            // An EFA takes exactly one local entry for RDMA.
            (None, sges) if !is_message && !is_connected && sges.len() != 1 => {
                return Err(Errno::EINVAL);
            }
            (None, sges) => SendData::Sges(sges),
            (Some(len), _) => {
                inline = [&self.inline[..len]];
                SendData::Inline(&inline)
            }
        };
        take(&SendWr {
            wr_id: self.wr_id,
            op: self.op,
            data,
            signaled: self.flags & sys::IBV_SEND_SIGNALED != 0,
            fenced: self.flags & sys::IBV_SEND_FENCE != 0,
            solicited: self.flags & sys::IBV_SEND_SOLICITED != 0,
            target,
            remote_srq: self.remote_srq,
            more,
        })?;
        Ok(())
    }
}
