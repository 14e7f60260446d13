//! What programs have told the gateway: which sockets, and which connections. Everything has a
//! bound.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use cm::mad::Message;

use super::claims::{Claims, Far, Orphan};
use super::door::Proof;
use super::envelope::Key;
use super::mad::{Destination, Id, connection, destination_of};
use super::message::{SeatKind, Status};

/// Sockets of all programs, of those of a user, and of one.
const SEATS_MAX: usize = 1 << 18;
const SEATS_OF_USER_MAX: usize = 1 << 17;
const SEATS_OF_ONE_MAX: usize = 1 << 16;
/// Ids of connections that all programs of a user together have, beyond those that each may have
/// anyway: then a new one is in the place of an old one of the same program.
const IDS_OF_USER_MAX: usize = 1 << 18;
const IDS_FREE: usize = 1 << 10;
/// Requests of peers that are remembered. The oldest are forgotten.
const ASKED_MAX: usize = 1 << 14;

/// A program that has come, among all that ever did.
pub(super) type ProgramId = u64;

/// The socket that something goes to, and what the program there knows the gateway by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) program: ProgramId,
    pub(super) kind: SeatKind,
    pub(super) key: Key,
}

#[derive(Debug)]
struct Program {
    uid: u32,
    seats: BTreeSet<SocketAddr>,
}

/// The asker: the peer, what it calls its connection, and whom it asked.
type Asker = (IpAddr, Id, IpAddr);

/// A request of a peer: the program that it was given to, and the queue pair of the peer, 0 for a
/// datagram service.
#[derive(Debug, Clone, Copy)]
struct Request {
    program: ProgramId,
    qpn: u32,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    programs: BTreeMap<ProgramId, Program>,
    seats: HashMap<SocketAddr, Seat>,
    /// Sockets of the connection manager, by address and program.
    agents: BTreeMap<(IpAddr, ProgramId), BTreeSet<u16>>,
    claims: Claims,
    /// What was done with what peers have asked: a repetition is for the same program.
    asked: BTreeMap<Asker, Request>,
    /// Oldest first.
    askers: VecDeque<Asker>,
}

impl Table {
    pub(super) fn come(&mut self, program: ProgramId, uid: u32) {
        self.programs.insert(program, Program { uid, seats: BTreeSet::new() });
    }

    /// Forgets a program and all that it has. Returns the connections that it leaves behind.
    pub(super) fn leave(&mut self, program: ProgramId) -> Vec<Orphan> {
        let Some(Program { seats, .. }) = self.programs.remove(&program) else {
            return Vec::new();
        };
        for at in seats {
            self.remove_seat(at);
        }
        self.claims.leave(program)
    }

    /// The key of what was admitted there last.
    pub(super) fn key_at(&self, at: SocketAddr) -> Option<Key> {
        self.seats.get(&at).map(|seat| seat.key)
    }

    /// The socket of a program that is bound there, as was checked. One that another program has
    /// left behind gives way, because the kernel binds only one; that of another user only if the
    /// proof is of the same network.
    pub(super) fn admit(&mut self, at: SocketAddr, seat: Seat, proof: Proof) -> Status {
        let Some(uid) = self.programs.get(&seat.program).map(|program| program.uid) else {
            return Status::Strange;
        };
        let other = self.seats.get(&at).filter(|other| other.program != seat.program);
        if let Some(other) = other {
            let is_foreign =
                self.programs.get(&other.program).is_some_and(|other| other.uid != uid);
            if is_foreign && proof != Proof::Sole {
                return Status::Taken;
            }
            self.release(other.program, at);
        }
        let of_user = self.seats_of(uid);
        let Some(program) = self.programs.get_mut(&seat.program) else { return Status::Strange };
        let is_new = !program.seats.contains(&at);
        let is_full = program.seats.len() >= SEATS_OF_ONE_MAX
            || of_user >= SEATS_OF_USER_MAX
            || self.seats.len() >= SEATS_MAX;
        if is_new && is_full {
            return Status::Full;
        }
        program.seats.insert(at);
        self.remove_seat(at);
        self.seats.insert(at, seat);
        if seat.kind == SeatKind::Connections {
            let agent = self.agents.entry((at.ip(), seat.program)).or_default();
            agent.insert(at.port());
        }
        Status::Done
    }

    /// Sockets of all programs of a user.
    fn seats_of(&self, uid: u32) -> usize {
        let programs = self.programs.values().filter(|program| program.uid == uid);
        programs.map(|program| program.seats.len()).sum()
    }

    /// A program gives a socket up.
    pub(super) fn release(&mut self, program: ProgramId, at: SocketAddr) {
        let Some(program) = self.programs.get_mut(&program) else { return };
        if program.seats.remove(&at) {
            self.remove_seat(at);
        }
    }

    fn remove_seat(&mut self, at: SocketAddr) {
        let Some(Seat { program, .. }) = self.seats.remove(&at) else { return };
        let agent = (at.ip(), program);
        if let Some(ports) = self.agents.get_mut(&agent) {
            ports.remove(&at.port());
            if ports.is_empty() {
                self.agents.remove(&agent);
            }
        }
    }

    /// Directs to this program whatever answers this id.
    pub(super) fn claim(&mut self, program: ProgramId, addr: IpAddr, id: Id) -> Status {
        let Some(uid) = self.programs.get(&program).map(|program| program.uid) else {
            return Status::Strange;
        };
        let is_new = self.claims.owner(addr, id).is_none();
        if is_new && self.claims.count(program) >= IDS_FREE && self.ids_of(uid) >= IDS_OF_USER_MAX {
            self.claims.forget_one(program);
        }
        self.claims.claim(program, addr, id)
    }

    /// Ids of all programs of a user.
    #[cold]
    fn ids_of(&self, uid: u32) -> usize {
        let programs = self.programs.iter().filter(|(_, program)| program.uid == uid);
        programs.map(|(&program, _)| self.claims.count(program)).sum()
    }

    /// The socket of the queue pair whose number begins with this port.
    pub(super) fn queue_pair(&self, at: SocketAddr) -> Option<&Seat> {
        self.seats.get(&at).filter(|seat| seat.kind == SeatKind::QueuePair)
    }

    /// The socket that a message of the connection manager from `from` to `addr` is for; `None`
    /// when it is for no program.
    pub(super) fn connections(
        &mut self,
        from: IpAddr,
        addr: IpAddr,
        message: &Message,
    ) -> Option<(SocketAddr, Seat)> {
        self.learn(from, addr, message);
        match destination_of(message) {
            Destination::Belongs(id) => self.agent(addr, self.claims.owner(addr, id)?),
            Destination::Follows(id) => {
                self.agent(addr, self.asked.get(&(from, id, addr))?.program)
            }
            Destination::Begins { port, id } => {
                let asker = (from, id, addr);
                let again = self.asked.get(&asker).and_then(|it| self.agent(addr, it.program));
                let found = again.or_else(|| self.listener(SocketAddr::new(addr, port?)))?;
                let qpn = if let Message::Req(req) = message { req.local_qpn } else { 0 };
                self.remember(asker, Request { program: found.1.program, qpn });
                Some(found)
            }
        }
    }

    /// Learns from a message to `addr` who is at the other end of a connection.
    fn learn(&mut self, from: IpAddr, addr: IpAddr, message: &Message) {
        let claims = &mut self.claims;
        match message {
            Message::Rep(rep) => {
                let far = Far { host: from, id: rep.local_comm_id, qpn: rep.local_qpn };
                claims.join(addr, rep.remote_comm_id, far);
            }
            Message::Rtu(rtu) => {
                let asker = (from, connection(rtu.local_comm_id), addr);
                if let Some(Request { qpn, .. }) = self.asked.get(&asker) {
                    let far = Far { host: from, id: rtu.local_comm_id, qpn: *qpn };
                    claims.join(addr, rtu.remote_comm_id, far);
                }
            }
            Message::Rej(rej) => claims.part(addr, rej.remote_comm_id, from),
            Message::Dreq(dreq) => claims.part(addr, dreq.remote_comm_id, from),
            Message::Drep(drep) => claims.part(addr, drep.remote_comm_id, from),
            _ => {}
        }
    }

    fn listener(&self, at: SocketAddr) -> Option<(SocketAddr, Seat)> {
        let seat = self.seats.get(&at).filter(|seat| seat.kind == SeatKind::Connections)?;
        Some((at, *seat))
    }

    /// A socket of this program's connection manager.
    fn agent(&self, addr: IpAddr, program: ProgramId) -> Option<(SocketAddr, Seat)> {
        let port = *self.agents.get(&(addr, program))?.first()?;
        self.listener(SocketAddr::new(addr, port))
    }

    fn remember(&mut self, asker: Asker, asked: Request) {
        if self.asked.insert(asker, asked).is_none() {
            self.askers.push_back(asker);
        }
        if self.askers.len() > ASKED_MAX {
            if let Some(oldest) = self.askers.pop_front() {
                self.asked.remove(&oldest);
            }
        }
    }

    /// Programs, and their sockets.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.programs.len(), self.seats.len())
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

    fn seat(program: ProgramId, kind: SeatKind) -> Seat {
        Seat { program, kind, key: Key([program as u8; 16]) }
    }

    fn qp(program: ProgramId) -> Seat {
        seat(program, SeatKind::QueuePair)
    }

    fn cm(program: ProgramId) -> Seat {
        seat(program, SeatKind::Connections)
    }

    fn admit(table: &mut Table, at: SocketAddr, seat: Seat) -> Status {
        table.admit(at, seat, Proof::Sole)
    }

    /// Programs 1 and 2 of one user, 3 of another.
    fn table() -> Table {
        let mut table = Table::default();
        for (program, uid) in [(1, 1000), (2, 1000), (3, 1001)] {
            table.come(program, uid);
        }
        table
    }

    /// Requests of this connection the service at this port.
    fn req(port: u16, local_comm_id: u32) -> Message {
        let service_id = 0x0106_0000 | u64::from(port);
        Message::Req(Req { local_comm_id, service_id, local_qpn: 0x100, ..Req::ZERO })
    }

    /// Answers a request of this connection.
    fn rep(remote_comm_id: u32) -> Message {
        Message::Rep(Rep { remote_comm_id, local_comm_id: 9, local_qpn: 0x200, ..Rep::ZERO })
    }

    /// 1,024 programs of one user took gigabytes of the gateway's memory.
    #[test]
    fn programs_of_one_user_share_a_bound() {
        let mut table = Table::default();
        (0..6).for_each(|program| table.come(program, 1000));
        table.come(6, 1001);
        let claim = |table: &mut Table, program: ProgramId, number: usize| {
            let id = connection((program as u32) << 20 | number as u32);
            assert_eq!(table.claim(program, at(1).ip(), id), Status::Done);
        };
        for program in 0..6 {
            (0..60_000).for_each(|number| claim(&mut table, program, number));
        }
        assert_eq!(table.ids_of(1000), IDS_OF_USER_MAX + IDS_FREE);
        (0..2 * IDS_FREE).for_each(|number| claim(&mut table, 6, number));
        assert_eq!(table.ids_of(1001), 2 * IDS_FREE, "another user's");
        // What is claimed again is not new.
        claim(&mut table, 0, 59_999);
        assert_eq!(table.ids_of(1000), IDS_OF_USER_MAX + IDS_FREE);
    }

    /// Who was there and has closed its socket kept the port from all other users.
    #[test]
    fn the_newest_proof_counts() {
        let mut table = table();
        assert_eq!(admit(&mut table, at(40_000), qp(1)), Status::Done);
        assert_eq!(table.admit(at(40_000), qp(3), Proof::Somewhere), Status::Taken);
        assert_eq!(table.queue_pair(at(40_000)), Some(&qp(1)));
        let status = table.admit(at(40_000), qp(2), Proof::Somewhere);
        assert_eq!(status, Status::Done, "the first has closed its own");
        table.release(1, at(40_000));
        assert_eq!(table.queue_pair(at(40_000)), Some(&qp(2)), "and has nothing to give up");
        assert_eq!(admit(&mut table, at(40_000), qp(3)), Status::Done, "another user's");
        assert_eq!(table.key_at(at(40_000)), Some(qp(3).key));
        table.leave(2);
        assert_eq!(table.queue_pair(at(40_000)), Some(&qp(3)));
        table.leave(3);
        assert_eq!((table.queue_pair(at(40_000)), table.sizes()), (None, (1, 0)));
        assert_eq!(admit(&mut table, at(1), qp(9)), Status::Strange);
    }

    #[test]
    fn a_user_does_not_take_every_seat() {
        let mut table = Table::default();
        (0..3).for_each(|program| table.come(program, 1000));
        table.come(3, 1001);
        for program in 0..2 {
            let addr = IpAddr::from([10, 0, 0, program as u8]);
            for port in 0..=u16::MAX {
                let at = SocketAddr::new(addr, port);
                assert_eq!(admit(&mut table, at, qp(program)), Status::Done);
            }
        }
        assert_eq!(admit(&mut table, SocketAddr::new(PEER, 1), qp(2)), Status::Full);
        assert_eq!(admit(&mut table, SocketAddr::new(PEER, 1), qp(3)), Status::Done);
        let known = SocketAddr::new(IpAddr::from([10, 0, 0, 0]), 1);
        assert_eq!(admit(&mut table, known, qp(0)), Status::Done, "not a new one");
    }

    #[test]
    fn a_socket_is_for_what_it_was_admitted_for() {
        let mut table = table();
        admit(&mut table, at(40_000), qp(1));
        admit(&mut table, at(7471), cm(1));
        assert_eq!(table.queue_pair(at(7471)), None);
        assert_eq!(table.connections(PEER, HERE, &req(7471, 1)), Some((at(7471), cm(1))));
        assert_eq!(table.connections(PEER, HERE, &req(7472, 2)), None, "nobody listens there");
        let other = SocketAddr::new(PEER, 40_000);
        assert_eq!(table.queue_pair(other), None);
    }

    #[test]
    fn answers_find_the_program_that_asked() {
        let mut table = table();
        admit(&mut table, at(50_001), cm(1));
        admit(&mut table, at(50_002), cm(2));
        assert_eq!(table.claim(2, HERE, connection(77)), Status::Done);
        assert_eq!(table.claim(9, HERE, connection(78)), Status::Strange);
        assert_eq!(table.connections(PEER, HERE, &rep(77)), Some((at(50_002), cm(2))));
        assert_eq!(table.connections(PEER, HERE, &rep(78)), None);
        let question = Message::SidrRep(SidrRep { request_id: 77, ..SidrRep::ZERO });
        assert_eq!(table.connections(PEER, HERE, &question), None);
        assert_eq!(table.connections(PEER, PEER, &rep(77)), None);
        table.leave(2);
        assert_eq!(table.connections(PEER, HERE, &rep(77)), None);
    }

    /// Each end of a connection is known from what its peer has said.
    #[test]
    fn connections_of_a_program_that_is_gone_are_known() {
        let mut table = table();
        admit(&mut table, at(7471), cm(1));
        let orphan =
            |id, far_id, qpn| Orphan { addr: HERE, id, far: Far { host: PEER, id: far_id, qpn } };
        let (local_comm_id, remote_comm_id) = (5, 70);
        let rtu = Message::Rtu(Rtu { local_comm_id, remote_comm_id, ..Rtu::ZERO });
        for number in [70, 77, 78, 79] {
            table.claim(1, HERE, connection(number));
        }
        table.connections(PEER, HERE, &req(7471, 5));
        for message in [rtu, rep(77), rep(78)] {
            assert!(table.connections(PEER, HERE, &message).is_some());
        }
        // This one has ended.
        let dreq = Message::Dreq(Dreq { local_comm_id: 9, remote_comm_id: 78, ..Dreq::ZERO });
        table.connections(PEER, HERE, &dreq);
        assert_eq!(table.leave(1), [orphan(70, 5, 0x100), orphan(77, 9, 0x200)]);
        assert_eq!(table.leave(1), []);
    }

    /// A listener is closed after its only connection was asked for; the request is repeated, and
    /// given up.
    #[test]
    fn repetitions_are_for_the_same_program() {
        let mut table = table();
        admit(&mut table, at(50_001), cm(1));
        admit(&mut table, at(50_002), cm(2));
        admit(&mut table, at(7471), cm(2));
        let asks = req(7471, 5);
        assert_eq!(table.connections(PEER, HERE, &asks).map(|(_, seat)| seat), Some(cm(2)));
        table.release(2, at(7471));
        assert_eq!(table.connections(PEER, HERE, &asks), Some((at(50_002), cm(2))));
        let gives_up = Message::Rej(Rej { local_comm_id: 5, ..Rej::ZERO });
        assert_eq!(table.connections(PEER, HERE, &gives_up), Some((at(50_002), cm(2))));
        assert_eq!(table.connections(HERE, HERE, &gives_up), None, "another peer's");
        assert_eq!(table.connections(PEER, HERE, &req(7471, 6)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut table = table();
        admit(&mut table, at(7471), cm(1));
        for number in 0..70_000 {
            table.connections(PEER, HERE, &req(7471, number));
        }
        assert_eq!((table.asked.len(), table.askers.len()), (ASKED_MAX, ASKED_MAX));
        for port in 1..=u16::MAX {
            admit(&mut table, at(port), qp(2));
        }
        for port in 1..=3 {
            let elsewhere = SocketAddr::new(PEER, port);
            let status = admit(&mut table, elsewhere, qp(2));
            assert_eq!(status == Status::Full, port > 1, "{port}");
        }
        for program in 1..=3 {
            table.leave(program);
        }
        assert_eq!(table.sizes(), (0, 0));
        assert!(table.agents.is_empty() && table.seats.is_empty());
    }
}
