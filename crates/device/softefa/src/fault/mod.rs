//! Faults on purpose: the faults that a user asks for, and the decisions on what they affect.
//!
//! ```text
//! FaultSpec --> dice       loss, reordering, duplicates, delay    of each datagram sent
//!           --> damage     altered headers, altered payload        of each datagram sent
//!           --> blackhole  paths that swallow, from when to when   of each datagram sent
//!           --> refusal    receives that are not there, sends that fail
//!           --> lapses     acknowledgements and packet numbers of connections
//!           --> device     a narrow link, numbers that come back, the end of the process
//!
//! files of the run --> control   what is in force now: a command's, a script's, or what the run was started with
//! ```
//! The decisions of the dice are deterministic: the same seed and the same sequence of datagrams
//! give the same fates, and asking for another fault does not change them. A fault with a time
//! happens at that time after the device was opened, or after the command that asked for it,
//! whatever is on its way then.

mod blackhole;
mod control;
mod damage;
mod dice;
mod files;
mod lapses;
mod random;
mod refusal;

pub use crate::config::fault::{Blackhole, FaultKey, FaultSpec, NotAFault, Side, TimedFault};
pub use control::in_force;
pub use files::{asked, now_ns, script, set, set_script, set_start};

pub(crate) use blackhole::Blackholes;
pub(crate) use control::{FaultControl, InForce, Seen};
pub(crate) use dice::{Dice, Fate};
pub(crate) use lapses::Lapses;
pub(crate) use random::stream_of;
pub(crate) use refusal::Refusals;
