//! Configuration changes that must take effect at once, by an `ip` that is already running.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::Network;

/// An `ip` that reads its commands from a pipe; dropping it ends it.
#[derive(Debug)]
pub(crate) struct IpBatch(Child);

impl Network {
    /// Starts an `ip` on a member.
    ///
    /// # Errors
    /// `ip` cannot be started.
    pub(crate) fn ip_batch(&self, member: &str) -> Result<IpBatch> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.namespace(member), "-batch", "-"]).stdin(Stdio::piped());
        Ok(IpBatch(command.spawn().context("ip cannot be started")?))
    }
}

impl IpBatch {
    /// Runs one line, within a fraction of a millisecond.
    ///
    /// # Errors
    /// `ip` has ended.
    pub(crate) fn run(&mut self, line: &str) -> Result<()> {
        let stdin = self.0.stdin.as_mut().context("no input")?;
        writeln!(stdin, "{line}").with_context(|| format!("ip is gone before '{line}'"))
    }
}

impl Drop for IpBatch {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
