//! The two hosts of the model.

/// One of the two hosts. Streams go from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    First,
    Second,
}

impl Node {
    /// Returns its place in tables of both.
    #[inline]
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the host at the other end.
    #[inline]
    pub(super) const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}
