//! The connections and listeners of one process.
//!
//! | file | what happens there |
//! |---|---|
//! | `mod` | messages in and out, events, ids |
//! | `opening` | the requester: REQ, REP received, RTU |
//! | `serving` | the responder: REQ received, REP, RTU received |
//! | `refusing` | MRA, REJ, peers that are not there |
//! | `closing` | DREQ, DREP, the time after them, abandoned connections |
//! | `resolving` | SIDR: datagram services |
//! | `timers` | what is repeated, given up and forgotten |
//! | `table`, `listener`, `connection` | what is remembered |

mod closing;
mod connection;
mod listener;
mod opening;
mod refusing;
mod resolving;
mod serving;
mod table;
mod timers;

use crate::mad::{MAD_LEN, Mad, Message};
use crate::random::Random;
use crate::{CallError, Config, DropReason, Event, QpParams, Route, Seed, Transmit};
use connection::{AnsweredMessage, Connection, State};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use table::Table;

pub use listener::ListenParams;

/// Identifies a connection, or a SIDR query. It is the id on the wire, drawn at random, so that the
/// id of a forgotten connection is not soon used for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub(crate) u32);

/// Identifies a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub(crate) u32);

/// All connections and listeners of one process.
///
/// Times are those of one clock of the host's, since an origin that it chooses; an earlier time
/// than before is treated as "no time has passed". After each call that takes a time:
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) until they return
/// `None`, then [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Agent {
    config: Config,
    random: Random,
    table: Table,
    listeners: listener::Listeners,
    /// Requests that ended before the program took them. They count in their backlogs until it
    /// does.
    untaken: BTreeMap<ConnId, ListenerId>,
    out: VecDeque<Transmit>,
    events: VecDeque<Event>,
    now: Duration,
}

impl Agent {
    /// Creates an agent without connections and listeners.
    #[must_use]
    pub fn new(config: Config, seed: Seed) -> Self {
        Self {
            config,
            random: Random::new(seed),
            table: Table::default(),
            listeners: listener::Listeners::default(),
            untaken: BTreeMap::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            now: Duration::ZERO,
        }
    }

    /// Starts to accept requests for a service.
    ///
    /// # Errors
    /// [`CallError::ServiceInUse`].
    pub fn listen(&mut self, params: ListenParams) -> Result<ListenerId, CallError> {
        self.listeners.insert(params)
    }

    /// Stops accepting requests. Those that were taken remain, and their peers are told where to
    /// repeat them (CM-4.5).
    ///
    /// # Errors
    /// [`CallError::Unknown`].
    pub fn close_listener(&mut self, listener: ListenerId) -> Result<(), CallError> {
        self.listeners.remove(listener)?;
        self.untaken.retain(|_, of| *of != listener);
        for conn in self.table.requested_of(listener) {
            self.ask_for_time(conn, AnsweredMessage::Req);
        }
        Ok(())
    }

    /// Notes that the program has taken the request, or never will: its listener's backlog has room
    /// for another (CM-6.1).
    pub fn taken(&mut self, conn: ConnId) {
        let listener = match self.table.get_mut(conn) {
            Some(connection) => {
                let is_untaken = core::mem::take(&mut connection.is_untaken);
                connection.listener.filter(|_| is_untaken)
            }
            None => self.untaken.remove(&conn),
        };
        if let Some(listener) = listener.and_then(|id| self.listeners.get_mut(id)) {
            listener.waiting -= 1;
        }
    }

    /// Returns the parameters for the queue pair of a connection; `None` when it has ended or is
    /// unknown.
    #[must_use]
    pub fn qp_params(&self, conn: ConnId) -> Option<QpParams> {
        let connection = self.table.get(conn).filter(|c| !c.is_abandoned)?;
        match connection.state {
            State::ReqSent => Some(connection.qp),
            State::ReqRcvd | State::RepRcvd | State::RepSent | State::Established => {
                Some(QpParams { is_answered: true, ..connection.qp })
            }
            _ => None,
        }
    }

    /// Handles the bytes of a datagram that arrived by `route`.
    ///
    /// # Errors
    /// [`DropReason`]: the message changed nothing. Some such messages are answered all the same.
    pub fn handle_mad(
        &mut self,
        now: Duration,
        route: Route,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        self.advance(now);
        let mad = Mad::parse(bytes).map_err(DropReason::Malformed)?;
        let transaction_id = mad.transaction_id;
        match &mad.message {
            Message::Req(req) => self.on_req(route, transaction_id, req),
            Message::Rep(rep) => self.on_rep(route, transaction_id, rep),
            Message::Rtu(rtu) => self.on_rtu(route, transaction_id, rtu),
            Message::Mra(mra) => self.on_mra(route, transaction_id, mra),
            Message::Rej(rej) => self.on_rej(route, transaction_id, rej),
            Message::Dreq(dreq) => self.on_dreq(route, transaction_id, dreq),
            Message::Drep(drep) => self.on_drep(route, drep),
            Message::SidrReq(req) => self.on_sidr_req(route, transaction_id, req),
            Message::SidrRep(rep) => self.on_sidr_rep(route, transaction_id, rep),
        }
    }

    /// Returns the local address of a connection and the number of this side's queue pair, as long
    /// as the connection is known.
    #[must_use]
    pub fn queue_pair(&self, conn: ConnId) -> Option<(IpAddr, u32)> {
        self.table.get(conn).map(|connection| (connection.route.local, connection.local.qpn))
    }

    /// Returns the next message to send; call until `None`.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// Returns the next event; call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called; ask again after every
    /// call that takes a time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.table.next_deadline()
    }

    /// Returns the number of connections and SIDR queries in every state, including those that are
    /// only remembered.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of connections that peers began and that are not established.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.table.half_open()
    }

    /// Returns the number of listeners.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.listeners.len()
    }

    fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Returns a connection that the host may still name.
    fn lookup(&mut self, conn: ConnId) -> Result<&mut Connection, CallError> {
        let connection = self.table.get_mut(conn).filter(|c| !c.is_abandoned);
        connection.ok_or(CallError::Unknown)
    }

    /// Draws an id that no connection has and that no stranger can guess (CM-3.1).
    fn draw_id(&mut self) -> u32 {
        loop {
            let id = self.random.next() as u32;
            if id != 0 && !self.table.has(id) && !self.untaken.contains_key(&ConnId(id)) {
                return id;
            }
        }
    }

    /// Sends a message that is repeated until it is answered.
    fn send_request(&mut self, conn: ConnId, mad: &Mad, wait: Duration, retries: u8) {
        let (now, at) = (self.now, self.now + wait);
        let Some(connection) = self.table.get_mut(conn) else { return };
        connection.requested_at = now;
        let bytes = mad.emit();
        connection.last = Some(Box::new(bytes));
        connection.wait = wait;
        connection.retries_left = retries;
        self.out.push_back(Transmit { route: connection.route, bytes });
        self.table.set_deadline(conn, Some(at));
    }

    /// Sends an answer, which the peer requests again if it is lost.
    fn answer(&mut self, route: Route, bytes: [u8; MAD_LEN]) {
        if self.out.len() < self.config.answers_max {
            self.out.push_back(Transmit { route, bytes });
        }
    }

    /// Repeats the last message.
    fn repeat(&mut self, conn: ConnId) {
        let last = self.table.get(conn).and_then(|c| Some((c.route, **c.last.as_ref()?)));
        if let Some((route, bytes)) = last {
            self.answer(route, bytes);
        }
    }

    /// Queues an event for the host, unless it has destroyed the connection.
    fn queue_event(&mut self, conn: ConnId, event: Event) {
        if self.table.get(conn).is_some_and(|c| !c.is_abandoned) {
            self.events.push_back(event);
        }
    }

    /// Queues an event for the host and forgets the connection.
    fn end(&mut self, conn: ConnId, event: Event) {
        self.queue_event(conn, event);
        self.forget(conn);
    }

    fn forget(&mut self, conn: ConnId) {
        let untaken = self.table.remove(conn).filter(|c| c.is_untaken);
        if let Some(listener) = untaken.and_then(|c| c.listener) {
            self.untaken.insert(conn, listener);
        }
    }

    /// Remembers an ended connection for as long as something of it may be under way, and the
    /// answer for a peer that repeats its message.
    fn enter_timewait(&mut self, conn: ConnId, last: Option<[u8; MAD_LEN]>) {
        let mut at = self.now + self.config.timewait();
        self.table.set_state(conn, State::TimeWait);
        let is_crowded = self.table.len() > self.config.connections_max / 2;
        let Some(connection) = self.table.get_mut(conn) else { return };
        connection.last = last.map(Box::new);
        if !connection.wants_exit_event {
            connection.is_abandoned = true;
            // The peer may repeat its message if this answer is lost, and some peers wait for half
            // as long again as they announce.
            at = at.max(connection.repeats_by) + connection.wait + connection.wait / 2;
            // A program that was refused may try again with the same queue pair.
            self.table.forget_qpn(conn);
            if is_crowded {
                self.forget(conn);
            }
        }
        self.table.set_deadline(conn, Some(at));
    }

    /// Returns the connection that a message names by our id, if the message comes from the peer's
    /// host.
    fn by_our_id(&self, route: Route, id: u32) -> Result<&Connection, DropReason> {
        let connection = self.table.get(ConnId(id)).ok_or(DropReason::UnknownConnection)?;
        let is_peer = connection.route.peer.ip() == route.peer.ip();
        if is_peer { Ok(connection) } else { Err(DropReason::WrongPeer) }
    }

    /// Returns the state of the connection that a message names by both ids (CM-3.2). Later
    /// messages to the peer go to the address that this one came from.
    fn by_both_ids(&mut self, route: Route, ours: u32, theirs: u32) -> Result<State, DropReason> {
        let connection = self.by_our_id(route, ours)?;
        if connection.remote_comm_id != theirs {
            return Err(DropReason::WrongPeer);
        }
        let state = connection.state;
        if let Some(connection) = self.table.get_mut(ConnId(ours)) {
            connection.route = route;
        }
        Ok(state)
    }
}

/// Returns private data that begins with the addresses of the port spaces.
fn with_addresses<const N: usize>(
    addresses: Option<crate::mad::IpHeader>,
    program: &[u8],
) -> Result<[u8; N], CallError> {
    let mut bytes = [0; N];
    let mut start = 0;
    if let Some(addresses) = addresses {
        let header = addresses.emit().ok_or(CallError::MixedFamilies)?;
        bytes[..header.len()].copy_from_slice(&header);
        start = header.len();
    }
    let room = &mut bytes[start..];
    let room_len = room.len();
    let room = room.get_mut(..program.len());
    room.ok_or(CallError::PrivateData(program.len(), room_len))?.copy_from_slice(program);
    Ok(bytes)
}

/// Returns the program's bytes, padded to `N`.
fn padded<const N: usize>(program: &[u8]) -> Result<[u8; N], CallError> {
    with_addresses(None, program)
}

/// Splits private data into the addresses, which services of the port spaces have, and the
/// program's bytes.
fn split_addresses(
    service_id: u64,
    private_data: &[u8],
) -> (Option<crate::mad::IpHeader>, Box<[u8]>) {
    let is_port_space = matches!(service_id >> 16, 0x0002 | 0x0106 | 0x0111 | 0x013F);
    let addresses = crate::mad::IpHeader::parse(private_data).filter(|_| is_port_space);
    let start = if addresses.is_some() { crate::mad::IpHeader::LEN } else { 0 };
    (addresses, private_data[start..].into())
}
