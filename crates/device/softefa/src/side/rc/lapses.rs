//! Faults that a connection injects into its own packets: whether they leave, and with which
//! number.

use rc::wire::{Aeth, Bth, Headers, Kind, NakCode, Syndrome};
use rc::{HEADER_MAX, Psn, Transmit};

use super::RcSide;
use crate::counters::Counter;

/// The distance by which a packet number jumps ahead. It stays ahead for as long as any network
/// keeps the packet, so that it is never taken for another one (RC-2.2).
const JUMP: u32 = 1 << 22;

impl RcSide {
    /// Changes a packet if a fault says so; returns whether it leaves.
    #[cold]
    pub(super) fn lapse(&mut self, out: &Transmit, header: &mut [u8; HEADER_MAX]) -> bool {
        let Ok(mut headers) = Headers::parse(&header[..out.header_len]) else { return true };
        let (shell, peer) = (&mut self.shell, self.peer.map(|peer| peer.ip()));
        if !shell.faults.lapses.is_for(peer) {
            return true;
        }
        let kind = headers.bth.opcode.kind;
        if kind == Kind::Acknowledge {
            if shell.faults.lapses.is_silent() {
                shell.deal(&[(Counter::FaultAckLost, 1)]);
                return false;
            }
            let is_ack = matches!(headers.aeth.syndrome, Syndrome::Ack(_));
            if is_ack && shell.faults.lapses.is_complaining() {
                shell.deal(&[(Counter::FaultNak, 1)]);
                let Aeth { msn, .. } = headers.aeth;
                headers.aeth = Aeth { syndrome: Syndrome::Nak(NakCode::Sequence), msn };
                headers.bth.psn = ahead(&headers.bth, 1);
                headers.emit(header);
            }
        } else if kind.is_request() && !out.is_repeated && shell.faults.lapses.is_jumping() {
            shell.deal(&[(Counter::FaultPsnGap, 1)]);
            headers.bth.psn = ahead(&headers.bth, JUMP);
            headers.emit(header);
        }
        true
    }
}

fn ahead(bth: &Bth, by: u32) -> Psn {
    Psn::new(bth.psn.get() + by)
}
