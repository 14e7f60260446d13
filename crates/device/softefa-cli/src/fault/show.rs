//! The faults in force: the devices that they are on, their times, and their effects.

use serde_json::{Map, Value, json};
use softefa::counters::{self, Counter, FaultSource, ProcessCounters};
use softefa::fault::{self as nic_fault, TimedFault};

use super::{device_json, run_json, run_line};
use crate::process;
use crate::run_dir::LiveRun;

/// The faults of a device, and the counters that it reports.
pub(crate) struct DeviceFault {
    device: ProcessCounters,
    fault: TimedFault,
    source: FaultSource,
}

impl DeviceFault {
    /// Returns the faults of each device that is open in a process of `run`; devices whose files
    /// cannot be read are left out.
    fn all(run: &LiveRun) -> Vec<Self> {
        let all = counters::read_dir(&run.path).unwrap_or_default();
        let row = |device: ProcessCounters| {
            let (fault, source) = nic_fault::in_force(&run.path, &device.device).ok()?;
            Some(Self { device, fault, source })
        };
        all.into_iter().filter(ProcessCounters::is_running).filter_map(row).collect()
    }

    /// Returns whether the device has applied it: a new fault takes effect with the next send.
    fn is_taken(&self) -> bool {
        let said = &self.device.faults;
        let is_start = self.source == FaultSource::Start;
        said.source == self.source && (is_start || said.from_ns == self.fault.from_ns)
    }

    fn remaining_ns(&self) -> Option<u64> {
        let until = self.fault.until_ns()?;
        Some(until.saturating_sub(nic_fault::now_ns()))
    }

    fn dealt(&self) -> Vec<(&'static str, u64)> {
        let all = self.device.faults.dealt(|counter: Counter| self.device.get(counter));
        if self.is_taken() { all } else { all.into_iter().map(|(name, _)| (name, 0)).collect() }
    }

    fn to_json(&self) -> Value {
        let mut document = device_json(&self.device);
        let dealt: Map<String, Value> =
            self.dealt().into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        document["spec"] = json!(TimedFault::format_spec(&self.fault.spec));
        document["source"] = json!(self.source.name());
        document["peer"] = json!(self.fault.peer.map(|peer| peer.to_string()));
        document["remaining_ns"] = json!(self.remaining_ns());
        document["is_taken"] = json!(self.is_taken());
        document["since_unix_ns"] =
            json!(self.is_taken().then_some(self.device.faults.since_epoch_ns));
        document["dealt"] = dealt.into();
        document
    }

    fn to_line(&self) -> String {
        let Self { device, fault, source } = self;
        let mut line = format!(
            "  {} pid {} {}: {}",
            device.device,
            device.pid,
            process::name(device.pid),
            TimedFault::format_spec(&fault.spec)
        );
        line += match source {
            FaultSource::Start if !fault.spec.is_active() => "",
            FaultSource::Start => " by --fault",
            FaultSource::Script => " by --fault-script",
            FaultSource::Command => " by softefa fault set",
        };
        if let Some(peer) = fault.peer {
            line += &format!(", for peer {peer}");
        }
        if let Some(ns) = self.remaining_ns() {
            line += &format!(", {:.1} s left", ns as f64 / 1e9);
        }
        if !self.is_taken() {
            line += ", from its next send on";
        }
        let dealt = self.dealt();
        for (name, count) in dealt.into_iter().filter(|(_, count)| *count > 0) {
            line += &format!(", {name} {count}");
        }
        line
    }
}

/// Returns a short description of what is in force on `device` of `run`; empty when nothing is.
pub(crate) fn in_force_text(run: &LiveRun, device: &str) -> String {
    let Ok((fault, _)) = nic_fault::in_force(&run.path, device) else { return String::new() };
    if !fault.spec.is_active() {
        return String::new();
    }
    let mut text = fault.spec.to_string();
    if let Some(short) = text.strip_suffix(",seed=0") {
        text.truncate(short.len());
    }
    if let Some(peer) = fault.peer {
        text += &format!(" to {peer}");
    }
    if let Some(until) = fault.until_ns() {
        text += &format!(", {:.1} s left", until.saturating_sub(nic_fault::now_ns()) as f64 / 1e9);
    }
    text
}

/// Returns `{"runs": [{"run", "pid", "program", "command", "script", "devices": [..]}..]}`.
pub(super) fn to_json(runs: &[LiveRun]) -> String {
    let of_run = |run: &LiveRun| {
        let mut document = run_json(run);
        let now = nic_fault::now_ns();
        let command = nic_fault::asked(&run.path).ok().flatten();
        let command = command.filter(|fault| fault.until_ns().is_none_or(|until| until > now));
        document["command"] = json!(command.as_ref().map(fault_json));
        let script = nic_fault::script(&run.path).unwrap_or_default();
        document["script"] = script.iter().map(step_json).collect();
        document["devices"] = DeviceFault::all(run).iter().map(DeviceFault::to_json).collect();
        document
    };
    let runs: Vec<Value> = runs.iter().map(of_run).collect();
    format!("{:#}\n", json!({ "runs": runs }))
}

fn fault_json(fault: &TimedFault) -> Value {
    json!({
        "spec": TimedFault::format_spec(&fault.spec),
        "device": fault.device,
        "peer": fault.peer.map(|peer| peer.to_string()),
        "for_ns": fault.for_ns,
    })
}

fn step_json(step: &TimedFault) -> Value {
    let mut document = fault_json(step);
    document["at_ns"] = json!(step.from_ns);
    document
}

/// Returns a line for each run and one for each of its devices.
pub(super) fn to_text(runs: &[LiveRun]) -> String {
    let mut text = String::new();
    for run in runs {
        text += &format!("{}\n", run_line(run));
        let rows = DeviceFault::all(run);
        if rows.is_empty() {
            text += "  no device is open\n";
        }
        rows.iter().for_each(|row| text += &format!("{}\n", row.to_line()));
    }
    text
}
