//! Lapses: wrong or missing answers of an adapter on a connection.

use std::net::IpAddr;

use super::InForce;
use super::random::{Die, Random, Use};

/// Decides for one queue pair of a RoCE device which acknowledgements and packet numbers are wrong.
#[derive(Debug)]
pub(crate) struct Lapses {
    silence: Die,
    complaint: Die,
    jump: Die,
    is_active: bool,
    /// The only peer that is affected; `None` = all peers.
    peer: Option<IpAddr>,
}

impl Lapses {
    /// Makes the lapses of `fault`; `stream` is that of [`Dice::new`](super::Dice::new).
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

    /// Returns true if any of the lapses was requested.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    /// Returns true if the lapses are for connections with `peer`.
    pub(crate) fn is_for(&self, peer: Option<IpAddr>) -> bool {
        self.peer.is_none_or(|only| peer == Some(only))
    }

    /// Returns true if this acknowledgement or NAK must not be sent.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.silence.hits()
    }

    /// Returns true if this acknowledgement must report the packet behind it as missing.
    pub(crate) fn is_complaining(&mut self) -> bool {
        self.complaint.hits()
    }

    /// Returns true if this request must have a number far ahead of its own.
    pub(crate) fn is_jumping(&mut self) -> bool {
        self.jump.hits()
    }
}
