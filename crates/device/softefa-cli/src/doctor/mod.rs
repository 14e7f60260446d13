//! `softefa doctor`: what works on this machine, what does not, and the command that repairs it.

mod device;
mod kernel;
mod libraries;
mod limits;

use std::io::{self, Write, stdout};

use serde_json::{Value, json};

use crate::args::DoctorArgs;
use crate::failure::Failure;

/// Exit code when no device can be opened.
const CODE_NO_DEVICE: u8 = 1;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The part works as expected.
    Good,
    /// The finding is worth knowing, but has no effect on speed or features.
    Note,
    /// A feature is slower or missing.
    Limited,
    /// Devices do not work.
    Broken,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Limited => "limited",
            Self::Broken => "broken",
        }
    }
}

/// One finding.
#[derive(Debug)]
struct Finding {
    /// The subject in a few words.
    name: &'static str,
    state: State,
    /// The finding as a sentence, without a full stop.
    found: String,
    /// The command that repairs it.
    help: Option<String>,
}

impl Finding {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), help: None }
    }

    fn note(name: &'static str, found: impl Into<String>) -> Self {
        Self { state: State::Note, ..Self::good(name, found) }
    }

    fn limited(name: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { state: State::Limited, help: Some(help.into()), ..Self::good(name, found) }
    }

    fn broken(name: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { state: State::Broken, ..Self::limited(name, found, help) }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "state": self.state.name(),
            "found": self.found,
            "help": self.help,
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!("{:<8} {:<16} {}\n", self.state.name(), self.name, self.found);
        if let Some(help) = &self.help {
            text += &format!("{:<25} try: {help}\n", "");
        }
        text
    }
}

/// Prints all findings; returns 0 when devices can be opened, otherwise 1.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    if let Some(part) = &args.attempt {
        return kernel::attempt(part).unwrap_or_else(|| device::attempt(part));
    }
    let mut findings = device::findings();
    findings.extend(libraries::findings(args.library.as_deref()));
    findings.extend(kernel::findings());
    findings.extend(limits::findings());
    let works = findings.iter().all(|finding| finding.state != State::Broken);
    let text = if args.json {
        let all: Vec<Value> = findings.iter().map(Finding::to_json).collect();
        format!("{:#}\n", json!({ "works": works, "findings": all }))
    } else {
        to_text(&findings, works)
    };
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}")))
        }
        _ => Ok(if works { 0 } else { CODE_NO_DEVICE }),
    }
}

fn to_text(findings: &[Finding], works: bool) -> String {
    let mut text: String = findings.iter().map(Finding::to_text).collect();
    let limited = findings.iter().filter(|finding| finding.state == State::Limited).count();
    text += match (works, limited) {
        (false, _) => "\nNo device can be opened: see what is broken.\n",
        (true, 0) => "\nDevices work here.\n",
        (true, _) => "\nDevices work here; what is limited is slower or missing.\n",
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_what_helps() {
        let finding = Finding::limited("cores", "one", "taskset -p");
        assert_eq!(
            finding.to_text(),
            "limited  cores            one\n                          try: taskset -p\n"
        );
        assert_eq!(finding.to_json()["state"], "limited");
        let broken = [Finding::broken("device", "none", "x"), Finding::good("cores", "2")];
        assert!(to_text(&broken, false).ends_with("see what is broken.\n"));
        assert!(to_text(&broken[1..], true).ends_with("Devices work here.\n"));
    }

    #[test]
    fn everything_has_a_name_of_its_own() {
        let mut names: Vec<&str> = kernel::findings()
            .into_iter()
            .chain(limits::findings())
            .chain(libraries::findings(None))
            .map(|finding| finding.name)
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}
