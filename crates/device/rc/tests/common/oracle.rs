//! Serial execution: the required effect of one direction of a connection, whatever the network
//! did.

use std::collections::BTreeMap;

use rc::{Operation, Remote, SendRequest, Status};

use super::host::{BASE, Done, Host};

/// A work request that was posted, and the bytes it sends.
#[derive(Clone, Debug)]
struct Planned {
    request: SendRequest,
    bytes: Vec<u8>,
}

/// Everything posted in one direction.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    planned: Vec<Planned>,
}

/// The memory of the target, and the contents of its receives and the requester's buffers.
#[derive(Clone, Debug)]
struct Serial {
    memory: Vec<u8>,
    receives: Vec<Done>,
    results: BTreeMap<u64, Vec<u8>>,
}

impl Serial {
    fn at(&mut self, remote: Remote, len: usize) -> &mut [u8] {
        let start = (remote.va - BASE) as usize;
        &mut self.memory[start..start + len]
    }

    fn execute(&mut self, planned: &Planned) {
        let SendRequest { id, op, len, .. } = planned.request;
        let (receive, status) = (self.receives.len() as u64, Status::Ok);
        let mut deliver = |imm, invalidated| {
            let bytes = planned.bytes.clone();
            self.receives.push(Done::Receive { id: receive, status, bytes, imm, invalidated });
        };
        match op {
            Operation::Send => deliver(None, None),
            Operation::SendImm(imm) => deliver(Some(imm), None),
            Operation::SendInvalidate(key) => deliver(None, Some(key)),
            Operation::Write(remote) | Operation::AtomicWrite(remote) => {
                self.at(remote, len as usize).copy_from_slice(&planned.bytes);
            }
            Operation::WriteImm(remote, imm) => {
                self.at(remote, len as usize).copy_from_slice(&planned.bytes);
                self.receives.push(Done::WriteImm { id: receive, status, len, imm });
            }
            Operation::Read(remote) => {
                let bytes = self.at(remote, len as usize).to_vec();
                self.results.insert(id.0, bytes);
            }
            Operation::CompareSwap { remote, compare, swap } => {
                self.change(id.0, remote, |was| if was == compare { swap } else { was });
            }
            Operation::FetchAdd { remote, add } => {
                self.change(id.0, remote, |was| was.wrapping_add(add));
            }
            Operation::Flush(..) | Operation::Local => {}
        }
    }

    fn change(&mut self, id: u64, remote: Remote, to: impl Fn(u64) -> u64) {
        let word: &mut [u8; 8] = self.at(remote, 8).first_chunk_mut().expect("8 bytes");
        let was = *word;
        *word = to(u64::from_le_bytes(was)).to_le_bytes();
        self.results.insert(id, was.to_vec());
    }

    /// Asserts the contents of the target, except for what `partial` may have begun to write.
    fn is_like(&self, target: &Host, receives: &[Done], partial: Option<&Planned>) -> bool {
        let mut after = self.clone();
        let is_write = |planned: &&Planned| {
            matches!(planned.request.op, Operation::Write(_) | Operation::WriteImm(..))
        };
        if let Some(write) = partial.filter(is_write) {
            after.execute(write);
        }
        let either = self.memory.iter().zip(&after.memory);
        self.receives == receives
            && target.memory.iter().zip(either).all(|(is, (old, new))| is == old || is == new)
    }
}

impl Oracle {
    pub fn posted(&mut self, request: SendRequest, bytes: Vec<u8>) {
        self.planned.push(Planned { request, bytes });
    }

    pub fn len(&self) -> usize {
        self.planned.len()
    }

    /// Compares both ends of the direction with a serial execution. Returns the status with which
    /// the connection failed, if it did.
    pub fn check(&self, from: &Host, to: &Host) -> Option<Status> {
        let sends = from.sends();
        let ids = sends.iter().map(|(id, _)| *id);
        assert!(
            ids.eq(self.planned.iter().map(|planned| planned.request.id.0).take(sends.len())),
            "work requests end in the order of posting, each once: {sends:?}"
        );
        let done = sends.iter().take_while(|(_, status)| *status == Status::Ok).count();
        let failed = sends.get(done).map(|(_, status)| *status);
        let rest = &sends[(done + 1).min(sends.len())..];
        assert!(rest.iter().all(|(_, status)| *status == Status::Flushed), "{sends:?}");
        self.check_target(done, failed.is_some(), from, to);
        failed
    }

    /// Asserts that the target has executed all completed requests, maybe more, and nothing else.
    fn check_target(&self, done: usize, has_failed: bool, from: &Host, to: &Host) {
        let received = to.done.iter().filter(|done| match done {
            Done::Receive { status, .. } | Done::WriteImm { status, .. } => *status == Status::Ok,
            Done::Send { .. } => false,
        });
        let received: Vec<Done> = received.cloned().collect();
        let memory = vec![0; to.memory.len()];
        let mut serial = Serial { memory, receives: Vec::new(), results: BTreeMap::new() };
        let mut is_explained = false;
        for executed in 0..=self.planned.len() {
            let next = self.planned.get(executed);
            let partial = next.filter(|_| has_failed || done < self.planned.len());
            is_explained |= executed >= done && serial.is_like(to, &received, partial);
            if executed == done {
                for (id, bytes) in &serial.results {
                    assert_eq!(&from.buffers[id], bytes, "what work request {id} brought back");
                }
            }
            if let Some(next) = next {
                serial.execute(next);
            }
        }
        assert!(
            is_explained,
            "{done} work requests done of {}, {} received: no serial execution explains the memory",
            self.planned.len(),
            received.len(),
        );
    }
}
