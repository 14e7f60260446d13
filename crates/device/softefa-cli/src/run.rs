//! `softefa run`: prepares a run, starts its program, waits for it, and collects the results.

use std::path::Path;
use std::process::ExitStatus;

use softefa::fault::{self as nic_fault, TimedFault};
use softefa::hw_counters::HwCounters;
use softefa::trace::TraceSpec;
use softefa::{Config, WireChoice, counters as nic_counters, sysfs};

use crate::args::RunArgs;
use crate::counters::{self, Output};
use crate::eprint::eprint_line;
use crate::failure::Failure;
use crate::fault;
use crate::pcap::{Recorder, Recording};
use crate::publish::Publisher;
use crate::run_dir::{RunDir, programs};
use crate::supervise::{self, Supervisor};
use crate::{devices, launch, library, outputs, program};

/// Runs the program, and returns its exit code, or dies of the signal of the keyboard that ended
/// it.
///
/// # Errors
/// See [`Failure`]: one line and an exit code.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let status = start_and_wait(args)?;
    supervise::die_likewise(status);
    Ok(supervise::exit_code(status))
}

/// Checks all options before the program starts, and runs it. The directory of the run is gone when
/// this returns, unless it is kept or programs still use it.
fn start_and_wait(args: &RunArgs) -> Result<ExitStatus, Failure> {
    let mut config = devices::config(&args.device, Config::from_user()?)?;
    if let Some(target) = &args.trace {
        config.trace = Some(TraceSpec::new(target, args.trace_events.as_deref())?);
    }
    outputs::check(args, &config)?;
    choose_wire(args, &mut config)?;
    let script = args.fault_script.as_deref();
    let steps = script.map(|path| fault::read_script(path, &config)).transpose()?;
    devices::check_gateways(&config)?;
    devices::warn_of_exposure(config.key.as_ref());
    let name = args.program.first().map(|word| word.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    args.program.first().map(|word| program::find(word)).transpose()?;
    let library = library::find(args.library.as_deref())?;
    let replacements = library::replacements(&library, args.replace_verbs)?;
    let output = args.counters.as_deref().map(Output::open).transpose()?;
    let recording = args.pcap.as_deref().map(Recording::open).transpose()?;
    let run = RunDir::create(args.keep)?;
    config.strict |= args.strict;
    config.lint |= args.lint;
    config.send_at_once |= args.send_at_once;
    config.local_key = (config.wire != WireChoice::Udp).then(|| run.local_key());
    config.capture_bytes = args.pcap.is_some().then_some(args.snaplen);
    let hw_counters = prepare(&mut config, &run)?;
    note_faults(&config, steps.as_deref(), &run)?;
    run.announce(&name).map_err(|error| {
        let run = run.path().display();
        Failure::of_machine(format!("cannot write in {run}: {error}; is the disk full?"))
    })?;

    let mut command = launch::command(&args.program, &config, &run)?;
    launch::preload(&mut command, &library, replacements.as_deref(), &run)?;
    let supervisor = Supervisor::new()?;
    let recorder = recording.map(|file| file.start(run.path(), args.snaplen)).transpose()?;
    let publisher = Publisher::start(hw_counters, run.path())?;
    let child = launch::spawn(&mut command)?;
    let status = supervisor.wait(&child)?;
    // Writing may block from now on, until a reader reads.
    supervise::end_by_signals()?;
    publisher.finish();
    let recorded = recorder.map_or(Ok(()), Recorder::finish);

    if let Some(line) = supervise::death_message(&name, status) {
        eprint_line!("softefa: {line}");
    }
    for result in [recorded, collect(args, run.path(), output)] {
        match result {
            Err(failure) if !status.success() => eprint_line!("softefa: {failure}"),
            result => result?,
        }
    }
    let going_on = programs::with_devices(run.path());
    if !going_on.is_empty() {
        eprint_line!(
            "softefa: {}; counters and captures end here",
            programs::still_running(&going_on)
        );
    }
    if args.keep {
        eprint_line!("softefa: run directory kept: {}", run.path().display());
    }
    Ok(status)
}

/// Sets the wire for packets on this machine by the options; it is tried before the program relies
/// on it.
fn choose_wire(args: &RunArgs, config: &mut Config) -> Result<(), Failure> {
    if let Some(wire) = &args.wire {
        config.wire = wire.parse()?;
    }
    if args.wire_only {
        config.wire = WireChoice::Udp;
    }
    if config.wire == WireChoice::Shm {
        softefa::check_shared_memory().map_err(|error| {
            Failure::of_machine(format!(
                "--wire shm: memory cannot be shared with other programs here ({error}); --wire auto takes UDP where it must"
            ))
        })?;
    }
    Ok(())
}

fn prepare(config: &mut Config, run: &RunDir) -> Result<HwCounters, Failure> {
    config.run_dir = Some(run.path().to_path_buf());
    let tree = sysfs::create(&run.sysfs(), config);
    tree.and_then(|()| HwCounters::create(&run.sysfs(), config)).map_err(|error| {
        Failure::of_machine(format!(
            "cannot write the device tree in {}: {error}; is the disk full?",
            run.path().display()
        ))
    })
}

/// Records the faults that the programs of the run must deal, and their times.
fn note_faults(config: &Config, steps: Option<&[TimedFault]>, run: &RunDir) -> Result<(), Failure> {
    let start = nic_fault::set_start(run.path(), &config.faults);
    let noted = start.and_then(|()| steps.map_or(Ok(()), |s| nic_fault::set_script(run.path(), s)));
    noted.map_err(|error| {
        let run = run.path().display();
        Failure::new(format!("cannot write faults in {run}: {error}; is the disk full?"))
    })
}

/// Writes and prints the counters of the run's processes.
fn collect(args: &RunArgs, run_dir: &Path, output: Option<Output>) -> Result<(), Failure> {
    if output.is_none() && !args.stats {
        return Ok(());
    }
    let failed =
        |error| Failure::new(format!("counters in {} cannot be read: {error}", run_dir.display()));
    let processes = nic_counters::read_dir(run_dir).map_err(failed)?;
    let foreign = nic_counters::count_foreign(run_dir).map_err(failed)?;
    if foreign > 0 {
        eprint_line!(
            "softefa: the counters of {foreign} device(s) of this run are missing: the adapter library is of another build than this program; build both, or check --library and SOFTEFA_LIBRARY"
        );
    }
    if args.stats {
        if processes.is_empty() && foreign == 0 {
            match &programs::all(run_dir)[..] {
                [] => eprint_line!("softefa: no process of this run opened a device"),
                going_on => eprint_line!(
                    "softefa: no process of this run opened a device so far; {}",
                    programs::still_running(going_on)
                ),
            }
        }
        for line in counters::to_lines(&processes) {
            eprint_line!("softefa: {line}");
        }
    }
    output.map_or(Ok(()), |output| output.write(&counters::to_json(&processes)))
}
