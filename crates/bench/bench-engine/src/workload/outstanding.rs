//! Operations that are on their way, identified by number.

/// A table of operations. The number of an operation is its place, which is free again when the
/// operation has ended.
pub(crate) struct Outstanding<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T: Copy> Outstanding<T> {
    /// Makes room for `depth` operations.
    pub(crate) fn new(depth: usize) -> Self {
        let numbers = 0..u32::try_from(depth).unwrap_or(u32::MAX);
        Self { places: vec![None; depth], free: numbers.rev().collect() }
    }

    /// Returns how many more operations there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Returns true if no operation is on its way.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// Returns the number that the next operation will have; `None` if there is no room.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Begins an operation with the number from `next`.
    #[inline]
    pub(crate) fn begin(&mut self, operation: T) {
        if let Some(number) = self.free.pop() {
            self.places[number as usize] = Some(operation);
        }
    }

    /// Returns the operation with this number; `None` if it is not on its way.
    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    /// Ends the operation with this number; `None` if it was not on its way.
    #[inline]
    pub(crate) fn end(&mut self, number: u32) -> Option<T> {
        let ended = self.places.get_mut(number as usize)?.take();
        self.free.extend(ended.is_some().then_some(number));
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_again_when_they_are_free() {
        let mut table = Outstanding::new(2);
        assert!(table.is_empty() && table.room() == 2);
        for (number, operation) in [(0, 'a'), (1, 'b')] {
            assert_eq!(table.next(), Some(number));
            table.begin(operation);
        }
        assert_eq!((table.next(), table.room()), (None, 0));
        assert_eq!((table.get(1).copied(), table.get(2)), (Some('b'), None));
        assert_eq!((table.end(0), table.end(0), table.end(7)), (Some('a'), None, None));
        assert_eq!((table.next(), table.get(0)), (Some(0), None));
        table.begin('c');
        assert_eq!((table.end(0), table.end(1)), (Some('c'), Some('b')));
        assert!(table.is_empty());
    }
}
