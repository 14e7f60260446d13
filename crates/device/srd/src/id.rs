//! Small identifiers with one meaning each.

/// The address of a remote endpoint: a host and a queue pair number on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Opaque number of the host, chosen by the program that hosts the engine (an IPv4 address, an
    /// index into a simulated network).
    pub host: u64,
    /// Queue pair number on that host.
    pub qpn: u16,
}

/// Names the reliability context toward one remote endpoint.
///
/// It goes stale when the context is collected after a long idle time; every call tolerates a
/// stale one, and [`Endpoint::peer`](crate::Endpoint::peer) returns the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl PeerId {
    /// A small dense number, reused after the context was collected: good as an index into a
    /// table the host keeps beside the engine.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// One of the sender's paths: the index of the source port a datagram leaves from (SRD-2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u16);

/// The host's name for a message; the engine only hands it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MsgId(pub u64);

/// Packet sequence number of one direction; wraps (SRD-4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(pub u32);

impl Psn {
    /// The number `n` later.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// Returns how far `self` is ahead of `origin`; negative when it is behind.
    #[must_use]
    pub const fn ahead_of(self, origin: Self) -> i32 {
        self.0.wrapping_sub(origin.0) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_compare_across_the_wrap() {
        let a = Psn(u32::MAX - 1);
        assert_eq!(a.plus(3), Psn(1));
        assert_eq!(a.plus(3).ahead_of(a), 3);
        assert_eq!(a.ahead_of(a.plus(3)), -3);
    }
}
