//! Numbers of the parts of a run. Each kind has a type of its own, so that a link's number never
//! passes for a host's.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Defines numbers of 32 bits that count from zero.
macro_rules! ids {
    ($($(#[$doc:meta])* $vis:vis $id:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $id(pub(crate) u32);

        #[allow(dead_code, reason = "each kind of number has the same functions")]
        impl $id {
            /// Returns the place in a table of all of them.
            #[inline]
            #[must_use]
            $vis const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the number of the entry at a place in such a table.
            #[inline]
            #[must_use]
            $vis const fn at(index: usize) -> Self {
                Self(index as u32)
            }

            /// Returns `count` consecutive numbers, from this one on.
            pub(crate) fn range(
                self,
                count: u32,
            ) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
                (self.0..self.0 + count).map(Self)
            }

            /// Returns every number from zero on, to be zipped with a table.
            pub(crate) fn all() -> impl Iterator<Item = Self> {
                (0..).map(Self)
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A host.
    pub(crate) HostId
    /// A switch. The first ones are those of the racks, in their order.
    pub(crate) SwitchId
    /// A rack: consecutive hosts below one switch.
    pub(crate) RackId
    /// One direction of a cable, and the port that feeds it. The first ones lead away from the
    /// hosts, in their order.
    pub(crate) LinkId
    /// A transfer of a run's workloads.
    #[derive(Serialize, Deserialize)]
    pub FlowId
    /// A message of a transfer.
    pub MessageId
    /// A transport's end on a host.
    pub SocketId
    /// A moment at which a part of a fault begins or ends.
    pub(crate) StepId
    /// A connection in the model of a NIC.
    pub(crate) PairId
    /// A thread of a program in the model of a NIC.
    pub(crate) ThreadId
}

/// A process of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) host: HostId,
    /// Number of the process on the host.
    pub(crate) number: u16,
}

/// A pair of equal things, one for each end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends<T> {
    pub(crate) src: T,
    pub(crate) dst: T,
}

impl<T> Ends<T> {
    /// Returns the pair from the viewpoint of the other end.
    pub(crate) fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const HOSTS: Ends<HostId> = Ends { src: HostId(0), dst: HostId(1) };
    pub(crate) const SOCKETS: Ends<SocketId> = Ends { src: SocketId(0), dst: SocketId(1) };
    pub(crate) const RECEIVER: Process = Process { host: HOSTS.dst, number: 0 };
}
