//! The owner's side of an index, which walks the tree for callers, or makes progress while they
//! READ it.

use std::ops::Range;

use bench_record::ReceiverCount;
use bench_record::workload::KEY_BYTES;

use super::tree::{self, Tree};
use crate::workload::caller::Naming;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::prelude::*;
use crate::workload::server::{Answer, Service, until_told};
use crate::workload::{cpu_ns, process_cpu_ns};

/// Names for which popular keys are spread over all leaves.
pub(super) struct Names;

impl Naming for Names {
    #[inline]
    fn index(&self, rank: u64, value_bytes: usize) -> u64 {
        tree::scattered(rank, value_bytes)
    }

    #[inline]
    fn key(&self, index: u64) -> [u8; KEY_BYTES] {
        wire_key(index)
    }
}

/// Returns the key with number `index`, on the wire.
pub(super) fn wire_key(index: u64) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[..8].copy_from_slice(&tree::key(index).to_le_bytes());
    bytes
}

/// A tree that answers calls.
pub(super) struct Owner<'a> {
    pub(super) tree: &'a Tree,
}

impl Service for Owner<'_> {
    #[inline]
    fn handle(&mut self, call: &[u8]) -> Answer {
        let key = call.get(HEADER_BYTES..).and_then(|rest| rest.first_chunk());
        let (Some(header), Some(key)) = (Header::read(call), key) else {
            return Answer::damaged(call);
        };
        let key = u64::from_le_bytes(*key);
        let place = match header.code {
            Code::Get => self.tree.find(key),
            Code::Find => self.tree.leaf_place(key),
            _ => return Answer::damaged(call),
        };
        let code = place.as_ref().map_or(Code::Missing, |_| Code::Done);
        Answer { call: header.call, code, body: place.unwrap_or(0..0), operations: 1 }
    }

    #[inline]
    fn body(&self, place: Range<usize>) -> &[u8] {
        self.tree.bytes().get(place).unwrap_or_default()
    }
}

/// Lets the client READ until it has ended. Polls, because providers that emulate READs need that.
pub(super) fn stand_by<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, .. } = part;
    let (cpu_before_ns, process_before_ns) = (cpu_ns(), process_cpu_ns());
    let total = until_told(links, port, |links| {
        let mut moved = false;
        for link in links {
            moved |= link.poll()? > 0;
        }
        Ok(moved)
    })?;
    Ok(Measured::Received(ReceiverCount {
        messages: total,
        total,
        cpu_ns: cpu_ns() - cpu_before_ns,
        process_cpu_ns: process_cpu_ns() - process_before_ns,
        ..ReceiverCount::default()
    }))
}
