//! The journal of a plan on disk: `events.ndjson`, one JSON object per line, only ever appended to.
//! An interrupted plan goes on from it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bench_engine::host;
use bench_record::failure::{Failure, plain};
use bench_record::{DeviceCounters, Machine, Run};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::options::{DEFAULT_OUT, PlanArgs};

pub(super) const FILE: &str = "events.ndjson";
/// The schema, which changes with every incompatible change of [`Event`].
const SCHEMA: &str = "efa-bench-events/1";

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The first line.
    PlanStarted {
        schema: String,
        tool: String,
        date: String,
        #[serde(flatten)]
        identity: Identity,
    },
    PlanResumed {
        date: String,
        steps_done: usize,
    },
    StepStarted {
        step: usize,
        date: String,
    },
    /// A block of a point was measured.
    Point {
        step: usize,
        text: String,
    },
    /// One block of each point of a step was measured, in turn with other steps of its group.
    RoundDone {
        step: usize,
        round: usize,
        runs: Vec<Run>,
    },
    StepDone {
        step: usize,
        runs: Vec<Run>,
    },
    /// The step cannot be done here.
    StepSkipped {
        step: usize,
        reason: String,
    },
    /// The step went wrong; `runs` were measured before.
    Failure {
        step: usize,
        reason: String,
        runs: Vec<Run>,
    },
    StepInterrupted {
        step: usize,
        runs: Vec<Run>,
    },
    /// Counters of the server's software device, whose first step was `step`.
    Device {
        step: usize,
        counters: DeviceCounters,
    },
    Warning {
        text: String,
    },
    PlanInterrupted {
        date: String,
    },
    /// All steps are done, skipped or failed.
    PlanDone {
        date: String,
        failures: usize,
    },
}

/// The identity of a plan: two plans of the same identity measure the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) plan: String,
    pub(super) scale: f64,
    /// The server that the plan is measured against, HOST:PORT; `None` if all is on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    /// The machine that measures; `None` in an older journal, which does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<Machine>,
    /// The work of each step, fabric included.
    pub(super) steps: Vec<String>,
}

impl Identity {
    /// Describes in what the other identity differs.
    fn difference(&self, other: &Self) -> Option<String> {
        if self.plan != other.plan {
            return Some(format!("it is of plan {}, not {}", other.plan, self.plan));
        }
        // Numbers come back from JSON exactly, or nearly so.
        if (self.scale - other.scale).abs() > 1e-9 {
            return Some(format!("it has --scale {}, not {}", other.scale, self.scale));
        }
        if self.target != other.target {
            let (ours, theirs) = (self.place(), other.place());
            return Some(format!("it is measured {theirs}, not {ours}"));
        }
        let machines = self.host.as_ref().zip(other.host.as_ref());
        if let Some((ours, theirs)) = machines.filter(|(ours, theirs)| ours != theirs) {
            return Some(format!("it was measured on {theirs}, this is {ours}"));
        }
        let pair = self.steps.iter().zip(&other.steps).find(|(ours, theirs)| ours != theirs);
        if let Some((ours, theirs)) = pair {
            return Some(format!("it has the step `{theirs}` in place of `{ours}`"));
        }
        let (ours, theirs) = (self.steps.len(), other.steps.len());
        (ours != theirs).then(|| format!("it has {theirs} steps, not {ours}"))
    }

    /// Describes where the other side is.
    fn place(&self) -> String {
        let target = self.target.as_ref();
        target.map_or_else(|| "on this machine".to_owned(), |target| format!("against {target}"))
    }
}

/// The file, which this process has locked until the value is dropped.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// Why other processes might write to the file meanwhile, if they might.
    pub(super) doubt: Option<String>,
}

impl Journal {
    /// Opens the file in `--out`; returns the events of the same plan if it has something left to
    /// do, else none.
    pub(super) fn open(
        options: &PlanArgs,
        identity: &Identity,
    ) -> Result<(Self, Vec<Event>), Failure> {
        let path = options.out.join(FILE);
        let failed = |e: &std::io::Error| output_failure(&path, e);
        std::fs::create_dir_all(&options.out).map_err(|e| output_failure(&options.out, &e))?;
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(|e| failed(&e))?;
        let doubt = lock(&file, &path, &options.out)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|e| failed(&e))?;
        // A line without an end was being written when the machine or the program died.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let known = match options.force {
            true => Vec::new(),
            false => parse(&text[..whole]).map_err(|e| input_failure(&path, &e))?,
        };
        let was_done = matches!(known.last(), Some(Event::PlanDone { .. }));
        let events = continued(known, identity).map_err(|difference| {
            Failure::Usage(format!(
                "{} is of a plan that did not end: {difference}; choose another --out, or --force \
                 to begin anew",
                path.display()
            ))
        })?;
        let is_asked_for = options.given.has("out") || options.out != Path::new(DEFAULT_OUT);
        if was_done && events.is_empty() && !is_asked_for {
            // Nobody has asked for this folder, and it may hold the only results of a long
            // measurement.
            return Err(Failure::Usage(format!(
                "{DEFAULT_OUT} holds the result of a plan that is done: name another folder with --out, or \
                 --force to measure it again"
            )));
        }
        file.set_len(if events.is_empty() { 0 } else { whole as u64 }).map_err(|e| failed(&e))?;
        file.seek(SeekFrom::End(0)).map_err(|e| failed(&e))?;
        Ok((Self { file, path, doubt }, events))
    }

    /// Appends a line, which is on the disk when this returns. A line that cannot be written whole
    /// is removed, because the lines behind it would not be read.
    pub(super) fn add(&mut self, event: &Event) -> Result<(), Failure> {
        let mut line = serde_json::to_string(event)
            .map_err(|e| Failure::Check(format!("cannot encode an event: {e}")))?;
        line.push('\n');
        let len = self.file.metadata().map_err(|e| output_failure(&self.path, &e))?.len();
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            // Truncating needs no room.
            let _ = self.file.set_len(len);
            output_failure(&self.path, &error)
        })
    }

    pub(super) fn start(&mut self, identity: &Identity) -> Result<(), Failure> {
        self.add(&Event::PlanStarted {
            schema: SCHEMA.to_owned(),
            tool: format!("efa-bench {}", env!("CARGO_PKG_VERSION")),
            date: host::date(),
            identity: identity.clone(),
        })
    }
}

/// The reason why the file cannot be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unlocked {
    /// Another process has locked it.
    Taken,
    /// The file system has no locks.
    Unlockable,
    Broken,
}

impl Unlocked {
    fn of(error: Errno) -> Self {
        match error {
            Errno::WOULDBLOCK => Self::Taken,
            // The last one is that of an NFS mount without a lock service.
            Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK => Self::Unlockable,
            _ => Self::Broken,
        }
    }
}

/// Locks the file for this process; returns a warning if nobody can lock it.
fn lock(file: &File, path: &Path, out: &Path) -> Result<Option<String>, Failure> {
    let Err(error) = flock(file, FlockOperation::NonBlockingLockExclusive) else { return Ok(None) };
    let out = out.display();
    match Unlocked::of(error) {
        Unlocked::Taken => Err(Failure::Usage(format!(
            "another efa-bench is writing to {out}: wait for it, or choose another --out"
        ))),
        Unlocked::Unlockable => Ok(Some(format!(
            "the file system of {out} locks no files ({}): see to it that no other efa-bench \
             writes there",
            plain(&error.into())
        ))),
        Unlocked::Broken => Err(output_failure(path, &error.into())),
    }
}

fn output_failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Output { path: path.display().to_string(), reason: plain(error) }
}

fn input_failure(path: &Path, reason: &str) -> Failure {
    let reason = format!("{reason}; remove it, or begin anew with --force");
    Failure::Input { path: path.display().to_string(), reason }
}

fn parse(text: &[u8]) -> Result<Vec<Event>, String> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.enumerate().map(|(number, line)| {
        serde_json::from_slice(line).map_err(|e| format!("line {} is damaged ({e})", number + 1))
    });
    let events: Vec<Event> = events.collect::<Result<_, _>>()?;
    match events.first() {
        Some(Event::PlanStarted { schema, .. }) if schema != SCHEMA => {
            Err(format!("its schema is {schema}, this efa-bench writes {SCHEMA}"))
        }
        Some(Event::PlanStarted { .. }) | None => Ok(events),
        Some(_) => Err("it does not begin with plan_started".to_owned()),
    }
}

/// Returns the events that a plan of this identity goes on from. A plan that came to its end with
/// nothing left to do is measured again.
fn continued(events: Vec<Event>, ours: &Identity) -> Result<Vec<Event>, String> {
    let Some(Event::PlanStarted { identity, .. }) = events.first() else { return Ok(Vec::new()) };
    let is_over = matches!(events.last(), Some(Event::PlanDone { .. }));
    let is_complete = matches!(events.last(), Some(Event::PlanDone { failures: 0, .. }));
    match ours.difference(identity) {
        None if is_complete => Ok(Vec::new()),
        None => Ok(events),
        // The plan of the same name has changed since: its results are replaced, as ever.
        Some(_) if is_over && identity.plan == ours.plan => Ok(Vec::new()),
        Some(difference) => Err(difference),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(plan: &str, steps: &[&str]) -> Identity {
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        Identity { plan: plan.to_owned(), scale: 1.0, target: None, host: None, steps }
    }

    fn events(identity: &Identity, rest: &[Event]) -> Vec<Event> {
        let (tool, date) = (String::new(), String::new());
        let schema = SCHEMA.to_owned();
        let first = Event::PlanStarted { schema, tool, date, identity: identity.clone() };
        [&[first], rest].concat()
    }

    fn over(failures: usize) -> Event {
        Event::PlanDone { date: String::new(), failures }
    }

    #[test]
    fn an_unfinished_plan_goes_on_and_another_one_is_refused() {
        let ours = identity("a", &["x", "y"]);
        let begun = Event::StepStarted { step: 0, date: String::new() };
        let found = |rest: &[Event], now: &Identity| {
            continued(events(&ours, rest), now).map(|events| events.len())
        };
        assert_eq!(found(std::slice::from_ref(&begun), &ours), Ok(2));
        assert_eq!(found(&[begun.clone(), over(1)], &ours), Ok(3));
        assert_eq!(found(&[begun.clone(), over(0)], &ours), Ok(0));
        let other = identity("a", &["x", "z"]);
        assert!(
            found(std::slice::from_ref(&begun), &other)
                .is_err_and(|e| e.contains("`y` in place of `z`"))
        );
        assert_eq!(found(&[begun.clone(), over(1)], &other), Ok(0));
        let longer = identity("a", &["x", "y", "z"]);
        assert!(found(&[], &longer).is_err_and(|e| e.contains("2 steps, not 3")));
        let foreign = identity("b", &["x", "y"]);
        assert!(found(&[over(0)], &foreign).is_err_and(|e| e.contains("plan a")));
        let shorter = Identity { scale: 0.5, ..ours.clone() };
        assert!(found(&[], &shorter).is_err_and(|e| e.contains("--scale 1")));
        let far = Identity { target: Some("db1:7".to_owned()), ..ours.clone() };
        let error = found(std::slice::from_ref(&begun), &far).expect_err("another target");
        assert!(error.contains("on this machine, not against db1:7"), "{error}");
        let farther = Identity { target: Some("db2:7".to_owned()), ..far.clone() };
        let goes_on = continued(events(&far, &[]), &farther).map(|events| events.len());
        assert!(goes_on.is_err_and(|e| e.contains("against db1:7, not against db2:7")));
        // A journal of an older version names no target.
        let older = r#"{"plan":"a","scale":1.0,"steps":["x","y"]}"#;
        assert_eq!(serde_json::from_str::<Identity>(older).expect("an identity"), ours);
        assert_eq!(continued(Vec::new(), &ours).map(|events| events.len()), Ok(0));
    }

    /// The blocks of two machines are two measurements.
    #[test]
    fn a_plan_that_another_machine_began_does_not_go_on() {
        let machine = |name: &str, cores| {
            Some(Machine { name: name.to_owned(), cpu: "EPYC".to_owned(), cores })
        };
        let on = |host| Identity { host, ..identity("a", &["x"]) };
        let ours = on(machine("db2", 8));
        let found = |theirs: &Identity| continued(events(theirs, &[]), &ours).map(|own| own.len());
        assert_eq!(found(&ours), Ok(1));
        let error = found(&on(machine("db1", 64))).expect_err("another machine");
        assert_eq!(error, "it was measured on db1 (EPYC, 64 cores), this is db2 (EPYC, 8 cores)");
        assert!(found(&on(machine("db2", 4))).is_err(), "fewer cores");
        let text = serde_json::to_string(&ours).expect("JSON");
        assert_eq!(serde_json::from_str::<Identity>(&text).expect("an identity"), ours);
        // A journal of an older version names no machine.
        assert_eq!(found(&on(None)), Ok(1));
    }

    /// Other errors do not mean that another efa-bench is writing.
    #[test]
    fn only_a_lock_that_others_have_is_taken() {
        for (error, meaning) in [
            (Errno::WOULDBLOCK, Unlocked::Taken),
            (Errno::AGAIN, Unlocked::Taken),
            (Errno::NOSYS, Unlocked::Unlockable),
            (Errno::OPNOTSUPP, Unlocked::Unlockable),
            (Errno::NOLCK, Unlocked::Unlockable),
            (Errno::IO, Unlocked::Broken),
            (Errno::BADF, Unlocked::Broken),
        ] {
            assert_eq!(Unlocked::of(error), meaning, "{error:?}");
        }
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_a_damaged_one_refused() {
        let folder = tempfile::tempdir().expect("tempdir");
        let ours = identity("a", &["x"]);
        let options = |force| {
            let out = folder.path().to_owned();
            PlanArgs { out, force, ..PlanArgs::for_tests() }
        };
        let (mut journal, events) = Journal::open(&options(false), &ours).expect("new");
        assert!(events.is_empty());
        journal.start(&ours).expect("start");
        assert!(
            Journal::open(&options(false), &ours)
                .is_err_and(|e| e.to_string().contains("another efa-bench"))
        );
        journal.file.write_all(b"{\"event\":\"warn").expect("torn");
        drop(journal);
        let (mut journal, events) = Journal::open(&options(false), &ours).expect("again");
        assert_eq!(events.len(), 1);
        journal.add(&Event::Warning { text: "w".to_owned() }).expect("add");
        drop(journal);
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!(text.lines().count(), 2, "{text}");
        std::fs::write(&path, format!("{text}{{}}\n{text}")).expect("write");
        let damaged = Journal::open(&options(false), &ours).err().expect("refused").to_string();
        assert!(damaged.contains("line 3 is damaged"), "{damaged}");
        assert!(Journal::open(&options(true), &ours).is_ok_and(|(_, events)| events.is_empty()));
    }
}
