//! Chooses the fault in force: one of a command, of a script, or of the start of the run. The first
//! of these sources that has one replaces the others completely.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use srd::Instant;

use super::files;
use super::{FaultSpec, TimedFault};
use crate::counters::{Counters, FaultSource};
use crate::host;
use crate::say::say;
use crate::uncancelled::Uncancelled;

/// The time after which a command that could not be read is read again, because descriptors may
/// have run out.
const RETRY_NS: u64 = 100_000_000;

/// A fault in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InForce {
    pub(crate) spec: FaultSpec,
    /// The address of the only peer it is for.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) source: FaultSource,
    /// The time at which it began.
    pub(crate) from: Instant,
}

/// Returns the fault that `device` of the run in `run_dir` has to deal now, and its origin. The
/// device itself may still publish another one, because it takes over a fault when it next sends.
/// Times are on the clock of [`now_ns`](super::now_ns).
///
/// # Errors
/// A file exists and cannot be used.
pub fn in_force(run_dir: &Path, device: &str) -> io::Result<(TimedFault, FaultSource)> {
    let now = host::now();
    let is_for = |fault: &TimedFault| fault.is_for(device);
    let command = files::asked(run_dir)?.filter(is_for);
    let mut script = Vec::new();
    if let Some(begin) = files::begun(run_dir)? {
        script = steps_of(files::script(run_dir)?, device, begin);
    }
    let (found, _) = at(command.as_slice(), now);
    if let Some(fault) = found {
        return Ok((fault.clone(), FaultSource::Command));
    }
    if let (Some(fault), _) = at(&script, now) {
        return Ok((fault.clone(), FaultSource::Script));
    }
    let spec = files::start(run_dir)?;
    let start = TimedFault { spec, device: None, peer: None, from_ns: 0, for_ns: None };
    Ok((start, FaultSource::Start))
}

/// Returns the steps of `script` that are for `device`, in absolute times.
fn steps_of(mut script: Vec<TimedFault>, device: &str, begin: Instant) -> Vec<TimedFault> {
    script.retain(|step| step.is_for(device));
    for step in &mut script {
        step.from_ns = begin.plus_ns(step.from_ns).as_ns();
    }
    script
}

/// The result of a queue pair's last look at [`FaultControl`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    changes: u64,
    /// The time at which a fault begins or ends next.
    next: Instant,
}

/// The faults of a device of this process.
#[derive(Debug)]
pub(crate) struct FaultControl {
    /// `None` if no fault can be requested.
    run_dir: Option<PathBuf>,
    device: String,
    start: InForce,
    plan: Mutex<Plan>,
}

/// The faults that are requested for this device, in absolute times.
#[derive(Debug, Default)]
struct Plan {
    /// The number of changes when the command was read last; `None` before that.
    read_at: Option<u64>,
    command: Option<TimedFault>,
    script: Vec<TimedFault>,
    /// The latest time of a look, because queue pairs read their clocks one after the other.
    latest: Instant,
    /// The fault that was found in force last, by source and time.
    told: Option<(FaultSource, Instant)>,
    has_complained: bool,
}

impl FaultControl {
    /// Controls the faults of `device`, which is opened now with `spec`. `counters` are those of
    /// the device.
    pub(crate) fn new(
        run_dir: Option<&Path>,
        device: &str,
        spec: FaultSpec,
        opened: Instant,
        counters: &Counters,
    ) -> Self {
        let start = InForce { spec, peer: None, source: FaultSource::Start, from: opened };
        // The number is read before the files, so that a later change is noticed once more.
        let changes = counters.faults().changes();
        let mut plan = Plan::default();
        if let Some(run_dir) = run_dir {
            plan.read_script(run_dir, device, opened);
            plan.read_command(run_dir, device, changes);
        }
        let (run_dir, device) = (run_dir.map(Path::to_path_buf), device.to_owned());
        Self { run_dir, device, start, plan: Mutex::new(plan) }
    }

    /// Returns true if a queue pair that has `seen` that must look again. It takes one load and two
    /// comparisons.
    #[inline]
    pub(crate) fn is_due(seen: Seen, now: Instant, counters: &Counters) -> bool {
        counters.faults().changes() != seen.changes || now >= seen.next
    }

    /// Returns the fault in force at `now`, and until when it need not be asked for again.
    #[cold]
    pub(crate) fn poll(&self, now: Instant, counters: &Counters) -> (InForce, Seen) {
        // Opening a file is a cancellation point, at which a cancelled thread would end.
        let _uncancelled = Uncancelled::begin();
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = counters.faults().changes();
        let mut is_read = true;
        if let Some(run_dir) = self.run_dir.as_ref().filter(|_| plan.read_at != Some(changes)) {
            is_read = plan.read_command(run_dir, &self.device, changes);
        }
        plan.latest = plan.latest.max(now);
        let (in_force, mut next) = plan.at(plan.latest, &self.start);
        if !is_read {
            next = next.min(plan.latest.plus_ns(RETRY_NS));
        }
        let told = (in_force.source, in_force.from);
        if plan.told != Some(told) {
            plan.told = Some(told);
            counters.faults().set(in_force.source, in_force.from.as_ns(), counters.dealt());
        }
        (in_force, Seen { changes, next })
    }
}

impl Plan {
    /// Reads the command after so many `changes`; returns true if that was possible.
    fn read_command(&mut self, run_dir: &Path, device: &str, changes: u64) -> bool {
        match files::asked(run_dir) {
            Ok(asked) => {
                self.command = asked.filter(|fault| fault.is_for(device));
                self.read_at = Some(changes);
                true
            }
            Err(error) => {
                self.complain(device, "a command", &error);
                false
            }
        }
    }

    fn read_script(&mut self, run_dir: &Path, device: &str, now: Instant) {
        let steps = files::script(run_dir).and_then(|steps| {
            let begin = if steps.is_empty() { now } else { files::begin(run_dir, now)? };
            Ok((steps, begin))
        });
        match steps {
            Ok((steps, begin)) => self.script = steps_of(steps, device, begin),
            Err(error) => self.complain(device, "a script", &error),
        }
    }

    /// Complains once only, because a user who can write such files can do so again and again.
    fn complain(&mut self, device: &str, whose: &str, error: &io::Error) {
        if !std::mem::replace(&mut self.has_complained, true) {
            say(&format!(
                "softefa: device {device}: faults of {whose} are not used, because their file cannot be: {error}"
            ));
        }
    }

    /// Returns the fault in force at `now`, and when it may change by itself.
    fn at(&self, now: Instant, start: &InForce) -> (InForce, Instant) {
        let mut next = Instant::FAR;
        let (command, change) = at(self.command.as_slice(), now);
        next = next.min(change);
        let (step, change) = at(&self.script, now);
        next = next.min(change);
        let of = |fault: &TimedFault, source| InForce {
            spec: fault.spec.clone(),
            peer: fault.peer,
            source,
            from: Instant::from_ns(fault.from_ns),
        };
        let by_command = command.map(|fault| of(fault, FaultSource::Command));
        let in_force = by_command.or_else(|| step.map(|fault| of(fault, FaultSource::Script)));
        (in_force.unwrap_or_else(|| start.clone()), next)
    }
}

/// Returns the last of `faults`, which are in the order of time, that has begun, unless it is over;
/// and when that changes.
fn at(faults: &[TimedFault], now: Instant) -> (Option<&TimedFault>, Instant) {
    let begun = faults.partition_point(|fault| fault.from_ns <= now.as_ns());
    let far = Instant::FAR.as_ns();
    let mut next = faults.get(begun).map_or(far, |fault| fault.from_ns);
    let last = begun.checked_sub(1).map(|last| &faults[last]);
    let last = last.filter(|fault| fault.until_ns().is_none_or(|until| until > now.as_ns()));
    next = next.min(last.and_then(TimedFault::until_ns).unwrap_or(far));
    (last, Instant::from_ns(next))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn fault(spec: &str, from_ns: u64, for_ns: Option<u64>) -> TimedFault {
        let spec = TimedFault::parse_spec(spec).unwrap();
        TimedFault { spec, device: None, peer: None, from_ns, for_ns }
    }

    fn open(dir: &Path, device: &str, start: &str, counters: &Counters) -> FaultControl {
        FaultControl::new(
            Some(dir),
            device,
            start.parse().unwrap(),
            Instant::from_ns(1_000),
            counters,
        )
    }

    /// Returns the fault in force at each of `times`, and when it changes next.
    fn course(live: &FaultControl, counters: &Counters, times: &[u64]) -> Vec<(String, u64)> {
        let at = |ns: &u64| {
            let (found, seen) = live.poll(Instant::from_ns(*ns), counters);
            (TimedFault::format_spec(&found.spec), seen.next.as_ns())
        };
        times.iter().map(at).collect()
    }

    fn said(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter().map(|(spec, next)| ((*spec).to_owned(), *next)).collect()
    }

    #[test]
    fn a_command_stands_above_a_script_above_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::private();
        let steps = [fault("dup=1%", 100, None), fault("rnr=1%", 200, Some(50))];
        files::set_script(dir.path(), &steps).unwrap();
        let live = open(dir.path(), "a", "loss=1%", &counters);
        let times = [1_000, 1_100, 1_200, 1_249, 1_250];
        assert_eq!(
            course(&live, &counters, &times),
            said(&[
                ("loss=1%,seed=0", 1_100),
                ("dup=1%,seed=0", 1_200),
                ("rnr=1%,seed=0", 1_250),
                ("rnr=1%,seed=0", 1_250),
                ("loss=1%,seed=0", u64::MAX),
            ])
        );
        files::set(dir.path(), Some(&fault("none", 1_120, Some(100)))).unwrap();
        // Another device of the process, opened later, counts from the same beginning and knows the
        // command at once.
        let other = FaultControl::new(
            Some(dir.path()),
            "b",
            FaultSpec::default(),
            Instant::from_ns(9_000),
            &counters,
        );
        assert_eq!(
            course(&other, &counters, &[1_110, 1_120, 1_220]),
            said(&[("dup=1%,seed=0", 1_120), ("none", 1_200), ("rnr=1%,seed=0", 1_250)])
        );
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let addr = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (counters, _) = Counters::in_dir(dir.path(), "a", addr).unwrap();
        let live = open(dir.path(), "a", "", &counters);
        let (found, seen) = live.poll(Instant::from_ns(1), &counters);
        assert!(!found.spec.is_active());
        files::set(dir.path(), Some(&fault("loss=5%", 1, None))).unwrap();
        assert!(FaultControl::is_due(seen, Instant::from_ns(1), &counters), "not told");
        let loss = said(&[("loss=5%,seed=0", u64::MAX)]);
        assert_eq!(course(&live, &counters, &[2]), loss);
        std::fs::write(dir.path().join("fault/command"), "softefa-fault 1\nfrom=1").unwrap();
        let all = crate::counters::read_dir(dir.path()).unwrap();
        crate::counters::announce_faults(dir.path(), &all[0]).unwrap();
        let later = said(&[("loss=5%,seed=0", 2 + RETRY_NS)]);
        assert_eq!(course(&live, &counters, &[2]), later);
        assert_eq!(all[0].faults.source, FaultSource::Command);
        files::set(dir.path(), None).unwrap();
        assert_eq!(course(&live, &counters, &[2]), said(&[("none", u64::MAX)]));
    }

    /// A command that could not be read is read again, not only when the next one comes.
    #[test]
    fn what_could_not_be_read_is_read_later() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::private();
        files::set(dir.path(), Some(&fault("loss=5%", 1, None))).unwrap();
        let (file, aside) = (dir.path().join("fault/command"), dir.path().join("aside"));
        std::fs::rename(&file, &aside).unwrap();
        std::fs::create_dir(&file).unwrap();
        let live = open(dir.path(), "a", "", &counters);
        let (found, seen) = live.poll(Instant::from_ns(2), &counters);
        assert!(!found.spec.is_active());
        let is_due = |ns| FaultControl::is_due(seen, Instant::from_ns(ns), &counters);
        assert!(is_due(2 + RETRY_NS) && !is_due(1 + RETRY_NS), "it is read in each turn, or never");
        std::fs::remove_dir(&file).unwrap();
        std::fs::rename(&aside, &file).unwrap();
        let loss = said(&[("loss=5%,seed=0", u64::MAX)]);
        assert_eq!(course(&live, &counters, &[2 + RETRY_NS]), loss);
    }

    #[test]
    fn a_device_is_not_hit_by_what_is_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::private();
        let for_b = TimedFault { device: Some("b".into()), ..fault("loss=5%", 1, None) };
        files::set(dir.path(), Some(&for_b)).unwrap();
        let spec = |device| {
            let live = open(dir.path(), device, "", &counters);
            live.poll(Instant::from_ns(2), &counters).0.spec
        };
        assert!(!spec("a").is_active() && spec("b").is_active());
    }
}
