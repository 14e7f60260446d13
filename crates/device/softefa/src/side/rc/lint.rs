//! Lints of a connection: mistakes on either side.

use rc::wire::icrc;
use rc::wire::{Bth, Headers, Kind};

use super::RcSide;
use crate::datagram::Datagram;
use crate::lint::{Pitfall, lint};
use crate::mr::Right;

impl RcSide {
    /// Checks a received packet.
    #[cold]
    pub(super) fn lint_packet(&self, datagram: &Datagram<'_>) {
        let Ok(bth) = Bth::parse(datagram.head) else { return };
        let (qpn, access) = (self.shell.qpn, self.shell.attrs.access);
        let is_permitted = match bth.opcode.kind {
            Kind::WriteFirst | Kind::WriteOnly | Kind::WriteOnlyImm => access.remote_write,
            Kind::ReadRequest => access.remote_read,
            Kind::CompareSwap | Kind::FetchAdd => access.remote_atomic,
            Kind::Flush => access.remote_flush,
            _ => true,
        };
        if !is_permitted {
            lint(|| Pitfall::QpAccess { qpn });
        }
        let is_full = matches!(
            bth.opcode.kind,
            Kind::SendFirst | Kind::SendMiddle | Kind::WriteFirst | Kind::WriteMiddle
        );
        let around = Headers::new(bth).len() + icrc::LEN + usize::from(bth.pad);
        let theirs = datagram.len().saturating_sub(around) as u32;
        let ours = self.shell.attrs.path_mtu_bytes;
        let joined = if self.shell.is_from_memory { u32::from(bth.joined) } else { 0 };
        let theirs = theirs / (1 + joined);
        if is_full && theirs != ours {
            lint(|| Pitfall::PathMtu { qpn, ours, theirs });
        }
    }

    /// Reports a message without a receive.
    #[cold]
    pub(super) fn lint_no_receive(&self) {
        if let Some(peer) = self.peer {
            lint(|| Pitfall::NoReceive { qpn: self.shell.qpn, from: peer.ip() });
        }
    }

    /// Reports a request of an XRC initiator that names a queue that does not exist.
    #[cold]
    pub(super) fn lint_no_queue(&self, srq: Option<u32>) {
        if let (Some(peer), Some(srq)) = (self.peer, srq) {
            lint(|| Pitfall::NoQueue { qpn: self.shell.qpn, from: peer.ip(), srq });
        }
    }

    /// Reports an access to `range` that the peer may not make.
    #[cold]
    pub(super) fn lint_access(&self, range: rc::Range, right: Right) {
        let what = match right {
            Right::Read => "read",
            Right::Write => "write",
            Right::Atomic => "change",
            Right::Flush => "flush",
        };
        let rc::Remote { va: addr, rkey } = range.remote;
        lint(|| Pitfall::Access { qpn: self.shell.qpn, what, addr, len: range.len, rkey });
    }
}
