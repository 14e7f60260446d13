//! The sockets and connections that programs have registered. Everything in the table is bounded.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use cm::mad::Message;

use super::claims::{Claims, OrphanedConnection, RemoteEnd};
use super::envelope::Key;
use super::mad::{Destination, Id, connection, destination_of};
use super::message::{SocketKind, Status};
use super::program_socket::BindingProof;

/// The most sockets of all programs.
const SOCKETS_MAX: usize = 1 << 18;
/// The most sockets of the programs of one user.
const SOCKETS_PER_USER_MAX: usize = 1 << 17;
/// The most sockets of one program.
const SOCKETS_PER_PROGRAM_MAX: usize = 1 << 16;
/// The most connection ids that the programs of one user have together, beyond the number that each
/// program may always have. Above it, a new id replaces an old one of the same program.
const IDS_PER_USER_MAX: usize = 1 << 18;
/// The number of connection ids that each program may always have.
const IDS_PER_PROGRAM_MIN: usize = 1 << 10;
/// The most requests of peers that are remembered. The oldest are forgotten first.
const REQUESTS_MAX: usize = 1 << 14;

/// The id of a registered program. It is never used again.
pub(super) type ProgramId = u64;

/// A registered socket: its program, what it receives, and the key of its envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) program: ProgramId,
    pub(super) kind: SocketKind,
    pub(super) key: Key,
}

#[derive(Debug)]
struct Program {
    uid: u32,
    sockets: BTreeSet<SocketAddr>,
}

/// The key of a request: the peer, the peer's id of the connection, and the address that it asked.
type RequesterKey = (IpAddr, Id, IpAddr);

/// A request of a peer: the program that received it, and the peer's queue pair, which is 0 for a
/// datagram service.
#[derive(Debug, Clone, Copy)]
struct Request {
    program: ProgramId,
    qpn: u32,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    programs: BTreeMap<ProgramId, Program>,
    sockets: HashMap<SocketAddr, Registration>,
    /// The ports of connection managers, by address and program.
    manager_ports: BTreeMap<(IpAddr, ProgramId), BTreeSet<u16>>,
    claims: Claims,
    /// The requests of peers. A repetition goes to the same program.
    requests: BTreeMap<RequesterKey, Request>,
    /// The keys of `requests`, oldest first.
    request_order: VecDeque<RequesterKey>,
}

impl Table {
    pub(super) fn register_program(&mut self, program: ProgramId, uid: u32) {
        self.programs.insert(program, Program { uid, sockets: BTreeSet::new() });
    }

    /// Forgets a program and everything that it has registered. Returns the connections that it
    /// leaves behind.
    pub(super) fn unregister_program(&mut self, program: ProgramId) -> Vec<OrphanedConnection> {
        let Some(Program { sockets, .. }) = self.programs.remove(&program) else {
            return Vec::new();
        };
        for at in sockets {
            self.remove_socket(at);
        }
        self.claims.release_all(program)
    }

    /// Returns the key of the socket that was registered at `at` last.
    pub(super) fn key_at(&self, at: SocketAddr) -> Option<Key> {
        self.sockets.get(&at).map(|registration| registration.key)
    }

    /// Registers a socket of a program whose binding has been verified. It replaces a socket of
    /// another program there, because the kernel binds only one; a socket of another user is
    /// replaced only if the proof holds for this network namespace.
    pub(super) fn register_socket(
        &mut self,
        at: SocketAddr,
        registration: Registration,
        proof: BindingProof,
    ) -> Status {
        let Some(uid) = self.programs.get(&registration.program).map(|program| program.uid) else {
            return Status::Invalid;
        };
        let other = self.sockets.get(&at).filter(|other| other.program != registration.program);
        if let Some(other) = other {
            let is_foreign =
                self.programs.get(&other.program).is_some_and(|other| other.uid != uid);
            if is_foreign && proof != BindingProof::InThisNetwork {
                return Status::Taken;
            }
            self.release_socket(other.program, at);
        }
        let of_user = self.sockets_of_user(uid);
        let Some(program) = self.programs.get_mut(&registration.program) else {
            return Status::Invalid;
        };
        let is_new = !program.sockets.contains(&at);
        let is_full = program.sockets.len() >= SOCKETS_PER_PROGRAM_MAX
            || of_user >= SOCKETS_PER_USER_MAX
            || self.sockets.len() >= SOCKETS_MAX;
        if is_new && is_full {
            return Status::Full;
        }
        program.sockets.insert(at);
        self.remove_socket(at);
        self.sockets.insert(at, registration);
        if registration.kind == SocketKind::ConnectionManager {
            let ports = self.manager_ports.entry((at.ip(), registration.program)).or_default();
            ports.insert(at.port());
        }
        Status::Done
    }

    /// Returns the number of sockets of all programs of a user.
    fn sockets_of_user(&self, uid: u32) -> usize {
        let programs = self.programs.values().filter(|program| program.uid == uid);
        programs.map(|program| program.sockets.len()).sum()
    }

    /// Unregisters a socket of a program.
    pub(super) fn release_socket(&mut self, program: ProgramId, at: SocketAddr) {
        let Some(program) = self.programs.get_mut(&program) else { return };
        if program.sockets.remove(&at) {
            self.remove_socket(at);
        }
    }

    fn remove_socket(&mut self, at: SocketAddr) {
        let Some(Registration { program, .. }) = self.sockets.remove(&at) else { return };
        let key = (at.ip(), program);
        if let Some(ports) = self.manager_ports.get_mut(&key) {
            ports.remove(&at.port());
            if ports.is_empty() {
                self.manager_ports.remove(&key);
            }
        }
    }

    /// Routes answers to this id to `program`.
    pub(super) fn claim(&mut self, program: ProgramId, addr: IpAddr, id: Id) -> Status {
        let Some(uid) = self.programs.get(&program).map(|program| program.uid) else {
            return Status::Invalid;
        };
        let is_new = self.claims.owner(addr, id).is_none();
        if is_new
            && self.claims.count(program) >= IDS_PER_PROGRAM_MIN
            && self.ids_of_user(uid) >= IDS_PER_USER_MAX
        {
            self.claims.forget_lowest(program);
        }
        self.claims.claim(program, addr, id)
    }

    /// Returns the number of ids of all programs of a user.
    #[cold]
    fn ids_of_user(&self, uid: u32) -> usize {
        let programs = self.programs.iter().filter(|(_, program)| program.uid == uid);
        programs.map(|(&program, _)| self.claims.count(program)).sum()
    }

    /// Returns the socket of the queue pair whose number begins with this port.
    pub(super) fn queue_pair_socket(&self, at: SocketAddr) -> Option<&Registration> {
        self.sockets.get(&at).filter(|registration| registration.kind == SocketKind::QueuePair)
    }

    /// Returns the socket for a message of the connection manager from `from` to `addr`; `None` if
    /// no program is to receive it.
    pub(super) fn route_message(
        &mut self,
        from: IpAddr,
        addr: IpAddr,
        message: &Message,
    ) -> Option<(SocketAddr, Registration)> {
        self.learn_remote_end(from, addr, message);
        match destination_of(message) {
            Destination::Belongs(id) => self.manager_socket(addr, self.claims.owner(addr, id)?),
            Destination::Follows(id) => {
                self.manager_socket(addr, self.requests.get(&(from, id, addr))?.program)
            }
            Destination::Begins { port, id } => {
                let requester = (from, id, addr);
                let again = self
                    .requests
                    .get(&requester)
                    .and_then(|it| self.manager_socket(addr, it.program));
                let found =
                    again.or_else(|| self.manager_socket_at(SocketAddr::new(addr, port?)))?;
                let qpn = if let Message::Req(req) = message { req.local_qpn } else { 0 };
                self.remember_request(requester, Request { program: found.1.program, qpn });
                Some(found)
            }
        }
    }

    /// Learns from a message to `addr` who is at the remote end of a connection.
    fn learn_remote_end(&mut self, from: IpAddr, addr: IpAddr, message: &Message) {
        let claims = &mut self.claims;
        match message {
            Message::Rep(rep) => {
                let remote = RemoteEnd { host: from, id: rep.local_comm_id, qpn: rep.local_qpn };
                claims.establish(addr, rep.remote_comm_id, remote);
            }
            Message::Rtu(rtu) => {
                let requester = (from, connection(rtu.local_comm_id), addr);
                if let Some(Request { qpn, .. }) = self.requests.get(&requester) {
                    let remote = RemoteEnd { host: from, id: rtu.local_comm_id, qpn: *qpn };
                    claims.establish(addr, rtu.remote_comm_id, remote);
                }
            }
            Message::Rej(rej) => claims.disconnect(addr, rej.remote_comm_id, from),
            Message::Dreq(dreq) => claims.disconnect(addr, dreq.remote_comm_id, from),
            Message::Drep(drep) => claims.disconnect(addr, drep.remote_comm_id, from),
            _ => {}
        }
    }

    fn manager_socket_at(&self, at: SocketAddr) -> Option<(SocketAddr, Registration)> {
        let registration = self
            .sockets
            .get(&at)
            .filter(|registration| registration.kind == SocketKind::ConnectionManager)?;
        Some((at, *registration))
    }

    /// Returns a socket of the connection manager of `program`.
    fn manager_socket(
        &self,
        addr: IpAddr,
        program: ProgramId,
    ) -> Option<(SocketAddr, Registration)> {
        let port = *self.manager_ports.get(&(addr, program))?.first()?;
        self.manager_socket_at(SocketAddr::new(addr, port))
    }

    fn remember_request(&mut self, requester: RequesterKey, requests: Request) {
        if self.requests.insert(requester, requests).is_none() {
            self.request_order.push_back(requester);
        }
        if self.request_order.len() > REQUESTS_MAX {
            if let Some(oldest) = self.request_order.pop_front() {
                self.requests.remove(&oldest);
            }
        }
    }

    /// Returns the numbers of programs and sockets.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.programs.len(), self.sockets.len())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use cm::mad::{Dreq, Rej, Rep, Req, Rtu, SidrRep};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

    fn at(port: u16) -> SocketAddr {
        SocketAddr::new(HERE, port)
    }

    fn registration(program: ProgramId, kind: SocketKind) -> Registration {
        Registration { program, kind, key: Key([program as u8; 16]) }
    }

    fn qp(program: ProgramId) -> Registration {
        registration(program, SocketKind::QueuePair)
    }

    fn cm(program: ProgramId) -> Registration {
        registration(program, SocketKind::ConnectionManager)
    }

    fn register_socket(table: &mut Table, at: SocketAddr, registration: Registration) -> Status {
        table.register_socket(at, registration, BindingProof::InThisNetwork)
    }

    /// Programs 1 and 2 belong to one user, program 3 to another.
    fn table() -> Table {
        let mut table = Table::default();
        for (program, uid) in [(1, 1000), (2, 1000), (3, 1001)] {
            table.register_program(program, uid);
        }
        table
    }

    /// Makes a request for this connection with the service at this port.
    fn req(port: u16, local_comm_id: u32) -> Message {
        let service_id = 0x0106_0000 | u64::from(port);
        Message::Req(Req { local_comm_id, service_id, local_qpn: 0x100, ..Req::ZERO })
    }

    /// Makes an answer to a request for this connection.
    fn rep(remote_comm_id: u32) -> Message {
        Message::Rep(Rep { remote_comm_id, local_comm_id: 9, local_qpn: 0x200, ..Rep::ZERO })
    }

    /// Without a bound per user, 1,024 programs would take gigabytes of the gateway's memory.
    #[test]
    fn programs_of_one_user_share_a_bound() {
        let mut table = Table::default();
        (0..6).for_each(|program| table.register_program(program, 1000));
        table.register_program(6, 1001);
        let claim = |table: &mut Table, program: ProgramId, number: usize| {
            let id = connection((program as u32) << 20 | number as u32);
            assert_eq!(table.claim(program, at(1).ip(), id), Status::Done);
        };
        for program in 0..6 {
            (0..60_000).for_each(|number| claim(&mut table, program, number));
        }
        assert_eq!(table.ids_of_user(1000), IDS_PER_USER_MAX + IDS_PER_PROGRAM_MIN);
        (0..2 * IDS_PER_PROGRAM_MIN).for_each(|number| claim(&mut table, 6, number));
        assert_eq!(table.ids_of_user(1001), 2 * IDS_PER_PROGRAM_MIN, "another user's");
        // An id that is claimed again is not new.
        claim(&mut table, 0, 59_999);
        assert_eq!(table.ids_of_user(1000), IDS_PER_USER_MAX + IDS_PER_PROGRAM_MIN);
    }

    /// A program that has closed its socket does not keep the port from other users.
    #[test]
    fn the_newest_proof_counts() {
        let mut table = table();
        assert_eq!(register_socket(&mut table, at(40_000), qp(1)), Status::Done);
        assert_eq!(
            table.register_socket(at(40_000), qp(3), BindingProof::InUnknownNetwork),
            Status::Taken
        );
        assert_eq!(table.queue_pair_socket(at(40_000)), Some(&qp(1)));
        let status = table.register_socket(at(40_000), qp(2), BindingProof::InUnknownNetwork);
        assert_eq!(status, Status::Done, "the first has closed its own");
        table.release_socket(1, at(40_000));
        assert_eq!(table.queue_pair_socket(at(40_000)), Some(&qp(2)), "and has nothing to give up");
        assert_eq!(register_socket(&mut table, at(40_000), qp(3)), Status::Done, "another user's");
        assert_eq!(table.key_at(at(40_000)), Some(qp(3).key));
        table.unregister_program(2);
        assert_eq!(table.queue_pair_socket(at(40_000)), Some(&qp(3)));
        table.unregister_program(3);
        assert_eq!((table.queue_pair_socket(at(40_000)), table.sizes()), (None, (1, 0)));
        assert_eq!(register_socket(&mut table, at(1), qp(9)), Status::Invalid);
    }

    #[test]
    fn a_user_does_not_take_every_seat() {
        let mut table = Table::default();
        (0..3).for_each(|program| table.register_program(program, 1000));
        table.register_program(3, 1001);
        for program in 0..2 {
            let addr = IpAddr::from([10, 0, 0, program as u8]);
            for port in 0..=u16::MAX {
                let at = SocketAddr::new(addr, port);
                assert_eq!(register_socket(&mut table, at, qp(program)), Status::Done);
            }
        }
        assert_eq!(register_socket(&mut table, SocketAddr::new(PEER, 1), qp(2)), Status::Full);
        assert_eq!(register_socket(&mut table, SocketAddr::new(PEER, 1), qp(3)), Status::Done);
        let known = SocketAddr::new(IpAddr::from([10, 0, 0, 0]), 1);
        assert_eq!(register_socket(&mut table, known, qp(0)), Status::Done, "not a new one");
    }

    #[test]
    fn a_socket_is_for_what_it_was_admitted_for() {
        let mut table = table();
        register_socket(&mut table, at(40_000), qp(1));
        register_socket(&mut table, at(7471), cm(1));
        assert_eq!(table.queue_pair_socket(at(7471)), None);
        assert_eq!(table.route_message(PEER, HERE, &req(7471, 1)), Some((at(7471), cm(1))));
        assert_eq!(table.route_message(PEER, HERE, &req(7472, 2)), None, "nobody listens there");
        let other = SocketAddr::new(PEER, 40_000);
        assert_eq!(table.queue_pair_socket(other), None);
    }

    #[test]
    fn answers_find_the_program_that_asked() {
        let mut table = table();
        register_socket(&mut table, at(50_001), cm(1));
        register_socket(&mut table, at(50_002), cm(2));
        assert_eq!(table.claim(2, HERE, connection(77)), Status::Done);
        assert_eq!(table.claim(9, HERE, connection(78)), Status::Invalid);
        assert_eq!(table.route_message(PEER, HERE, &rep(77)), Some((at(50_002), cm(2))));
        assert_eq!(table.route_message(PEER, HERE, &rep(78)), None);
        let question = Message::SidrRep(SidrRep { request_id: 77, ..SidrRep::ZERO });
        assert_eq!(table.route_message(PEER, HERE, &question), None);
        assert_eq!(table.route_message(PEER, PEER, &rep(77)), None);
        table.unregister_program(2);
        assert_eq!(table.route_message(PEER, HERE, &rep(77)), None);
    }

    /// The remote end of a connection is known from the peer's messages, on both sides.
    #[test]
    fn connections_of_a_program_that_is_gone_are_known() {
        let mut table = table();
        register_socket(&mut table, at(7471), cm(1));
        let orphan = |id, remote_id, qpn| OrphanedConnection {
            addr: HERE,
            id,
            remote: RemoteEnd { host: PEER, id: remote_id, qpn },
        };
        let (local_comm_id, remote_comm_id) = (5, 70);
        let rtu = Message::Rtu(Rtu { local_comm_id, remote_comm_id, ..Rtu::ZERO });
        for number in [70, 77, 78, 79] {
            table.claim(1, HERE, connection(number));
        }
        table.route_message(PEER, HERE, &req(7471, 5));
        for message in [rtu, rep(77), rep(78)] {
            assert!(table.route_message(PEER, HERE, &message).is_some());
        }
        // The connection with this message has ended.
        let dreq = Message::Dreq(Dreq { local_comm_id: 9, remote_comm_id: 78, ..Dreq::ZERO });
        table.route_message(PEER, HERE, &dreq);
        assert_eq!(table.unregister_program(1), [orphan(70, 5, 0x100), orphan(77, 9, 0x200)]);
        assert_eq!(table.unregister_program(1), []);
    }

    /// A listener is closed after its only connection was requested. The request is repeated and
    /// then given up.
    #[test]
    fn repetitions_are_for_the_same_program() {
        let mut table = table();
        register_socket(&mut table, at(50_001), cm(1));
        register_socket(&mut table, at(50_002), cm(2));
        register_socket(&mut table, at(7471), cm(2));
        let asks = req(7471, 5);
        assert_eq!(
            table.route_message(PEER, HERE, &asks).map(|(_, registration)| registration),
            Some(cm(2))
        );
        table.release_socket(2, at(7471));
        assert_eq!(table.route_message(PEER, HERE, &asks), Some((at(50_002), cm(2))));
        let gives_up = Message::Rej(Rej { local_comm_id: 5, ..Rej::ZERO });
        assert_eq!(table.route_message(PEER, HERE, &gives_up), Some((at(50_002), cm(2))));
        assert_eq!(table.route_message(HERE, HERE, &gives_up), None, "another peer's");
        assert_eq!(table.route_message(PEER, HERE, &req(7471, 6)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut table = table();
        register_socket(&mut table, at(7471), cm(1));
        for number in 0..70_000 {
            table.route_message(PEER, HERE, &req(7471, number));
        }
        assert_eq!((table.requests.len(), table.request_order.len()), (REQUESTS_MAX, REQUESTS_MAX));
        for port in 1..=u16::MAX {
            register_socket(&mut table, at(port), qp(2));
        }
        for port in 1..=3 {
            let elsewhere = SocketAddr::new(PEER, port);
            let status = register_socket(&mut table, elsewhere, qp(2));
            assert_eq!(status == Status::Full, port > 1, "{port}");
        }
        for program in 1..=3 {
            table.unregister_program(program);
        }
        assert_eq!(table.sizes(), (0, 0));
        assert!(table.manager_ports.is_empty() && table.sockets.is_empty());
    }
}
