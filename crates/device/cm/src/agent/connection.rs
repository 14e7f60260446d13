//! The state of one connection and the messages that it sends.

use super::table::Key;
use crate::mad::{Drep, Dreq, MAD_LEN, Mad, Message, Mra, Rej, Rtu};
use crate::{ListenerId, Offer, QpParams, Route};
use std::time::Duration;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A REQ was sent.
    ReqSent,
    /// A REP was received; the requester's program is not ready yet.
    RepRcvd,
    /// A REQ was received; the program decides.
    ReqRcvd,
    /// A REP was sent to the requester.
    RepSent,
    Established,
    /// A DREQ was sent.
    DreqSent,
    /// A DREQ was received; the program has not answered.
    DreqRcvd,
    /// Ended, and remembered because messages or packets may still be under way.
    TimeWait,
    /// A SIDR_REQ was sent.
    SidrReqSent,
    /// A SIDR_REQ was received; the program decides.
    SidrReqRcvd,
}

impl State {
    /// Returns whether a peer began it and may have a forged address: such connections are limited
    /// (CM-6.2).
    pub(super) const fn is_half_open(self) -> bool {
        matches!(self, Self::ReqRcvd | Self::RepSent | Self::SidrReqRcvd)
    }
}

/// The message that an MRA or REJ is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnsweredMessage {
    Req = 0,
    Rep = 1,
    Other = 2,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) state: State,
    pub(super) route: Route,
    pub(super) local_comm_id: u32,
    /// The peer's id; 0 before the peer has named it.
    pub(super) remote_comm_id: u32,
    /// Transaction of the REQ and its answers, later of the last DREQ.
    pub(super) transaction_id: u64,
    pub(super) local: Offer,
    pub(super) qp: QpParams,
    /// The listener that the request was for.
    pub(super) listener: Option<ListenerId>,
    /// The request counts in its listener's backlog.
    pub(super) is_untaken: bool,
    /// The host has destroyed it: there are no more events, and its id is invalid.
    pub(super) is_abandoned: bool,
    /// The host is notified when nothing of the connection is under way any more.
    pub(super) wants_exit_event: bool,
    /// The message to repeat, on a timeout or for a peer that repeats its own.
    pub(super) last: Option<Box<[u8; MAD_LEN]>>,
    /// When that message was first sent.
    pub(super) requested_at: Duration,
    /// Time between repetitions.
    pub(super) wait: Duration,
    pub(super) retries_left: u8,
    /// The latest time at which the peer repeats its message, after it was asked for time.
    pub(super) repeats_by: Duration,
    /// The time until which the peer has asked this side to wait (CM-4.5).
    pub(super) delayed_until: Option<Duration>,
    pub(super) deadline: Option<Duration>,
    /// The keys under which the table finds it, besides its id.
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
            wants_exit_event: false,
            last: None,
            requested_at: Duration::ZERO,
            wait: Duration::ZERO,
            retries_left: 0,
            repeats_by: Duration::ZERO,
            delayed_until: None,
            deadline: None,
            keys: [None; 2],
        }
    }

    fn mad(&self, message: Message) -> Mad {
        Mad { transaction_id: self.transaction_id, message }
    }

    /// Returns the attribute of the message to repeat; 0 for none.
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

    pub(super) fn mra(&self, answered: AnsweredMessage, service_timeout: u8) -> Mad {
        self.mad(Message::Mra(Mra {
            local_comm_id: self.local_comm_id,
            remote_comm_id: self.remote_comm_id,
            message: answered as u8,
            service_timeout,
            ..Mra::ZERO
        }))
    }

    /// Returns a rejection of the message that this state answers. One for a timeout carries the
    /// node GUID, by which a peer that knows only our id finds the connection (CM-4.7).
    pub(super) fn rej(&self, reason: u16, private_data: &[u8]) -> Mad {
        let answered = match self.state {
            State::ReqRcvd => AnsweredMessage::Req,
            State::RepRcvd => AnsweredMessage::Rep,
            _ => AnsweredMessage::Other,
        };
        let mut rej = Rej {
            local_comm_id: self.local_comm_id,
            remote_comm_id: self.remote_comm_id,
            message: answered as u8,
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
