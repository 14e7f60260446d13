//! Oracles: invariants that hold whatever the network and the hosts do. They panic when one is
//! violated.

use srd::Status;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Record {
    from: usize,
    /// Whether it is one-sided, and its position among the messages of its sender of the same kind.
    is_one_sided: bool,
    order: u64,
    /// The number of restarts of the receiver before this message was sent.
    receiver_restarts: u32,
    deliveries: Vec<u32>,
    status: Option<Status>,
    /// Its sender was restarted before it ended, so it never ends.
    orphan: bool,
}

/// Follows every message of a [`Pair`](super::Pair).
#[derive(Debug, Default)]
pub struct Check {
    records: BTreeMap<u64, Record>,
    restarts: [u32; 2],
    /// By sender and kind (one-sided or not).
    sent: [[u64; 2]; 2],
    /// Highest order delivered so far.
    front: [[u64; 2]; 2],
    /// The most positions by which a message was overtaken.
    pub overtaken_max: u64,
}

impl Check {
    pub fn sent(&mut self, from: usize, id: u64, is_one_sided: bool) {
        let order = &mut self.sent[from][usize::from(is_one_sided)];
        *order += 1;
        let record = Record {
            from,
            is_one_sided,
            order: *order,
            receiver_restarts: self.restarts[1 - from],
            deliveries: Vec::new(),
            status: None,
            orphan: false,
        };
        assert!(self.records.insert(id, record).is_none(), "test bug: id {id} used twice");
    }

    pub fn delivered(&mut self, to: usize, id: u64) {
        let restarts = self.restarts[to];
        let record = self.records.get_mut(&id).expect("delivered messages were sent");
        assert_eq!(record.from, 1 - to, "message {id} came back to its sender");
        assert!(!record.deliveries.contains(&restarts), "message {id} delivered twice");
        record.deliveries.push(restarts);
        // SRD-3.8: a restarted receiver may see what its predecessor refused.
        if record.receiver_restarts == restarts {
            let refused = [Some(Status::Rnr), Some(Status::BadLength), Some(Status::BadDestQpn)];
            assert!(
                !refused.contains(&record.status),
                "message {id} delivered after it ended with {:?}",
                record.status
            );
        }
        let front = &mut self.front[1 - to][usize::from(record.is_one_sided)];
        self.overtaken_max = self.overtaken_max.max(front.saturating_sub(record.order));
        *front = record.order.max(*front);
        assert!(self.overtaken_max < 8192, "message {id} overtaken {} times", self.overtaken_max);
    }

    pub fn completed(&mut self, from: usize, id: u64, status: Status) {
        let restarts = self.restarts[1 - from];
        let record = self.records.get_mut(&id).expect("ended messages were sent");
        assert_eq!(record.from, from, "message {id} ended at the wrong side");
        assert_eq!(record.status, None, "message {id} ended twice");
        record.status = Some(status);
        let undisturbed = record.receiver_restarts == restarts;
        match status {
            Status::Ok => assert!(!record.deliveries.is_empty(), "message {id} never arrived"),
            Status::Rnr | Status::BadLength | Status::BadDestQpn if undisturbed => {
                assert!(record.deliveries.is_empty(), "message {id} ended with {status:?}");
            }
            Status::RemoteAbort => assert!(restarts > 0, "message {id} aborted without reason"),
            _ => {}
        }
    }

    pub fn restarted(&mut self, who: usize) {
        self.restarts[who] += 1;
        self.closed(who);
    }

    /// A closed endpoint ends no message.
    pub fn closed(&mut self, who: usize) {
        for record in self.records.values_mut() {
            record.orphan |= record.from == who && record.status.is_none();
        }
    }

    /// Asserts that every message of a live sender has ended.
    pub fn all_ended(&self) -> bool {
        self.records.values().all(|record| record.status.is_some() || record.orphan)
    }
}
