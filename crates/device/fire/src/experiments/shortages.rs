//! Shortages: of disk, descriptors, memory, processes, a writable /tmp, system calls or /dev/shm.
//!
//! An unmodified program under `softefa run` either works, or ends with an exit code and a line
//! that says why. It never hangs, and nothing of ours panics or dies of a signal.

mod cases;
mod group;
mod pair;

use std::ops::RangeInclusive;

use anyhow::Result;

use super::Context;
use crate::output::eprint_line;
use crate::record::Record;

use cases::Shortage;
pub(crate) use group::remove_stale as remove_stale_groups;
use pair::Ending;

/// The control case without a shortage: it must work, or the other results mean nothing.
const CONTROL: &str = "nothing is missing";

/// Exit codes of `softefa run` after a signal that has a name.
const CODES_OF_SIGNALS: RangeInclusive<i32> = 129..=159;

/// A shortage that cannot be made on this machine.
const NO_VARIANT: &str = "not tried: no such controller of control groups here";

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for shortage in cases::all(context) {
        if shortage.variants.is_empty() && context.is_short {
            eprint_line!("         {}: {NO_VARIANT}", shortage.name);
            continue;
        }
        records.push(case(context, &shortage)?);
    }
    Ok(records)
}

fn case(context: &Context, shortage: &Shortage) -> Result<Record> {
    context.log_case(shortage.name);
    let mut record = Record::new(shortage.name, "programs");
    if shortage.variants.is_empty() {
        record.count_trial(Some(NO_VARIANT.to_owned()));
    }
    let (mut works, mut lines) = (0, Vec::new());
    for variant in &shortage.variants {
        let ending = pair::run(context, variant)?;
        let failure = judge(shortage, &ending);
        record.count_trial(failure.map(|failure| format!("{}: {failure}", variant.name)));
        match ending {
            Ending { code: Some(0), .. } => works += 1,
            ending => {
                let line = format!("{}: {}", variant.name, ending.summary());
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
    }
    record.result = format!("{works} of {} work", shortage.variants.len());
    if let (Some(first), Some(last)) = (lines.first(), lines.last()) {
        record.result += &format!("; {first}");
        if first != last {
            record.result += &format!("; {last}");
        }
    }
    Ok(record)
}

fn judge(shortage: &Shortage, ending: &Ending) -> Option<String> {
    if ending.hung {
        return Some(format!("it hangs; it said: {}", ending.stderr_excerpt()));
    }
    if ending.stderr.contains("panicked at") {
        return Some(format!("a panic: {}", ending.stderr_excerpt()));
    }
    let is_killed = shortage.kernel_kills && ending.signal == Some(9);
    if !ending.is_confined && !is_killed {
        return Some(format!("not tried: {}", ending.summary()));
    }
    let Some(code) = ending.code else {
        // Without memory the kernel kills any process, and that one cannot print anything.
        if is_killed {
            return None;
        }
        return Some(format!(
            "softefa itself died of a signal; it said: {}",
            ending.stderr_excerpt()
        ));
    };
    if shortage.name == CONTROL && code != 0 {
        return Some(format!("it fails: {}", ending.summary()));
    }
    // The program, and with it the adapter, died of a signal. Only the kernel sends it one, where
    // memory is short.
    let is_kernel_s = shortage.kernel_kills && code == 128 + 9;
    if CODES_OF_SIGNALS.contains(&code) && !is_kernel_s {
        return Some(format!("it crashed: {}", ending.summary()));
    }
    (code != 0 && ending.stderr_excerpt().is_empty())
        .then(|| format!("exit code {code} without a word"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: Option<i32>, signal: Option<i32>) -> Ending {
        let stderr = "sh: 1: mount: not found".to_owned();
        Ending { code, signal, hung: false, is_confined: true, stderr, stdout: String::new() }
    }

    fn shortage(kernel_kills: bool) -> Shortage {
        Shortage { kernel_kills, ..Shortage::new("disk full", Vec::new()) }
    }

    /// When a tool is missing the shell exits with 127 and prints a line, which must not pass for a
    /// program that says why it fails.
    #[test]
    fn a_shortage_that_was_not_made_fails() {
        let not_made = Ending { is_confined: false, ..ended(Some(127), None) };
        let failure = judge(&shortage(false), &not_made).expect("a failure");
        assert!(failure.contains("not tried") && failure.contains("mount: not found"), "{failure}");
        assert_eq!(judge(&shortage(false), &ended(Some(127), None)), None);
        // The kernel may kill it before the program begins.
        let killed = Ending { is_confined: false, ..ended(None, Some(9)) };
        assert_eq!(judge(&shortage(true), &killed), None);
        assert!(judge(&shortage(false), &killed).is_some());
    }

    /// SIGBUS, SIGILL and SIGFPE count, too.
    #[test]
    fn every_signal_that_ends_a_program_is_a_crash() {
        for signal in [4, 6, 7, 8, 9, 11, 15, 31] {
            let failure = judge(&shortage(false), &ended(Some(128 + signal), None));
            assert!(failure.is_some_and(|failure| failure.contains("crashed")), "signal {signal}");
        }
        assert_eq!(judge(&shortage(true), &ended(Some(137), None)), None);
        assert!(judge(&shortage(true), &ended(Some(135), None)).is_some());
        assert_eq!(judge(&shortage(false), &ended(Some(255), None)), None, "perftest's own");
    }
}
