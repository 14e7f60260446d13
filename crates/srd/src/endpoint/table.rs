//! The peers of an endpoint: a slab with generations, found by address.

use crate::peer::Peer;
use crate::{Address, PeerId};
use core::hash::{BuildHasher, Hasher};
use std::collections::HashMap;

/// A multiplicative hash with a secret start, the same in every run with the same seed.
#[derive(Clone, Copy, Debug)]
struct Hash(u64);

impl BuildHasher for Hash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for Hash {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
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
    /// Those found last. Two, because a program often sends to one peer what it has of another.
    recent: [Option<(Address, u32)>; 2],
}

impl PeerTable {
    pub(super) fn new(secret: u64) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            index: HashMap::with_hasher(Hash(secret)),
            recent: [None; 2],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// One past the highest index in use.
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
    pub(super) fn at(&mut self, index: u32) -> Option<&mut Peer> {
        self.entries.get_mut(index as usize)?.peer.as_deref_mut()
    }

    pub(super) fn look(&self, index: u32) -> Option<&Peer> {
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
}
