//! Records of a log, shipped to replicas.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::about::{CALLS, JobRequest, SLEEPS};
use super::{About, OwnSpec, WorkSpec};
use crate::fabric_name::FabricName;
use crate::names::Preset;
use crate::spec::{Benchmark, within};

/// The most records of a group; more are a mistake.
const GROUP_MAX: usize = 1 << 16;

pub(super) const ABOUT: About = About {
    name: "log",
    names: &[Preset {
        sizes: "128,1024",
        depth: "1,16",
        nodes: 3,
        ..Preset::of(
            Benchmark::Log,
            "log",
            "Log shipping from the client to every server; --sizes is the record, --depth the groups that \
               are not committed (1: synchronous)",
        )
    }],
    reads: &[CALLS, SLEEPS, &["endpoints", "rx_depth", "post_list", "group", "commit", "ack"]],
    spec: |args, _| Ok(WorkSpec { own: OwnSpec::Log(args.log.spec()?), ..WorkSpec::NONE }),
    check,
    ..About::GROUP
};

/// The replicas that must have a record before it is committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Commit {
    /// All replicas.
    #[default]
    All,
    /// More than half of the nodes, the primary included.
    Majority,
}

/// The event that tells the primary that a replica has a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Ack {
    /// The replica's answer, once the group is in its log.
    #[default]
    Message,
    /// The completion of the send: the group is in a receive buffer of the replica's.
    Completion,
}

/// The specification of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpec {
    /// The most records of a group (open loop: those that are due).
    pub group: usize,
    pub commit: Commit,
    pub ack: Ack,
}

impl LogSpec {
    /// Returns the number of replicas that must have a group, of `replicas`.
    pub const fn needed(self, replicas: usize) -> u32 {
        let count = match self.commit {
            Commit::All => replicas,
            // With the primary they are more than half of replicas + 1 nodes.
            Commit::Majority => replicas.div_ceil(2),
        };
        count as u32
    }
}

impl fmt::Display for LogSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = match self.commit {
            Commit::All => "all replicas",
            Commit::Majority => "a majority",
        };
        let ack = match self.ack {
            Ack::Message => "acknowledged by message",
            Ack::Completion => "acknowledged by completion",
        };
        write!(f, "groups of {}, committed at {commit}, {ack}", self.group)
    }
}

/// Options of `log`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Records of log that are shipped together. Default: 1.
    #[arg(long, value_name = "RECORDS")]
    group: Option<usize>,
    /// Who must have a record of log before it is committed. Default: all.
    #[arg(long)]
    commit: Option<Commit>,
    /// How the primary of log learns that a replica has a group. Default: message.
    #[arg(long)]
    ack: Option<Ack>,
}

impl Args {
    fn spec(&self) -> Result<LogSpec, String> {
        let group = within("--group", self.group.unwrap_or(1), 1..=GROUP_MAX)?;
        let (commit, ack) = (self.commit.unwrap_or_default(), self.ack.unwrap_or_default());
        Ok(LogSpec { group, commit, ack })
    }
}

/// Refuses requests that a log cannot do.
fn check(asked: &JobRequest<'_>) -> Result<(), String> {
    let job = asked.job;
    if job.endpoints > 1 {
        return Err("each thread has one log, shipped in its order: no --endpoints".to_owned());
    }
    let ack = job.work.log().map(|spec| spec.ack);
    if ack == Some(Ack::Completion) && job.fabric == FabricName::Tcp {
        return Err("--ack completion: tcp completes a send when the kernel has taken it, which \
                    tells nothing of the replica: use --ack message"
            .to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_counts_the_primary() {
        let needed =
            |commit, replicas| LogSpec { group: 1, commit, ack: Ack::Message }.needed(replicas);
        for (replicas, majority) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            assert_eq!(needed(Commit::All, replicas), replicas as u32);
            assert_eq!(needed(Commit::Majority, replicas), majority, "{replicas} replicas");
        }
    }
}
