//! The peers of an endpoint: a slab with generations, found by address.

use crate::peer::Peer;
use crate::{Address, PeerId};
use core::fmt;
use core::hash::{BuildHasher, Hasher};
use std::collections::HashMap;

/// Multiply-shift with secret factors (Dietzfelbinger 1996): for any two addresses, all pairs of
/// hashes are equally likely. An attacker who chooses addresses without seeing hashes cannot make
/// chains longer than chance does. The hash is the same in every run with the same seed.
#[derive(Clone, Copy)]
struct Hash {
    sum: u128,
    host: u128,
    qpn: u128,
}

impl Hash {
    fn add(&mut self, factor: u128, value: u64) {
        self.sum = self.sum.wrapping_add(factor.wrapping_mul(u128::from(value)));
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(..)")
    }
}

impl BuildHasher for Hash {
    type Hasher = Self;

    #[inline]
    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for Hash {
    #[inline]
    fn finish(&self) -> u64 {
        (self.sum >> 64) as u64
    }

    /// Not used, because an [`Address`] is two numbers.
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.add(self.qpn, u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.add(self.host, value);
    }
}

#[derive(Debug, Default)]
struct Entry {
    generation: u32,
    peer: Option<Box<Peer>>,
}

#[derive(Debug)]
pub(super) struct PeerTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    index: HashMap<Address, u32, Hash>,
    /// The peers found last. Two, because a program often sends to one peer what it received from
    /// another.
    recent: [Option<(Address, u32)>; 2],
}

impl PeerTable {
    pub(super) fn new([sum, host, qpn]: [u128; 3]) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            index: HashMap::with_hasher(Hash { sum, host, qpn }),
            recent: [None; 2],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns one past the highest index that was ever in use.
    pub(super) fn end(&self) -> u32 {
        self.entries.len() as u32
    }

    #[inline]
    pub(super) fn find(&mut self, addr: Address) -> Option<u32> {
        for &(recent, index) in self.recent.iter().flatten() {
            if recent == addr {
                return Some(index);
            }
        }
        let index = *self.index.get(&addr)?;
        self.recent = [Some((addr, index)), self.recent[0]];
        Some(index)
    }

    #[inline]
    pub(super) fn by_index_mut(&mut self, index: u32) -> Option<&mut Peer> {
        self.entries.get_mut(index as usize)?.peer.as_deref_mut()
    }

    pub(super) fn by_index(&self, index: u32) -> Option<&Peer> {
        self.entries.get(index as usize)?.peer.as_deref()
    }

    /// The peer, unless it was collected.
    #[inline]
    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation == id.generation { entry.peer.as_deref() } else { None }
    }

    /// The peer, unless it was collected.
    #[inline]
    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.peer.as_deref_mut() } else { None }
    }

    /// Adds a peer, which `make` builds from its id.
    pub(super) fn insert(&mut self, addr: Address, make: impl FnOnce(PeerId) -> Peer) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        assert!(entry.peer.is_none(), "a free entry is empty");
        entry.peer = Some(Box::new(make(PeerId { index, generation: entry.generation })));
        let before = self.index.insert(addr, index);
        assert!(before.is_none(), "one peer per address");
        index
    }

    pub(super) fn remove(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if let Some(peer) = entry.peer.take() {
            entry.generation = entry.generation.wrapping_add(1);
            self.index.remove(&peer.addr);
            self.free.push(index);
            self.recent = [None; 2];
        }
    }
    /// Bytes of the table itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let index = self.index.capacity() * (size_of::<(Address, u32)>() + 1);
        self.entries.capacity() * size_of::<Entry>() + self.free.capacity() * 4 + index
    }
}
