//! Lists that share their memory, a chunk at a time.
//!
//! A bucket of the wheel holds a few events or thousands. With a vector each, all buckets end up as
//! large as the largest ever was; here memory is that of what waits at the same time, what is
//! written lies side by side, and a chunk that was read last is written next.

/// Number of items of a chunk.
const CHUNK: usize = 16;
/// Index that stands for no chunk.
const NONE: u32 = u32::MAX;

/// A list; its items are in [`Chunks`].
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };
}

/// The items of many lists.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    /// [`CHUNK`] places for each chunk.
    items: Vec<T>,
    /// Next chunk of the list of each chunk, or of the free ones.
    next: Vec<u32>,
    free: u32,
}

impl<T: Copy> Chunks<T> {
    pub(super) fn new() -> Self {
        Self { items: Vec::new(), next: Vec::new(), free: NONE }
    }

    /// Adds an item at the end of a list.
    #[inline]
    pub(super) fn push(&mut self, list: &mut List, item: T) {
        let place = list.len as usize % CHUNK;
        if place == 0 {
            self.lengthen(list, item);
        }
        self.items[list.last as usize * CHUNK + place] = item;
        list.len += 1;
    }

    /// Adds a chunk to a list; `filler` is what lies in its places until they are used.
    fn lengthen(&mut self, list: &mut List, filler: T) {
        let chunk = self.free;
        let chunk = match self.next.get(chunk as usize) {
            Some(&next) => {
                self.free = next;
                chunk
            }
            None => {
                self.next.push(NONE);
                self.items.resize(self.next.len() * CHUNK, filler);
                self.next.len() as u32 - 1
            }
        };
        match self.next.get_mut(list.last as usize) {
            Some(last) => *last = chunk,
            None => list.first = chunk,
        }
        list.last = chunk;
    }

    /// Empties a list and passes its items to `take`, in their order.
    pub(super) fn drain(&mut self, list: &mut List, mut take: impl FnMut(&T)) {
        let List { first, last, len } = std::mem::replace(list, List::EMPTY);
        let (mut chunk, mut left) = (first, len as usize);
        while left > 0 {
            let count = left.min(CHUNK);
            self.items[chunk as usize * CHUNK..][..count].iter().for_each(&mut take);
            left -= count;
            chunk = self.next[chunk as usize];
        }
        if let Some(last) = self.next.get_mut(last as usize) {
            *last = self.free;
            self.free = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_share_their_memory() {
        let mut chunks = Chunks::new();
        let mut lists = [List::EMPTY; 3];
        for round in 0..4 {
            for n in 0..100u32 {
                chunks.push(&mut lists[(n % 3) as usize], n + round);
            }
            for (list, first) in lists.iter_mut().zip(0..) {
                let mut found = Vec::new();
                chunks.drain(list, |&n| found.push(n));
                let expected: Vec<u32> = (first..100).step_by(3).map(|n| n + round).collect();
                assert_eq!(found, expected);
                chunks.drain(list, |n| panic!("{n} was taken before"));
            }
            assert_eq!(chunks.next.len(), 9, "three chunks for each list of 33 or 34");
        }
    }
}
