//! The owner's side of an index: walks the tree for callers, or stands by while they READ it.

use std::ops::Range;

use bench_record::ReceiverCount;
use bench_record::failure::Failure;
use bench_record::workload::KEY_BYTES;

use super::tree::{self, Tree};
use crate::backend::Backend;
use crate::bench::Measured;
use crate::lane::Port;
use crate::link::Link;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::server::{Answer, Service};
use crate::workload::{cpu_ns, process_cpu_ns};

/// Rounds between two looks for the end.
const ROUNDS_PER_LOOK: u32 = 64;

/// The key with number `index`, on the wire.
pub(in crate::workload) fn wire_key(index: u64) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[..8].copy_from_slice(&tree::key(index).to_le_bytes());
    bytes
}

/// A tree that answers calls.
pub(in crate::workload) struct Owner<'a> {
    pub(in crate::workload) tree: &'a Tree,
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

/// Lets the client READ until it has ended. It polls, because providers that emulate READs need it.
pub(in crate::workload) fn stand_by<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
) -> Result<Measured, Failure> {
    let (cpu_before_ns, process_before_ns) = (cpu_ns(), process_cpu_ns());
    let mut rounds = 0_u32;
    let total = loop {
        for link in links.iter_mut() {
            link.poll()?;
        }
        rounds += 1;
        if rounds.is_multiple_of(ROUNDS_PER_LOOK)
            && let Some(total) = port.sent()?
        {
            break total;
        }
    };
    Ok(Measured::Received(ReceiverCount {
        messages: total,
        total,
        cpu_ns: cpu_ns() - cpu_before_ns,
        process_cpu_ns: process_cpu_ns() - process_before_ns,
        ..ReceiverCount::default()
    }))
}
