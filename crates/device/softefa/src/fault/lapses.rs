//! What an adapter of a connection says wrongly, or not at all.

use std::net::IpAddr;

use super::InForce;
use super::random::{Die, Random, Use};

/// Decides for one queue pair of a RoCE device what becomes of its acknowledgements and packet
/// numbers.
#[derive(Debug)]
pub(crate) struct Lapses {
    silence: Die,
    complaint: Die,
    jump: Die,
    is_active: bool,
    /// The only peer that is hit.
    peer: Option<IpAddr>,
}

impl Lapses {
    /// Arguments as for [`Dice::new`](super::Dice::new).
    pub(crate) fn new(fault: &InForce, stream: u64) -> Self {
        let spec = &fault.spec;
        let die = |share_ppm, purpose| Die::new(share_ppm, Random::new(spec.seed, stream, purpose));
        let shares = [spec.ack_loss_ppm, spec.nak_ppm, spec.psn_gap_ppm];
        Self {
            silence: die(spec.ack_loss_ppm, Use::AckLoss),
            complaint: die(spec.nak_ppm, Use::Complaints),
            jump: die(spec.psn_gap_ppm, Use::Jumps),
            is_active: shares != [0; 3],
            peer: fault.peer,
        }
    }

    /// Some of it was asked for.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    /// It is for connections with `peer`.
    pub(crate) fn is_for(&self, peer: Option<IpAddr>) -> bool {
        self.peer.is_none_or(|only| peer == Some(only))
    }

    /// This acknowledgement or NAK is not to be sent.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.silence.hits()
    }

    /// This acknowledgement is to say that the packet behind it is missing.
    pub(crate) fn is_complaining(&mut self) -> bool {
        self.complaint.hits()
    }

    /// This request is to have a number far ahead of its own.
    pub(crate) fn is_jumping(&mut self) -> bool {
        self.jump.hits()
    }
}
