//! Faults in a network.

use anyhow::Result;

use super::Network;
use crate::tool;

impl Network {
    /// Limits the rate at which a member sends into a link.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn rate(&self, member: &str, link: &str, mbps: u32) -> Result<()> {
        // Allows a burst of a millisecond and at least two long packets, and a queue of 5 ms.
        let burst = (mbps * 125).max(20_000);
        let line =
            format!("qdisc replace dev {link} root tbf rate {mbps}mbit burst {burst} latency 5ms");
        self.tc(member, &line)
    }

    /// Adds a rule for what a member forwards, in a chain of its own.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn forward_rule(&self, member: &str, rule: &str) -> Result<()> {
        self.nft(member, "add table ip fire")?;
        self.nft(member, "add chain ip fire pass { type filter hook forward priority 0; }")?;
        self.nft(member, &format!("add rule ip fire pass {rule}"))
    }

    /// Drops `percent` % of the packets that a member sends into a link.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn lossy(&self, member: &str, link: &str, percent: u32) -> Result<()> {
        self.forward_rule(member, &format!("oifname {link} numgen random mod 100 < {percent} drop"))
    }

    /// Runs `nft` on a member.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn nft(&self, member: &str, line: &str) -> Result<()> {
        let name = self.namespace(member);
        tool::run_words("ip", &["netns", "exec", &name, "nft", line]).map(drop)
    }
}
