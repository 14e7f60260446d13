//! Faults on purpose: what a user asks for, and who decides what it hits.
//!
//! ```text
//! FaultSpec --> dice       loss, reordering, duplicates, delay    of each datagram sent
//!           --> damage     altered headers, altered payload        of each datagram sent
//!           --> blackhole  paths that swallow, from when to when   of each datagram sent
//!           --> refusal    receives that are not there, sends that fail
//!           --> lapses     acknowledgements and packet numbers of connections
//!           --> device     a narrow link, numbers that come back, the end of the process
//! ```
//! What dice decide is deterministic: the same seed and the same sequence of datagrams give the
//! same fates, and asking for another fault does not change them. What is told by a time happens at
//! that time after the device was opened, whatever is on its way then.

mod blackhole;
mod damage;
mod dice;
mod lapses;
mod random;
mod refusal;

pub use crate::config::fault::{Blackhole, FaultKey, FaultSpec, Side};

pub(crate) use blackhole::Blackholes;
pub(crate) use dice::{Dice, Fate};
pub(crate) use lapses::Lapses;
pub(crate) use random::stream_of;
pub(crate) use refusal::Refusals;
