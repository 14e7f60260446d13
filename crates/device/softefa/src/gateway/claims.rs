//! Ids of connections: the program that has claimed each, and the remote end of its connection.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::mad::{Id, connection};
use super::message::Status;
use super::table::ProgramId;

/// The most ids of one program that are remembered. Beyond it the id with the lowest [`Rank`] is
/// forgotten.
const IDS_PER_PROGRAM_MAX: usize = 1 << 16;

/// The remote end of a connection: its host, its id, and its queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemoteEnd {
    pub(super) host: IpAddr,
    pub(super) id: u32,
    pub(super) qpn: u32,
}

/// A connection whose program is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrphanedConnection {
    pub(super) addr: IpAddr,
    pub(super) id: u32,
    pub(super) remote: RemoteEnd,
}

#[derive(Debug)]
struct Claim {
    program: ProgramId,
    /// The number of the latest claim of this id, counted over all claims.
    age: u64,
    /// The remote end, while the id is that of a connection.
    remote: Option<RemoteEnd>,
}

impl Claim {
    fn rank(&self) -> Rank {
        (self.remote.is_some(), self.age)
    }
}

/// Whether the id is that of a connection, and its age. Connections rank highest, because the peer
/// of a forgotten connection is told that there is none.
type Rank = (bool, u64);

#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<(IpAddr, Id), Claim>,
    of_program: BTreeMap<ProgramId, BTreeMap<Rank, (IpAddr, Id)>>,
    last: u64,
}

impl Claims {
    /// Routes answers to this id to `program`.
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
                if own.len() == IDS_PER_PROGRAM_MAX {
                    if let Some((_, oldest)) = own.pop_first() {
                        self.claims.remove(&oldest);
                    }
                }
                self.claims.insert((addr, id), Claim { program, age, remote: None });
            }
        }
        own.insert(rank, (addr, id));
        Status::Done
    }

    /// Returns the number of ids of a program.
    pub(super) fn count(&self, program: ProgramId) -> usize {
        self.of_program.get(&program).map_or(0, BTreeMap::len)
    }

    /// Forgets the id of a program that has the lowest rank.
    pub(super) fn forget_lowest(&mut self, program: ProgramId) {
        let oldest = self.of_program.get_mut(&program).and_then(BTreeMap::pop_first);
        if let Some((_, id)) = oldest {
            self.claims.remove(&id);
        }
    }

    pub(super) fn owner(&self, addr: IpAddr, id: Id) -> Option<ProgramId> {
        self.claims.get(&(addr, id)).map(|claim| claim.program)
    }

    /// Records the remote end of a connection. A known remote end is never replaced.
    pub(super) fn establish(&mut self, addr: IpAddr, id: u32, remote: RemoteEnd) {
        self.update_remote(addr, id, |known| {
            known.get_or_insert(remote);
        });
    }

    /// Forgets the remote end, because the peer at `host` has ended the connection.
    pub(super) fn disconnect(&mut self, addr: IpAddr, id: u32, host: IpAddr) {
        self.update_remote(addr, id, |known| {
            known.take_if(|remote| remote.host == host);
        });
    }

    fn update_remote(
        &mut self,
        addr: IpAddr,
        id: u32,
        update_remote: impl FnOnce(&mut Option<RemoteEnd>),
    ) {
        let key = (addr, connection(id));
        let Some(claim) = self.claims.get_mut(&key) else { return };
        let before = claim.rank();
        update_remote(&mut claim.remote);
        if claim.rank() == before {
            // Most messages are keepalives, which change nothing.
            return;
        }
        if let Some(own) = self.of_program.get_mut(&claim.program) {
            own.remove(&before);
            own.insert(claim.rank(), key);
        }
    }

    /// Forgets all ids of a program, and returns its connections.
    pub(super) fn release_all(&mut self, program: ProgramId) -> Vec<OrphanedConnection> {
        let ids = self.of_program.remove(&program).unwrap_or_default().into_values();
        let orphan = |(addr, id): (IpAddr, Id)| {
            let remote = self.claims.remove(&(addr, id))?.remote?;
            Some(OrphanedConnection { addr, id: id.number, remote })
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
        assert_eq!(claims.release_all(2), []);
        assert_eq!(claims.owner(HERE, connection(77)), None);
        assert_eq!(claims.claim(1, HERE, connection(77)), Status::Done);
    }

    #[test]
    fn connections_that_are_over_leave_no_orphans() {
        let mut claims = Claims::default();
        let remote = |id| RemoteEnd { host: PEER, id, qpn: 0x100 };
        for id in [1, 2, 3] {
            claims.claim(7, HERE, connection(id));
            claims.establish(HERE, id, remote(10 + id));
        }
        claims.establish(HERE, 1, remote(99));
        claims.establish(HERE, 4, remote(14));
        claims.disconnect(HERE, 2, PEER);
        claims.disconnect(HERE, 3, HERE);
        let orphan = |id| OrphanedConnection { addr: HERE, id, remote: remote(10 + id) };
        assert_eq!(claims.release_all(7), [orphan(1), orphan(3)]);
        assert_eq!(claims.release_all(7), []);
    }

    #[test]
    fn the_oldest_claim_is_forgotten() {
        let mut claims = Claims::default();
        for number in 0..IDS_PER_PROGRAM_MAX as u32 {
            assert_eq!(claims.claim(1, HERE, connection(number)), Status::Done);
        }
        // This makes id 0 the newest.
        claims.claim(1, HERE, connection(0));
        claims.claim(1, HERE, connection(u32::MAX));
        let has = |number| claims.owner(HERE, connection(number)).is_some();
        assert_eq!([0, 1, 2, u32::MAX].map(has), [true, false, true, true]);
        assert_eq!(
            (claims.claims.len(), claims.of_program[&1].len()),
            (IDS_PER_PROGRAM_MAX, IDS_PER_PROGRAM_MAX)
        );
    }

    /// The peer of a forgotten connection would be told that there is none.
    #[test]
    fn a_connection_is_forgotten_last() {
        let mut claims = Claims::default();
        for number in 0..IDS_PER_PROGRAM_MAX as u32 {
            claims.claim(1, HERE, connection(number));
        }
        let remote = RemoteEnd { host: PEER, id: 9, qpn: 0x100 };
        [0, 1].iter().for_each(|id| claims.establish(HERE, *id, remote));
        claims.disconnect(HERE, 1, PEER);
        (1..3).for_each(|more| {
            claims.claim(1, HERE, connection(u32::MAX - more));
        });
        let has = |number| claims.owner(HERE, connection(number)).is_some();
        assert_eq!([0, 1, 2, 3].map(has), [true, false, false, true]);
        assert_eq!(claims.release_all(1).len(), 1);
    }
}
