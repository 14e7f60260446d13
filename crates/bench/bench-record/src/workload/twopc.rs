//! Transactions that participants vote on.

use super::about::{CALLS, SLEEPS};
use super::{About, WorkSpec};
use crate::names::{ONE_SIZE, Preset};
use crate::spec::Benchmark;

/// The usual number of rows of a participant.
pub(super) const ROWS: usize = 1 << 16;

pub(super) const ABOUT: About = About {
    name: "2pc",
    names: &[Preset {
        aliases: &["twopc"],
        sizes: ONE_SIZE,
        depth: "1,8,64",
        nodes: 3,
        ..Preset::of(
            Benchmark::TwoPhase,
            "2pc",
            "Two-phase commit of transactions at every server; --sizes is the record, --depth the \
               transactions outstanding",
        )
    }],
    reads: &[CALLS, SLEEPS, &["rx_depth", "post_list", "keys", "zipf", "locks"]],
    spec: |args, _| {
        let (transactions, locks) = (true, args.twopc.locks);
        Ok(WorkSpec { transactions, locks, ..args.shared.by_key_of(ROWS)? })
    },
    ..About::GROUP
};

/// Options of `2pc`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Lock the rows of 2pc (--keys at each participant, --zipf) from prepare to the end of the
    /// transaction; a participant that finds a row locked votes no.
    #[arg(long)]
    locks: bool,
}
