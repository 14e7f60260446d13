//! Costs of programs of this workspace, in instructions: unlike seconds they are the same on a busy
//! machine, so a few percent show.

mod callgrind;
mod device;
mod efa_bench;
mod netsim;
mod record;

pub(crate) use device::check as check_device;
pub(crate) use efa_bench::check as check_efa_bench;
pub(crate) use netsim::check as check_netsim;

/// Arguments by which the tests of `.ci/steps` are built, word by word: nothing is compiled again
/// for other features.
const AS_TESTED: [&str; 5] = ["--workspace", "--exclude", "softefa-cli", "--exclude", "xtask"];

/// The build that is counted, and the amount of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// The release build: `make cost`.
    Release,
    /// The debug build, which the tests need anyway, with less to do: seconds, for every change.
    Debug,
}
