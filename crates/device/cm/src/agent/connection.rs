//! What an agent knows of one connection, and the messages it is made of.

use super::table::Key;
use crate::mad::{Drep, Dreq, MAD_LEN, Mad, Message, Mra, Rej, Rtu};
use crate::{ListenerId, Offer, QpParams, Route};
use std::time::Duration;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Asked the responder.
    ReqSent,
    /// The responder took it, and the requester's program is not ready yet.
    RepRcvd,
    /// Asked by a requester; the program decides.
    ReqRcvd,
    /// Told the requester that it has the connection.
    RepSent,
    Established,
    /// Asked the peer to end it.
    DreqSent,
    /// The peer asked to end it; the program has not answered.
    DreqRcvd,
    /// Over, and remembered because of what may still be under way.
    TimeWait,
    /// Asked for the queue pair of a service.
    SidrReqSent,
    /// Asked by a peer for a queue pair; the program decides.
    SidrReqRcvd,
}

impl State {
    /// A peer began it, and may be nobody: counted against floods (CM-6.2).
    pub(super) const fn is_half_open(self) -> bool {
        matches!(self, Self::ReqRcvd | Self::RepSent | Self::SidrReqRcvd)
    }
}

/// Which message an MRA or REJ is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Req = 0,
    Rep = 1,
    Other = 2,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) state: State,
    pub(super) route: Route,
    pub(super) local_comm_id: u32,
    /// 0 before the peer has named it.
    pub(super) remote_comm_id: u32,
    /// Of the REQ and its answers, later of the last DREQ.
    pub(super) transaction_id: u64,
    pub(super) local: Offer,
    pub(super) qp: QpParams,
    /// Who was asked for it.
    pub(super) listener: Option<ListenerId>,
    /// It counts in its listener's backlog.
    pub(super) is_untaken: bool,
    /// The host has forgotten it, or been told to: no more events, and its id means nothing.
    pub(super) is_abandoned: bool,
    /// The host is told when nothing of it is under way any more.
    pub(super) tells_exit: bool,
    /// What is repeated by the timer, or to a peer that repeats itself.
    pub(super) last: Option<Box<[u8; MAD_LEN]>>,
    /// When it was first said.
    pub(super) asked_at: Duration,
    /// Time between repetitions.
    pub(super) wait: Duration,
    pub(super) retries_left: u8,
    /// When the peer repeats what it said, at the latest: it was asked for time.
    pub(super) repeats_by: Duration,
    /// The peer asked for time since the last repetition.
    pub(super) is_delayed: bool,
    pub(super) deadline: Option<Duration>,
    /// Under what else than its id the table finds it.
    pub(super) keys: [Option<Key>; 2],
}

impl Connection {
    pub(super) fn new(state: State, route: Route, transaction_id: u64, qp: QpParams) -> Self {
        Self {
            state,
            route,
            local_comm_id: 0,
            remote_comm_id: 0,
            transaction_id,
            local: Offer::default(),
            qp,
            listener: None,
            is_untaken: false,
            is_abandoned: false,
            tells_exit: false,
            last: None,
            asked_at: Duration::ZERO,
            wait: Duration::ZERO,
            retries_left: 0,
            repeats_by: Duration::ZERO,
            is_delayed: false,
            deadline: None,
            keys: [None; 2],
        }
    }

    fn mad(&self, message: Message) -> Mad {
        Mad { transaction_id: self.transaction_id, message }
    }

    /// The attribute of what is repeated; 0 for nothing.
    pub(super) fn last_attribute(&self) -> u16 {
        self.last.as_ref().map_or(0, |mad| u16::from_be_bytes([mad[16], mad[17]]))
    }

    pub(super) fn rtu(&self) -> Mad {
        let (local_comm_id, remote_comm_id) = (self.local_comm_id, self.remote_comm_id);
        self.mad(Message::Rtu(Rtu { local_comm_id, remote_comm_id, ..Rtu::ZERO }))
    }

    pub(super) fn dreq(&self) -> Mad {
        self.mad(Message::Dreq(Dreq {
            local_comm_id: self.local_comm_id,
            remote_comm_id: self.remote_comm_id,
            remote_qpn: self.qp.remote_qpn,
            ..Dreq::ZERO
        }))
    }

    pub(super) fn drep(&self) -> Mad {
        let (local_comm_id, remote_comm_id) = (self.local_comm_id, self.remote_comm_id);
        self.mad(Message::Drep(Drep { local_comm_id, remote_comm_id, ..Drep::ZERO }))
    }

    pub(super) fn mra(&self, about: About, service_timeout: u8) -> Mad {
        self.mad(Message::Mra(Mra {
            local_comm_id: self.local_comm_id,
            remote_comm_id: self.remote_comm_id,
            message: about as u8,
            service_timeout,
            ..Mra::ZERO
        }))
    }

    /// A rejection of what this state answers. The node GUID goes with it, by which a peer that
    /// knows our id only finds the connection (CM-4.7).
    pub(super) fn rej(&self, reason: u16, private_data: &[u8]) -> Mad {
        let about = match self.state {
            State::ReqRcvd => About::Req,
            State::RepRcvd => About::Rep,
            _ => About::Other,
        };
        let mut rej = Rej {
            local_comm_id: self.local_comm_id,
            remote_comm_id: self.remote_comm_id,
            message: about as u8,
            reason,
            ..Rej::ZERO
        };
        if reason == crate::mad::reason::TIMEOUT {
            rej.info_len = 8;
            rej.ari[..8].copy_from_slice(&self.local.ca_guid.to_be_bytes());
        }
        rej.private_data[..private_data.len()].copy_from_slice(private_data);
        self.mad(Message::Rej(rej))
    }
}
