//! A full B+-tree of three levels of 1 KiB nodes: an inner node holds 64 pairs of a key and a
//! child, a leaf holds pairs of a key and a value. Nodes have numbers in the order of their levels;
//! the offset of a node is its number times its size.
//!
//! The whole tree follows from the length of the values, so that the upper levels at a client are
//! the same as at the owner.

use std::ops::Range;

use bench_record::workload::INDEX_LEVELS;

use crate::measure::Random;
use crate::workload::prelude::*;
use crate::workload::store;

pub(super) const NODE_BYTES: usize = 1024;
pub(super) const LEVELS: usize = INDEX_LEVELS;
/// The number of nodes of the whole tree.
const NODES: usize = 1 + FAN_OUT + LEAVES;
/// The length of the whole tree in bytes.
pub(super) const TREE_BYTES: usize = NODES * NODE_BYTES;
/// The length of the longest value that a leaf has room for, in bytes.
pub(super) const VALUE_BYTES_MAX: usize = NODE_BYTES - WORD_BYTES;

const FAN_OUT: usize = 64;
const LEAVES: usize = FAN_OUT * FAN_OUT;
const FIRST_LEAF: usize = 1 + FAN_OUT;
const WORD_BYTES: usize = 8;
/// The length of a key and a child in bytes.
const PAIR_BYTES: usize = 2 * WORD_BYTES;
/// The number of low bits of a key that are a hash of its number.
const SPREAD_BITS: u32 = 16;

/// Returns the key with number `index`. Keys ascend with their numbers, with irregular gaps.
#[inline]
pub(super) const fn key(index: u64) -> u64 {
    index << SPREAD_BITS | Random::new(index).next() >> (64 - SPREAD_BITS)
}

/// Returns the number of pairs of a leaf with values of this length.
const fn pairs(value_bytes: usize) -> usize {
    NODE_BYTES / (WORD_BYTES + value_bytes)
}

/// Returns the number of keys of a tree with values of this length.
pub(super) const fn keys(value_bytes: usize) -> usize {
    LEAVES * pairs(value_bytes)
}

/// Returns the number of the key with this rank of popularity: keys of neighbouring ranks are in
/// different leaves.
#[inline]
pub(super) const fn scattered(rank: u64, value_bytes: usize) -> u64 {
    rank % LEAVES as u64 * pairs(value_bytes) as u64 + rank / LEAVES as u64
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Counts how many of `count` ascending keys, each `stride_bytes` after the one before, are up to
/// `wanted`.
#[inline]
fn up_to(node: &[u8], count: usize, stride_bytes: usize, wanted: u64) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if word(node, middle * stride_bytes) <= wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Finds the place in an inner node with the number of the child that leads to `wanted`; `None` if
/// there is none.
#[inline]
fn child_place(node: &[u8], wanted: u64) -> Option<Range<usize>> {
    let place = up_to(node, FAN_OUT, PAIR_BYTES, wanted).checked_sub(1)?;
    let start = place * PAIR_BYTES + WORD_BYTES;
    Some(start..start + WORD_BYTES)
}

/// Returns the child of an inner node of `level` that leads to `wanted`; `None` if that is no node
/// of the next level.
#[inline]
pub(super) fn child(node: &[u8], level: usize, wanted: u64) -> Option<usize> {
    let child = word(node, child_place(node, wanted)?.start) as usize;
    let level = if level == 0 { 1..FIRST_LEAF } else { FIRST_LEAF..NODES };
    level.contains(&child).then_some(child)
}

/// Finds the value of `wanted` in a leaf; `None` if it is not there.
#[inline]
pub(super) fn value(leaf: &[u8], value_bytes: usize, wanted: u64) -> Option<Range<usize>> {
    let stride_bytes = WORD_BYTES + value_bytes;
    let place = up_to(leaf, pairs(value_bytes), stride_bytes, wanted).checked_sub(1)?;
    let start = place * stride_bytes;
    (word(leaf, start) == wanted).then(|| start + WORD_BYTES..start + stride_bytes)
}

/// Reads the number of a leaf in a message.
pub(super) fn leaf_number(body: &[u8]) -> Option<usize> {
    let number = usize::try_from(u64::from_le_bytes(body.try_into().ok()?)).ok()?;
    (FIRST_LEAF..NODES).contains(&number).then_some(number)
}

/// The part of a tree that a lane holds.
pub(super) struct Tree {
    bytes: Vec<u8>,
    /// The length of values; 0: the tree is not built yet.
    value_bytes: usize,
}

impl Tree {
    /// Makes room for the upper levels, or for the whole tree.
    pub(super) fn new(is_whole: bool) -> Result<Self, Failure> {
        let len_bytes = if is_whole { TREE_BYTES } else { FIRST_LEAF * NODE_BYTES };
        let what = format!("a tree of {len_bytes} bytes per thread");
        Ok(Self { bytes: filled(len_bytes, 0, what)?, value_bytes: 0 })
    }

    /// Builds as much as there is room for, with values of this length. Returns false if that is
    /// built already.
    pub(super) fn begin(&mut self, value_bytes: usize) -> bool {
        if self.value_bytes == value_bytes {
            return false;
        }
        self.value_bytes = value_bytes;
        let per_leaf = pairs(value_bytes);
        for (number, node) in self.bytes.chunks_exact_mut(NODE_BYTES).enumerate() {
            if let Some(leaf) = number.checked_sub(FIRST_LEAF) {
                fill_leaf(node, leaf * per_leaf, value_bytes);
                continue;
            }
            // The first child, the first leaf of its keys, and the distance of leaves from child to
            // child.
            let (child, leaf, step) = match number {
                0 => (1, 0, FAN_OUT),
                _ => {
                    let leaf = (number - 1) * FAN_OUT;
                    (FIRST_LEAF + leaf, leaf, 1)
                }
            };
            for (place, pair) in node.chunks_exact_mut(PAIR_BYTES).enumerate() {
                let first = (leaf + place * step) * per_leaf;
                pair[..WORD_BYTES].copy_from_slice(&key(first as u64).to_le_bytes());
                pair[WORD_BYTES..].copy_from_slice(&((child + place) as u64).to_le_bytes());
            }
        }
        true
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn node(&self, number: usize) -> &[u8] {
        self.bytes.get(number * NODE_BYTES..(number + 1) * NODE_BYTES).unwrap_or_default()
    }

    /// Returns the node of `level` that leads to `wanted`.
    #[inline]
    pub(super) fn descend(&self, level: usize, wanted: u64) -> Option<usize> {
        (0..level).try_fold(0, |node, level| child(self.node(node), level, wanted))
    }

    /// Finds the place with the number of the leaf that `wanted` would be in.
    #[inline]
    pub(super) fn leaf_place(&self, wanted: u64) -> Option<Range<usize>> {
        let node = self.descend(LEVELS - 2, wanted)?;
        let place = child_place(self.node(node), wanted)?;
        Some(node * NODE_BYTES + place.start..node * NODE_BYTES + place.end)
    }

    /// Finds the value of `wanted`.
    #[inline]
    pub(super) fn find(&self, wanted: u64) -> Option<Range<usize>> {
        let leaf = self.descend(LEVELS - 1, wanted)?;
        let place = value(self.node(leaf), self.value_bytes, wanted)?;
        Some(leaf * NODE_BYTES + place.start..leaf * NODE_BYTES + place.end)
    }
}

fn fill_leaf(leaf: &mut [u8], first: usize, value_bytes: usize) {
    let pairs = leaf.chunks_exact_mut(WORD_BYTES + value_bytes);
    for (pair, index) in pairs.zip(first as u64..) {
        pair[..WORD_BYTES].copy_from_slice(&key(index).to_le_bytes());
        store::fill(&mut pair[WORD_BYTES..], index, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_and_none_beside() {
        let mut tree = Tree::new(true).expect("memory");
        for value_bytes in [8, 100, VALUE_BYTES_MAX] {
            assert!(tree.begin(value_bytes) && !tree.begin(value_bytes));
            for index in 0..keys(value_bytes) as u64 {
                let place = tree.find(key(index)).expect("it is there");
                assert!(store::is_value(&tree.bytes()[place], index), "{value_bytes}: {index}");
                assert_eq!(tree.find(key(index) + 1).is_some(), key(index) + 1 == key(index + 1));
            }
            assert_eq!(tree.find(key(keys(value_bytes) as u64)), None);
            assert_eq!(tree.find(key(0).wrapping_sub(1)), None);
        }
    }

    #[test]
    fn upper_levels_alone_lead_to_the_same_leaf() {
        let (mut whole, mut upper) =
            (Tree::new(true).expect("memory"), Tree::new(false).expect("memory"));
        whole.begin(8);
        upper.begin(8);
        for index in (0..keys(8) as u64).step_by(977) {
            let leaf = upper.descend(LEVELS - 1, key(index)).expect("a leaf");
            assert!(value(whole.node(leaf), 8, key(index)).is_some(), "{index}");
            let place = whole.leaf_place(key(index)).expect("said somewhere");
            assert_eq!(leaf_number(&whole.bytes()[place]), Some(leaf));
        }
    }

    #[test]
    fn ranks_are_scattered_over_leaves_and_each_has_its_key() {
        let mut seen = vec![false; keys(100)];
        for rank in 0..keys(100) as u64 {
            let index = scattered(rank, 100) as usize;
            assert!(!std::mem::replace(&mut seen[index], true), "{index} twice");
        }
        let (first, second) = (scattered(0, 100), scattered(1, 100));
        assert_eq!(second - first, pairs(100) as u64);
    }

    #[test]
    fn damaged_nodes_lead_nowhere() {
        let mut tree = Tree::new(false).expect("memory");
        tree.begin(8);
        let mut root = tree.node(0).to_vec();
        root[WORD_BYTES..2 * WORD_BYTES].fill(0xff);
        assert_eq!(child(&root, 0, key(0)), None);
        assert_eq!(leaf_number(&[0; 8]), None);
        assert_eq!(leaf_number(&[1; 7]), None);
    }
}
