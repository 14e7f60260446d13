//! Changes that must happen at once: the tool that makes them has been started before.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::Network;

/// An `ip` that waits for its commands; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Lever(Child);

impl Network {
    /// A lever on a member.
    ///
    /// # Errors
    /// `ip` cannot be started.
    pub(crate) fn lever(&self, member: &str) -> Result<Lever> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.namespace(member), "-batch", "-"]).stdin(Stdio::piped());
        Ok(Lever(command.spawn().context("ip cannot be started")?))
    }
}

impl Lever {
    /// Has it run one line, within a fraction of a millisecond.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn pull(&mut self, line: &str) -> Result<()> {
        let stdin = self.0.stdin.as_mut().context("no input")?;
        writeln!(stdin, "{line}").with_context(|| format!("ip is gone before '{line}'"))
    }
}

impl Drop for Lever {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
