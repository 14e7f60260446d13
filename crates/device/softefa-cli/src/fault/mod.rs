//! `softefa fault`: changes the faults of programs while they run.

mod script;
mod show;
mod target;

use std::io::{self, Write, stdout};
use std::net::IpAddr;

use serde_json::{Value, json};
use softefa::counters::ProcessCounters;
use softefa::fault::{self as nic_fault, FaultSpec, TimedFault};

use crate::args::{self, FaultAction, FaultRunArgs, FaultSetArgs};
use crate::failure::Failure;
use crate::process;
use crate::run_dir::LiveRun;

pub(crate) use script::read as read_script;
pub(crate) use show::in_force_text;
pub(crate) use target::Target;

/// Runs the command.
///
/// # Errors
/// See [`Failure`]: one line; nothing has changed then.
pub(crate) fn fault(action: &FaultAction) -> Result<u8, Failure> {
    let text = match action {
        FaultAction::Set(args) => set(args)?,
        FaultAction::Clear(args) => clear(&args.runs)?,
        FaultAction::Show(args) => {
            let target = Target::find(&args.runs);
            match target {
                // For a reader of the JSON, a list without runs is a result, too.
                Err(_) if args.runs.json && args.runs.run.is_none() => show::to_json(&[]),
                target if args.runs.json => show::to_json(target?.runs()),
                target => show::to_text(target?.runs()),
            }
        }
    };
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}")))
        }
        _ => Ok(0),
    }
}

/// A request for faults.
#[derive(Debug, Clone)]
pub(crate) struct FaultRequest {
    spec: FaultSpec,
    device: Option<String>,
    peer: Option<IpAddr>,
    for_ns: Option<u64>,
}

impl FaultRequest {
    /// Returns a fault of all devices and peers, without an end.
    ///
    /// # Errors
    /// The specification is invalid, or cannot be set now.
    pub(crate) fn new(spec: &str) -> Result<Self, Failure> {
        let spec = TimedFault::parse_spec(spec)?;
        Ok(Self { spec, device: None, peer: None, for_ns: None })
    }

    /// Sets the start to now.
    fn begin(&self) -> TimedFault {
        let Self { spec, device, peer, for_ns } = self.clone();
        TimedFault { spec, device, peer, from_ns: nic_fault::now_ns(), for_ns }
    }

    fn to_json(&self) -> Value {
        json!({
            "spec": TimedFault::format_spec(&self.spec),
            "device": self.device,
            "peer": self.peer.map(|peer| peer.to_string()),
            "for_ns": self.for_ns,
        })
    }
}

fn set(args: &FaultSetArgs) -> Result<String, Failure> {
    let for_ns = args.duration.as_deref().map(TimedFault::parse_time).transpose()?;
    if for_ns == Some(0) {
        return Err(Failure::new("--for 0: the fault would be over at once; write for example 3s"));
    }
    let (device, peer) = (args.device.clone(), args.peer);
    let request = FaultRequest { device, peer, for_ns, ..FaultRequest::new(&args.spec.join(","))? };
    let told = Target::find(&args.runs)?.set(Some(&request))?;
    if args.runs.json {
        let mut document = request.to_json();
        document["runs"] = told.iter().map(told_json).collect();
        return Ok(format!("{document:#}\n"));
    }
    let spec = TimedFault::format_spec(&request.spec);
    let end = args.duration.as_ref().map(|time| format!(" for {time}")).unwrap_or_default();
    Ok(told.iter().map(|told| format!("{}: {spec}{end}\n", told_line(told))).collect())
}

fn clear(args: &FaultRunArgs) -> Result<String, Failure> {
    let told = Target::find(args)?.set(None)?;
    if args.json {
        let runs: Vec<Value> = told.iter().map(told_json).collect();
        return Ok(format!("{:#}\n", json!({ "runs": runs })));
    }
    Ok(told.iter().map(|told| format!("{}: cleared\n", told_line(told))).collect())
}

/// Sets the fault in the words of a line, like the command; returns one line about the result.
pub(crate) fn set_line(line: &str) -> String {
    let done = args::parse_fault_set(line).and_then(|args| set(&args));
    last_line(done)
}

/// Clears the set faults everywhere, like the command; returns one line about the result.
pub(crate) fn clear_line() -> String {
    last_line(clear(&FaultRunArgs::default()))
}

fn last_line(done: Result<String, Failure>) -> String {
    match done {
        Ok(text) => text.trim_end().replace('\n', "; "),
        Err(failure) => failure.to_string(),
    }
}

/// A run and those of its devices that have read the fault.
pub(crate) type Reached = (LiveRun, Vec<ProcessCounters>);

fn told_json((run, devices): &Reached) -> Value {
    let devices: Vec<Value> = devices.iter().map(device_json).collect();
    let mut document = run_json(run);
    document["devices"] = devices.into();
    document
}

fn run_json(run: &LiveRun) -> Value {
    json!({ "run": run.path, "pid": run.pid(), "program": run.program })
}

fn device_json(device: &ProcessCounters) -> Value {
    json!({
        "device": device.device,
        "pid": device.pid,
        "program": process::name(device.pid),
    })
}

/// Returns the description of a run in a line.
fn run_line(run: &LiveRun) -> String {
    format!("run {} ({})", run.pid(), run.program)
}

fn told_line((run, devices): &Reached) -> String {
    let count = devices.len();
    let devices = match count {
        0 => "no device open yet".to_owned(),
        1 => "1 device".to_owned(),
        _ => format!("{count} devices"),
    };
    format!("{}, {devices}", run_line(run))
}
