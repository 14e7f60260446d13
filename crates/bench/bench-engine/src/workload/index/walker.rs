//! The client's side of an index that it READs itself: each lookup fetches one node after the
//! other, from the levels that the client does not keep (or only the leaf, which the owner has
//! named).

use std::time::Instant;

use bench_record::workload::KEY_BYTES;

use super::owner::wire_key;
use super::tree::{self, LEVELS, NODE_BYTES, Tree};
use crate::workload::caller::wrong;
use crate::workload::demand::Demand;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::outstanding::Outstanding;
use crate::workload::pace::{Activity, Names, Pace};
use crate::workload::prelude::*;
use crate::workload::store;

const KINDS: [&str; 1] = ["lookup"];
const LOOKUP: usize = 0;

/// The side that walks the inner levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inner {
    /// The client, which keeps this many levels.
    Client { kept: usize },
    /// The owner, for each call.
    Owner,
}

/// A lookup that is not finished.
#[derive(Debug, Clone, Copy)]
struct Lookup {
    index: u64,
    key: u64,
    since: Instant,
    /// The node to READ next.
    node: usize,
    /// The level of that node.
    level: usize,
}

/// The lookups of one endpoint.
struct EndpointLookups {
    lookups: Outstanding<Lookup>,
    /// The lookups whose next node is known.
    ready: Vec<u32>,
    /// The lookup whose node is READ into each slot.
    in_slot: Vec<u32>,
}

/// The state of one thread of the client within a point.
struct Walker<'a> {
    tree: &'a Tree,
    inner: Inner,
    demand: &'a mut Demand,
    endpoints: Vec<EndpointLookups>,
}

/// Runs the client's side of a point.
pub(super) fn look_up<B: Backend>(
    part: Part<'_, B>,
    inner: Inner,
    tree: &Tree,
    demand: &mut Demand,
) -> Outcome {
    let Part { links, port, point } = part;
    let pace = Pace::new(point, port, demand.random.next(), Names::of(&KINDS))?;
    let endpoint = |link: &mut Link<B>| {
        link.keep_reads();
        EndpointLookups {
            lookups: Outstanding::new(point.depth),
            ready: Vec::with_capacity(point.depth),
            in_slot: vec![0; link.backend().tx_slots()],
        }
    };
    let endpoints = links.iter_mut().map(endpoint).collect();
    let mut walker = Walker { tree, inner, demand, endpoints };
    pace.run(links, port, &mut walker)
}

impl<B: Backend> Activity<B> for Walker<'_> {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let endpoint = &mut self.endpoints[number];
        let moved = pace.collect(link, |_, reply| endpoint.descend(reply))?;
        if !link.fetched.is_empty() {
            pace.now = Instant::now();
        }
        while let Some(slot) = link.fetched.pop_front() {
            let node = &link.payload(slot)?[..NODE_BYTES];
            endpoint.step(pace, endpoint.in_slot[slot], node)?;
            link.put_back(slot);
            pace.traffic.bytes += NODE_BYTES as u64;
        }
        Ok(moved)
    }

    #[inline]
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let endpoint = &self.endpoints[number];
        let new = endpoint.lookups.room().min(pace.rest());
        let room = (endpoint.ready.len() + new).min(link.free_tx());
        for index in 0..room {
            let more = pace.list > 1 && index + 1 < room && (index + 1) % pace.list != 0;
            let is_posted = match self.endpoints[number].ready.last().copied() {
                Some(lookup) => self.read(pace, link, number, lookup, more)?,
                None => self.start(pace, link, number, more)?,
            };
            if !is_posted {
                return Ok(index);
            }
        }
        Ok(room)
    }

    fn is_idle(&self, number: usize) -> bool {
        self.endpoints[number].lookups.is_empty()
    }
}

impl EndpointLookups {
    /// Notes that the owner has named the leaf.
    #[inline]
    fn descend(&mut self, reply: &[u8]) -> Result<(), Failure> {
        let (header, body) = Header::of_reply(reply)?;
        let lookup = self.lookups.get(header.call);
        let lookup = lookup.ok_or_else(|| wrong("is for a call that is not outstanding"))?;
        let leaf = tree::leaf_number(body).ok_or_else(|| wrong("names no leaf"))?;
        (lookup.node, lookup.level) = (leaf, LEVELS - 1);
        self.ready.push(header.call);
        Ok(())
    }

    /// Handles a node that has come: goes one level down, or ends at the leaf.
    #[inline]
    fn step(&mut self, pace: &mut Pace, number: u32, node: &[u8]) -> Result<(), Failure> {
        let lookup = self.lookups.get(number);
        let lookup = lookup.ok_or_else(|| wrong("is for a READ that is not outstanding"))?;
        if lookup.level + 1 < LEVELS {
            let child = tree::child(node, lookup.level, lookup.key);
            lookup.node = child.ok_or_else(|| wrong("is a node without the child wanted"))?;
            lookup.level += 1;
            self.ready.push(number);
            return Ok(());
        }
        let place = tree::value(node, pace.point.size_bytes, lookup.key);
        let place = place.ok_or_else(|| wrong("is a leaf without the key wanted"))?;
        if pace.point.validate && !store::is_value(&node[place], lookup.index) {
            return Err(wrong("holds another value than that of its key"));
        }
        pace.end(LOOKUP, lookup.since, 1);
        self.lookups.end(number);
        Ok(())
    }
}

impl Walker<'_> {
    /// READs the next node of the lookup that became ready last. Returns false if the fabric is
    /// full.
    #[inline]
    fn read<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
        lookup: u32,
        more: bool,
    ) -> Result<bool, Failure> {
        let endpoint = &mut self.endpoints[number];
        let node = endpoint.lookups.get(lookup).map_or(0, |own| own.node);
        let Some(slot) = link.try_read((node * NODE_BYTES) as u64, NODE_BYTES, more)? else {
            return Ok(false);
        };
        endpoint.in_slot[slot] = lookup;
        endpoint.ready.pop();
        pace.traffic.reads += 1;
        Ok(true)
    }

    /// Starts a lookup. Returns false if none is due or the fabric is full.
    #[inline]
    fn start<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
        more: bool,
    ) -> Result<bool, Failure> {
        let (Some(since), Some(place)) = (pace.due(), self.endpoints[number].lookups.next()) else {
            return Ok(false);
        };
        let value_bytes = pace.point.size_bytes;
        let index = tree::scattered(self.demand.draw(), value_bytes);
        let key = tree::key(index);
        let mut lookup = Lookup { index, key, since, node: 0, level: 0 };
        let is_posted = match self.inner {
            Inner::Owner => self.call(pace, link, place, more, index)?,
            Inner::Client { kept } => {
                lookup.level = kept;
                lookup.node = self.tree.descend(kept, key).unwrap_or_default();
                true
            }
        };
        if !is_posted {
            return Ok(false);
        }
        self.endpoints[number].lookups.begin(lookup);
        pace.start();
        pace.ask(1);
        if self.inner == Inner::Owner {
            return Ok(true);
        }
        self.endpoints[number].ready.push(place);
        // A READ that the fabric does not take now stays ready.
        self.read(pace, link, number, place, more)?;
        Ok(true)
    }

    /// Asks the owner for the leaf. Returns false if the fabric is full.
    #[inline]
    fn call<B: Backend>(
        &self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: u32,
        more: bool,
        index: u64,
    ) -> Result<bool, Failure> {
        let Some(slot) = link.take_tx() else { return Ok(false) };
        let len_bytes = HEADER_BYTES + KEY_BYTES;
        let message = link.payload_mut(slot)?;
        Header { len_bytes, call: number, code: Code::Find }.write(message);
        message[HEADER_BYTES..len_bytes].copy_from_slice(&wire_key(index));
        let is_posted = link.try_taken(slot, len_bytes, more)?;
        if is_posted {
            pace.message(len_bytes);
        } else {
            link.put_back(slot);
        }
        Ok(is_posted)
    }
}
