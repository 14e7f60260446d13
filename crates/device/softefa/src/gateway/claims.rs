//! Ids of connections: which program has each, and who is at the other end.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::mad::{Id, connection};
use super::message::Status;
use super::table::ProgramId;

/// The most ids of one program that are remembered. Beyond it the id with the lowest [`Rank`] is
/// forgotten.
const IDS_OF_ONE_MAX: usize = 1 << 16;

/// The other end of a connection: its host, its id, and its queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Far {
    pub(super) host: IpAddr,
    pub(super) id: u32,
    pub(super) qpn: u32,
}

/// A connection whose program is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Orphan {
    pub(super) addr: IpAddr,
    pub(super) id: u32,
    pub(super) far: Far,
}

#[derive(Debug)]
struct Claim {
    program: ProgramId,
    /// When it was claimed last, among all claims.
    age: u64,
    /// Known while it is a connection.
    far: Option<Far>,
}

impl Claim {
    fn rank(&self) -> Rank {
        (self.far.is_some(), self.age)
    }
}

/// Whether it is a connection, and its age. Connections come last, because the peer of one that is
/// forgotten is told that there is none.
type Rank = (bool, u64);

#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<(IpAddr, Id), Claim>,
    of_program: BTreeMap<ProgramId, BTreeMap<Rank, (IpAddr, Id)>>,
    last: u64,
}

impl Claims {
    /// Directs to this program whatever answers this id.
    pub(super) fn claim(&mut self, program: ProgramId, addr: IpAddr, id: Id) -> Status {
        self.last += 1;
        let age = self.last;
        let own = self.of_program.entry(program).or_default();
        let mut rank = (false, age);
        match self.claims.get_mut(&(addr, id)) {
            Some(claim) if claim.program != program => return Status::Taken,
            Some(claim) => {
                own.remove(&claim.rank());
                claim.age = age;
                rank = claim.rank();
            }
            None => {
                if own.len() == IDS_OF_ONE_MAX {
                    if let Some((_, oldest)) = own.pop_first() {
                        self.claims.remove(&oldest);
                    }
                }
                self.claims.insert((addr, id), Claim { program, age, far: None });
            }
        }
        own.insert(rank, (addr, id));
        Status::Done
    }

    /// So many ids of a program are remembered.
    pub(super) fn count(&self, program: ProgramId) -> usize {
        self.of_program.get(&program).map_or(0, BTreeMap::len)
    }

    /// Forgets the id with the lowest rank of a program.
    pub(super) fn forget_one(&mut self, program: ProgramId) {
        let oldest = self.of_program.get_mut(&program).and_then(BTreeMap::pop_first);
        if let Some((_, id)) = oldest {
            self.claims.remove(&id);
        }
    }

    pub(super) fn owner(&self, addr: IpAddr, id: Id) -> Option<ProgramId> {
        self.claims.get(&(addr, id)).map(|claim| claim.program)
    }

    /// The connection has this other end. Nobody replaces one that is known.
    pub(super) fn join(&mut self, addr: IpAddr, id: u32, far: Far) {
        self.change(addr, id, |known| {
            known.get_or_insert(far);
        });
    }

    /// The end at `host` says that the connection is over.
    pub(super) fn part(&mut self, addr: IpAddr, id: u32, host: IpAddr) {
        self.change(addr, id, |known| {
            known.take_if(|far| far.host == host);
        });
    }

    fn change(&mut self, addr: IpAddr, id: u32, change: impl FnOnce(&mut Option<Far>)) {
        let key = (addr, connection(id));
        let Some(claim) = self.claims.get_mut(&key) else { return };
        let before = claim.rank();
        change(&mut claim.far);
        if claim.rank() == before {
            // Most messages are keepalives.
            return;
        }
        if let Some(own) = self.of_program.get_mut(&claim.program) {
            own.remove(&before);
            own.insert(claim.rank(), key);
        }
    }

    /// Forgets what a program has claimed, and returns its connections.
    pub(super) fn leave(&mut self, program: ProgramId) -> Vec<Orphan> {
        let ids = self.of_program.remove(&program).unwrap_or_default().into_values();
        let orphan = |(addr, id): (IpAddr, Id)| {
            let far = self.claims.remove(&(addr, id))?.far?;
            Some(Orphan { addr, id: id.number, far })
        };
        ids.filter_map(orphan).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn nobody_claims_what_another_has() {
        let mut claims = Claims::default();
        assert_eq!(claims.claim(2, HERE, connection(77)), Status::Done);
        assert_eq!(claims.claim(2, HERE, connection(77)), Status::Done);
        assert_eq!(claims.claim(1, HERE, connection(77)), Status::Taken);
        assert_eq!(claims.claim(1, PEER, connection(77)), Status::Done);
        assert_eq!(claims.owner(HERE, connection(77)), Some(2));
        assert_eq!(claims.owner(HERE, Id { is_question: true, number: 77 }), None);
        assert_eq!(claims.leave(2), []);
        assert_eq!(claims.owner(HERE, connection(77)), None);
        assert_eq!(claims.claim(1, HERE, connection(77)), Status::Done);
    }

    #[test]
    fn connections_that_are_over_leave_no_orphans() {
        let mut claims = Claims::default();
        let far = |id| Far { host: PEER, id, qpn: 0x100 };
        for id in [1, 2, 3] {
            claims.claim(7, HERE, connection(id));
            claims.join(HERE, id, far(10 + id));
        }
        claims.join(HERE, 1, far(99));
        claims.join(HERE, 4, far(14));
        claims.part(HERE, 2, PEER);
        claims.part(HERE, 3, HERE);
        let orphan = |id| Orphan { addr: HERE, id, far: far(10 + id) };
        assert_eq!(claims.leave(7), [orphan(1), orphan(3)]);
        assert_eq!(claims.leave(7), []);
    }

    #[test]
    fn the_oldest_claim_is_forgotten() {
        let mut claims = Claims::default();
        for number in 0..IDS_OF_ONE_MAX as u32 {
            assert_eq!(claims.claim(1, HERE, connection(number)), Status::Done);
        }
        // It lives on.
        claims.claim(1, HERE, connection(0));
        claims.claim(1, HERE, connection(u32::MAX));
        let has = |number| claims.owner(HERE, connection(number)).is_some();
        assert_eq!([0, 1, 2, u32::MAX].map(has), [true, false, true, true]);
        assert_eq!(
            (claims.claims.len(), claims.of_program[&1].len()),
            (IDS_OF_ONE_MAX, IDS_OF_ONE_MAX)
        );
    }

    /// Its peer would be told that there is no connection.
    #[test]
    fn a_connection_is_forgotten_last() {
        let mut claims = Claims::default();
        for number in 0..IDS_OF_ONE_MAX as u32 {
            claims.claim(1, HERE, connection(number));
        }
        let far = Far { host: PEER, id: 9, qpn: 0x100 };
        [0, 1].iter().for_each(|id| claims.join(HERE, *id, far));
        claims.part(HERE, 1, PEER);
        (1..3).for_each(|more| {
            claims.claim(1, HERE, connection(u32::MAX - more));
        });
        let has = |number| claims.owner(HERE, connection(number)).is_some();
        assert_eq!([0, 1, 2, 3].map(has), [true, false, false, true]);
        assert_eq!(claims.leave(1).len(), 1);
    }
}
