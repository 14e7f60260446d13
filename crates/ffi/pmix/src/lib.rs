//! Safe PMIx client: it exchanges data among the ranks of one job.
//!
//! A launcher (`mpirun`, `srun --mpi=pmix`) starts a server on each host, which knows the job.
//! [`Client::start`] talks to it: a rank [`publish`](Client::publish)es a text under a key, and
//! every other can [`lookup`](Client::lookup) it. The library, `libpmix.so.2` (PMIx 2.1 or newer,
//! whose client interface has kept its layout since), is opened when it is asked for and never
//! linked, so that programs run where there is none.
//!
//! Functions and values: PMIx Standard 4.1, chapters 3 and 5; `pmix.h`, `pmix_common.h`.

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod client;
mod error;
mod library;
mod sys;

pub use client::Client;
pub use error::Error;

/// Returns whether a launcher with a PMIx server has started this process.
pub fn is_launched() -> bool {
    ["PMIX_RANK", "PMIX_NAMESPACE"].iter().all(|name| std::env::var_os(name).is_some())
}
