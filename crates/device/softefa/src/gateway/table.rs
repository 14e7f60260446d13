//! What programs have told the gateway: which sockets, and which connections. Everything has a
//! bound.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::envelope::Key;
use super::mad::{Destination, Id};
use super::message::{SeatKind, Status};

/// Sockets of all programs, and of one.
const SEATS_MAX: usize = 1 << 18;
const SEATS_OF_ONE_MAX: usize = 1 << 16;
/// Ids that one program has claimed, and requests that peers have made, remembered at most. The
/// oldest are forgotten.
const IDS_OF_ONE_MAX: usize = 1 << 16;
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
    /// Oldest first.
    ids: VecDeque<(IpAddr, Id)>,
}

/// The asker: the peer, what it calls its connection, and whom it asked.
type Asker = (IpAddr, Id, IpAddr);

#[derive(Debug, Default)]
pub(super) struct Table {
    programs: BTreeMap<ProgramId, Program>,
    seats: HashMap<SocketAddr, Seat>,
    /// Sockets of the connection manager, by address and program.
    agents: BTreeMap<(IpAddr, ProgramId), BTreeSet<u16>>,
    ids: BTreeMap<(IpAddr, Id), ProgramId>,
    /// The programs that were given what peers have asked: a repetition is for the same one.
    asked: BTreeMap<Asker, ProgramId>,
    /// Oldest first.
    askers: VecDeque<Asker>,
}

impl Table {
    pub(super) fn come(&mut self, program: ProgramId, uid: u32) {
        let (seats, ids) = (BTreeSet::new(), VecDeque::new());
        self.programs.insert(program, Program { uid, seats, ids });
    }

    /// Forgets a program and all that it has.
    pub(super) fn leave(&mut self, program: ProgramId) {
        let Some(Program { seats, ids, .. }) = self.programs.remove(&program) else { return };
        for at in seats {
            self.remove_seat(at);
        }
        for id in ids {
            self.ids.remove(&id);
        }
    }

    /// The socket of a program that is bound there, as was checked. One that another program of
    /// this user has left behind gives way: the kernel binds only one.
    pub(super) fn admit(&mut self, at: SocketAddr, seat: Seat) -> Status {
        let Some(uid) = self.programs.get(&seat.program).map(|program| program.uid) else {
            return Status::Strange;
        };
        let other = self.seats.get(&at).filter(|other| other.program != seat.program);
        if let Some(other) = other {
            if self.programs.get(&other.program).is_some_and(|other| other.uid != uid) {
                return Status::Taken;
            }
            self.release(other.program, at);
        }
        let Some(program) = self.programs.get_mut(&seat.program) else { return Status::Strange };
        let is_new = !program.seats.contains(&at);
        if is_new && (program.seats.len() >= SEATS_OF_ONE_MAX || self.seats.len() >= SEATS_MAX) {
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
        let Some(own) = self.programs.get_mut(&program) else { return Status::Strange };
        match self.ids.get(&(addr, id)) {
            Some(owner) if *owner == program => return Status::Done,
            Some(_) => return Status::Taken,
            None => {}
        }
        if own.ids.len() == IDS_OF_ONE_MAX {
            if let Some(oldest) = own.ids.pop_front() {
                self.ids.remove(&oldest);
            }
        }
        own.ids.push_back((addr, id));
        self.ids.insert((addr, id), program);
        Status::Done
    }

    /// The socket of the queue pair whose number begins with this port.
    pub(super) fn queue_pair(&self, at: SocketAddr) -> Option<&Seat> {
        self.seats.get(&at).filter(|seat| seat.kind == SeatKind::QueuePair)
    }

    /// The socket that a message of the connection manager from `from` to `addr` is for.
    pub(super) fn connections(
        &mut self,
        from: IpAddr,
        addr: IpAddr,
        destination: Destination,
    ) -> Option<(SocketAddr, Seat)> {
        match destination {
            Destination::Belongs(id) => self.agent(addr, *self.ids.get(&(addr, id))?),
            Destination::Follows(id) => self.agent(addr, *self.asked.get(&(from, id, addr))?),
            Destination::Begins { port, id } => {
                let asker = (from, id, addr);
                let again = self.asked.get(&asker).and_then(|program| self.agent(addr, *program));
                let found = again
                    .or_else(|| self.listener(SocketAddr::new(addr, port?)))
                    // Nobody serves it, which any program can say.
                    .or_else(|| self.anybody(addr))?;
                self.remember(asker, found.1.program);
                Some(found)
            }
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

    fn anybody(&self, addr: IpAddr) -> Option<(SocketAddr, Seat)> {
        let of_addr = (addr, ProgramId::MIN)..=(addr, ProgramId::MAX);
        let (&(addr, program), _) = self.agents.range(of_addr).next()?;
        self.agent(addr, program)
    }

    fn remember(&mut self, asker: Asker, program: ProgramId) {
        if self.asked.insert(asker, program).is_none() {
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

    /// Programs 1 and 2 of one user, 3 of another.
    fn table() -> Table {
        let mut table = Table::default();
        for (program, uid) in [(1, 1000), (2, 1000), (3, 1001)] {
            table.come(program, uid);
        }
        table
    }

    fn id(number: u32) -> Id {
        Id { is_question: false, number }
    }

    #[test]
    fn nobody_takes_the_place_of_another_user() {
        let mut table = table();
        assert_eq!(table.admit(at(40_000), qp(1)), Status::Done);
        assert_eq!(table.admit(at(40_000), qp(3)), Status::Taken);
        assert_eq!(table.queue_pair(at(40_000)), Some(&qp(1)));
        assert_eq!(table.admit(at(40_000), qp(2)), Status::Done, "the first has closed its own");
        table.release(1, at(40_000));
        assert_eq!(table.queue_pair(at(40_000)), Some(&qp(2)), "and has nothing to give up");
        table.leave(2);
        assert_eq!(table.queue_pair(at(40_000)), None);
        assert_eq!(table.admit(at(40_000), qp(3)), Status::Done);
        assert_eq!(table.admit(at(1), qp(9)), Status::Strange);
    }

    #[test]
    fn a_socket_is_for_what_it_was_admitted_for() {
        let mut table = table();
        table.admit(at(40_000), qp(1));
        table.admit(at(7471), cm(1));
        assert_eq!(table.queue_pair(at(7471)), None);
        let begins = |port| Destination::Begins { port: Some(port), id: id(1) };
        assert_eq!(table.connections(PEER, HERE, begins(7471)), Some((at(7471), cm(1))));
        let other = SocketAddr::new(PEER, 40_000);
        assert_eq!(table.queue_pair(other), None);
    }

    #[test]
    fn answers_find_the_program_that_asked() {
        let mut table = table();
        table.admit(at(50_001), cm(1));
        table.admit(at(50_002), cm(2));
        assert_eq!(table.claim(2, HERE, id(77)), Status::Done);
        assert_eq!(table.claim(1, HERE, id(77)), Status::Taken);
        assert_eq!(
            table.connections(PEER, HERE, Destination::Belongs(id(77))),
            Some((at(50_002), cm(2)))
        );
        assert_eq!(table.connections(PEER, HERE, Destination::Belongs(id(78))), None);
        let question = Id { is_question: true, number: 77 };
        assert_eq!(table.connections(PEER, HERE, Destination::Belongs(question)), None);
        assert_eq!(table.connections(PEER, PEER, Destination::Belongs(id(77))), None);
        table.leave(2);
        assert_eq!(table.connections(PEER, HERE, Destination::Belongs(id(77))), None);
        assert_eq!(table.claim(1, HERE, id(77)), Status::Done);
    }

    /// A listener is closed after its only connection was asked for; the request is repeated, and
    /// given up.
    #[test]
    fn repetitions_are_for_the_same_program() {
        let mut table = table();
        table.admit(at(50_001), cm(1));
        table.admit(at(50_002), cm(2));
        table.admit(at(7471), cm(2));
        let begins = Destination::Begins { port: Some(7471), id: id(5) };
        assert_eq!(table.connections(PEER, HERE, begins).map(|(_, seat)| seat), Some(cm(2)));
        table.release(2, at(7471));
        assert_eq!(table.connections(PEER, HERE, begins), Some((at(50_002), cm(2))));
        let follows = Destination::Follows(id(5));
        assert_eq!(table.connections(PEER, HERE, follows), Some((at(50_002), cm(2))));
        assert_eq!(table.connections(HERE, HERE, follows), None, "another peer's");
        let fresh = Destination::Begins { port: Some(7471), id: id(6) };
        assert_eq!(table.connections(PEER, HERE, fresh), Some((at(50_001), cm(1))), "says no");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut table = table();
        table.admit(at(50_001), cm(1));
        for number in 0..70_000 {
            table.claim(1, HERE, id(number));
            table.connections(PEER, HERE, Destination::Begins { port: None, id: id(number) });
        }
        assert_eq!(table.ids.len(), IDS_OF_ONE_MAX);
        assert_eq!((table.asked.len(), table.askers.len()), (ASKED_MAX, ASKED_MAX));
        assert_eq!(
            table.connections(PEER, HERE, Destination::Belongs(id(0))),
            None,
            "the oldest is gone"
        );
        for port in 1..=u16::MAX {
            table.admit(at(port), qp(2));
        }
        for port in 1..=3 {
            let elsewhere = SocketAddr::new(PEER, port);
            let status = table.admit(elsewhere, qp(2));
            assert_eq!(status == Status::Full, port > 1, "{port}");
        }
        for program in 1..=3 {
            table.leave(program);
        }
        assert_eq!(table.sizes(), (0, 0));
        assert!(table.ids.is_empty() && table.agents.is_empty() && table.seats.is_empty());
    }
}
