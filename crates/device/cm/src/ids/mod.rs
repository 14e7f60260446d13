//! The ids and events of a program's descriptors, above one [`Agent`] (chapter CM-8).
//!
//! | file | what happens there |
//! |---|---|
//! | `mod` | descriptors, commands in, answers out |
//! | `binding` | BIND, RESOLVE_ADDR, RESOLVE_ROUTE, LISTEN, options |
//! | `connecting` | CONNECT, ACCEPT, REJECT, DISCONNECT, NOTIFY |
//! | `events` | what the agent tells, GET_EVENT, MIGRATE_ID |
//! | `queries` | QUERY, QUERY_ROUTE |
//! | `qp_attr` | INIT_QP_ATTR |
//! | `groups` | multicast |
//! | `id`, `host` | one id; what the program around is asked |

mod binding;
mod connecting;
mod events;
mod groups;
mod host;
mod id;
mod qp_attr;
mod queries;

use crate::ucma::{Call, Command, CreateId, CreateIdResp, DestroyId, Errno, EventsReportedResp};
use crate::{Agent, Config, ConnId, DropReason, ListenerId, Route, Seed, Transmit};
use events::Queued;
use id::Id;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub use host::{Binding, Device, Host};

/// The largest number of ids: librdmacm's tables have no room for more.
const IDS_MAX: u32 = 65_536;

/// Identifies an open descriptor of `/dev/infiniband/rdma_cm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(u32);

/// Bytes to write to the calling program's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The address that they go to.
    pub at: u64,
    /// The bytes themselves.
    pub bytes: Vec<u8>,
}

/// The connection manager of one process: ids and events above an agent.
///
/// Times as for [`Agent`]. After each call that takes a time:
/// [`poll_transmit`](Self::poll_transmit) and [`poll_readable`](Self::poll_readable) until `None`,
/// then [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Ids {
    agent: Agent,
    ids: BTreeMap<u32, Id>,
    next_number: u32,
    channels: BTreeMap<ChannelId, VecDeque<Queued>>,
    next_channel: u32,
    /// Channels with events that the host has not been notified of.
    readable: BTreeSet<ChannelId>,
    /// Queue pairs of ended connections that the host has not polled yet.
    ended: VecDeque<(IpAddr, u32)>,
    /// Disconnects that programs have not been notified of yet.
    withheld: Vec<events::Withheld>,
    by_conn: BTreeMap<ConnId, u32>,
    by_listener: BTreeMap<ListenerId, u32>,
    groups: BTreeMap<u32, groups::Group>,
    next_group: u32,
}

impl Ids {
    /// Creates a table without descriptors.
    #[must_use]
    pub fn new(config: Config, seed: Seed) -> Self {
        Self {
            agent: Agent::new(config, seed),
            ids: BTreeMap::new(),
            next_number: 0,
            channels: BTreeMap::new(),
            next_channel: 0,
            readable: BTreeSet::new(),
            ended: VecDeque::new(),
            withheld: Vec::new(),
            by_conn: BTreeMap::new(),
            by_listener: BTreeMap::new(),
            groups: BTreeMap::new(),
            next_group: 0,
        }
    }

    /// Returns the agent, for inspection.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Returns the number of ids of all descriptors.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Returns the number of multicast memberships.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Creates the channel of a descriptor that was opened.
    pub fn open(&mut self) -> ChannelId {
        self.next_channel += 1;
        let channel = ChannelId(self.next_channel);
        self.channels.insert(channel, VecDeque::new());
        channel
    }

    /// Closes the channel of a descriptor: its ids are destroyed.
    pub fn close(&mut self, now: Duration, host: &mut impl Host, channel: ChannelId) {
        self.readable.remove(&channel);
        // All at once, because a search for the events of each id takes long.
        for pending in self.channels.remove(&channel).iter().flatten().filter_map(Queued::pending) {
            self.agent.destroy(now, pending);
        }
        let ids = self.ids.iter().filter(|(_, id)| id.channel == channel);
        let numbers: Vec<u32> = ids.map(|(&number, _)| number).collect();
        for number in numbers {
            self.drop_id(now, host, number);
        }
    }

    /// Returns the local address and the queue pair of a connection that has ended; call until
    /// `None`. Its data arrived before the end, and programs destroy the queue pair when they are
    /// notified (CM-5.6), which happens when the host calls
    /// [`report_disconnect`](Self::report_disconnect).
    pub fn poll_ended(&mut self) -> Option<(IpAddr, u32)> {
        self.ended.pop_front()
    }

    /// Returns a channel that has got an event since it was last returned; call until `None`.
    pub fn poll_readable(&mut self) -> Option<ChannelId> {
        self.readable.pop_first()
    }

    /// Disconnects everything because the process ends, and refuses connections that are being set
    /// up. Ids and descriptors remain, for programs that do the same at their end and wait for
    /// events.
    pub fn disconnect_all(&mut self, now: Duration) {
        for conn in self.by_conn.keys().copied() {
            let is_over = self.agent.disconnect(now, conn).is_ok();
            if !is_over && self.agent.qp_params(conn).is_some() {
                self.agent.destroy(now, conn);
            }
        }
        for pending in self.channels.values().flatten().filter_map(Queued::pending) {
            self.agent.destroy(now, pending);
        }
        self.take_events();
    }

    /// Returns whether an event waits, so that the descriptor polls readable.
    #[must_use]
    pub fn is_readable(&self, channel: ChannelId) -> bool {
        self.channels.get(&channel).is_some_and(|queue| !queue.is_empty())
    }

    /// Executes a command that a program wrote to a descriptor. On success the reply goes to its
    /// memory, and `write()` returns the length of `bytes`.
    ///
    /// # Errors
    /// The error of `write()`. [`Errno::EAGAIN`] of GET_EVENT means that no event waits: a blocking
    /// descriptor tries again when it [is readable](Self::is_readable).
    pub fn write(
        &mut self,
        now: Duration,
        host: &mut impl Host,
        channel: ChannelId,
        bytes: &[u8],
    ) -> Result<Option<Reply>, Errno> {
        let call = Call::parse(bytes)?;
        let reply = self.execute(now, host, channel, &call);
        self.take_events();
        reply
    }

    fn execute(
        &mut self,
        now: Duration,
        host: &mut impl Host,
        channel: ChannelId,
        call: &Call,
    ) -> Result<Option<Reply>, Errno> {
        let out_len = call.out_len;
        match &call.command {
            Command::CreateId(command) => self.create_id(channel, command, out_len).map(Some),
            Command::DestroyId(command) => {
                self.destroy_id(now, host, channel, command, out_len).map(Some)
            }
            Command::BindIp(command) => self.bind_ip(host, channel, command).map(done),
            Command::Bind(command) => self.bind(host, channel, command).map(done),
            Command::ResolveIp(command) => self.resolve_ip(host, channel, command).map(done),
            Command::ResolveAddr(command) => self.resolve_addr(host, channel, command).map(done),
            Command::ResolveRoute(command) => self.resolve_route(channel, command).map(done),
            Command::Listen(command) => self.listen(host, channel, command).map(done),
            Command::SetOption(command) => self.set_option(host, channel, command).map(done),
            Command::Connect(command) => self.connect(now, host, channel, command).map(done),
            Command::Accept(command) => self.accept(now, channel, command).map(done),
            Command::Reject(command) => self.reject(now, channel, command).map(done),
            Command::Disconnect(command) => self.disconnect(now, channel, command).map(done),
            Command::Notify(command) => self.notify(now, channel, command).map(done),
            Command::GetEvent(command) => self.get_event(host, channel, command, out_len).map(Some),
            Command::MigrateId(command) => self.migrate(host, channel, command, out_len).map(Some),
            Command::Query(command) => self.query(channel, command, out_len).map(Some),
            Command::QueryRoute(command) => self.query_route(channel, command, out_len).map(Some),
            Command::InitQpAttr(command) => self.init_qp_attr(channel, command, out_len).map(Some),
            Command::JoinIpMcast(command) => self.join_ip(channel, command, out_len).map(Some),
            Command::JoinMcast(command) => self.join(channel, command, out_len).map(Some),
            Command::LeaveMcast(command) => self.leave(channel, command, out_len).map(Some),
        }
    }

    /// See [`Agent::handle_mad`].
    ///
    /// # Errors
    /// [`DropReason`]: the message changed nothing.
    pub fn handle_mad(
        &mut self,
        now: Duration,
        route: Route,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let handled = self.agent.handle_mad(now, route, bytes);
        self.take_events();
        handled
    }

    /// See [`Agent::has_sent_to`].
    #[must_use]
    pub fn has_sent_to(&self, peer: SocketAddr, bytes: &[u8]) -> bool {
        self.agent.has_sent_to(peer, bytes)
    }

    /// See [`Agent::unreachable`].
    pub fn unreachable(&mut self, now: Duration, peer: SocketAddr) {
        self.agent.unreachable(now, peer);
        self.take_events();
    }

    /// See [`Agent::no_route`].
    pub fn no_route(&mut self, now: Duration, peer: SocketAddr) {
        self.agent.no_route(now, peer);
        self.take_events();
    }

    /// See [`Agent::data_arrived`].
    pub fn data_arrived(&mut self, now: Duration, ca_guid: u64, qpn: u32) {
        self.agent.data_arrived(now, ca_guid, qpn);
        self.take_events();
    }

    /// See [`Agent::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Duration) {
        self.agent.handle_timeout(now);
        self.take_events();
    }

    /// See [`Agent::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.agent.poll_timeout()
    }

    /// See [`Agent::poll_transmit`].
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.agent.poll_transmit()
    }

    fn create_id(
        &mut self,
        channel: ChannelId,
        command: &CreateId,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(CreateIdResp::LEN, out_len)?;
        let id = Id::new(channel, command.uid, command.ps, command.qp_type)?;
        let number = self.draw_number()?;
        self.ids.insert(number, id);
        Ok(Reply { at: command.response, bytes: CreateIdResp { id: number }.emit().into() })
    }

    fn destroy_id(
        &mut self,
        now: Duration,
        host: &mut impl Host,
        channel: ChannelId,
        command: &DestroyId,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(EventsReportedResp::LEN, out_len)?;
        self.find(channel, command.id)?;
        let events_reported = self.drop_id(now, host, command.id);
        let bytes = EventsReportedResp { events_reported }.emit().into();
        Ok(Reply { at: command.response, bytes })
    }

    /// Destroys an id; returns how many of its events the program was given.
    fn drop_id(&mut self, now: Duration, host: &mut impl Host, number: u32) -> u32 {
        let Some(id) = self.ids.remove(&number) else { return 0 };
        if let Some(listener) = id.listener {
            self.by_listener.remove(&listener);
            let _ = self.agent.close_listener(listener);
        }
        for pending in self.forget_events(&id, number) {
            self.agent.destroy(now, pending);
        }
        self.groups.retain(|_, group| group.id != number);
        if let Some(conn) = id.conn {
            self.by_conn.remove(&conn);
            self.agent.destroy(now, conn);
        }
        if let Some(binding) = &id.binding {
            host.release(binding);
        }
        id.events_reported
    }
}

fn done((): ()) -> Option<Reply> {
    None
}

/// Returns ENOSPC when the caller has no room for the answer.
fn room_for(len: usize, out_len: usize) -> Result<(), Errno> {
    if out_len < len { Err(Errno::ENOSPC) } else { Ok(()) }
}
