//! `softefa info`: devices as a program would find them, and the counters of running ones.

use std::io::{self, Write};
use std::net::Ipv6Addr;
use std::sync::Arc;

use serde_json::{Value, json};
use softefa::counters::{self as nic_counters, ProcessCounters};
use softefa::{Adapter, Config, Device, DeviceAttr, RoceAttr};

use crate::args::InfoArgs;
use crate::failure::Failure;
use crate::run_dir::{self, LiveRun};
use crate::{counters, devices};

/// A live run and the counters of its processes.
type Running = (LiveRun, Vec<ProcessCounters>);

/// Prints the devices of the given options and the runs that are alive.
///
/// # Errors
/// A device cannot be opened.
pub(crate) fn info(args: &InfoArgs) -> Result<u8, Failure> {
    let mut config = devices::config(&args.device, Config::from_env()?)?;
    // The option is meant for programs, not for this command.
    config.faults.peer_kill_ns = None;
    devices::warn_of_exposure(config.key.as_ref());
    let devices = open(&config)?;
    let running: Vec<Running> = run_dir::live_runs()
        .into_iter()
        .map(|run| {
            // A run may end and remove its directory meanwhile.
            let processes = nic_counters::read_dir(&run.path).unwrap_or_default();
            (run, processes)
        })
        .collect();
    let text = if args.json {
        format!("{:#}\n", to_json(&config, &devices, &running))
    } else {
        to_text(&config, &devices, &running)
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}")))
        }
        _ => Ok(0),
    }
}

fn open(config: &Config) -> Result<Vec<Arc<Device>>, Failure> {
    config
        .devices
        .iter()
        .map(|spec| {
            Device::open(spec, config)
                .map_err(|error| Failure::new(format!("device {}: {error}", spec.name)))
        })
        .collect()
}

/// A limit: name, value and unit.
type Limit = (&'static str, u64, &'static str);

/// Returns the limits of a device, in the order in which they are shown.
fn limits(attr: &DeviceAttr) -> Vec<Limit> {
    let of_roce = attr.roce.as_ref().map_or_else(Vec::new, roce_limits);
    common_limits(attr).into_iter().chain(of_roce).collect()
}

fn roce_limits(roce: &RoceAttr) -> Vec<Limit> {
    vec![
        ("max_rd_atomic", roce.max_rd_atomic.into(), "READs and atomics of one queue pair"),
        ("max_mw", roce.max_mw.into(), "memory windows"),
        ("max_srq", roce.max_srq.into(), "shared receive queues"),
        ("max_srq_wr", roce.max_srq_wr.into(), "receives of one shared queue"),
        ("max_srq_sge", roce.max_srq_sge.into(), "pieces of a shared receive"),
        ("max_mcast_grp", roce.max_mcast_grp.into(), "multicast groups"),
        ("path_mtu_bytes", roce.path_mtu.bytes().into(), "bytes of one packet"),
        ("gids", roce.gids.into(), "entries of the GID table"),
        ("rate_gbit_per_s", roce.rate.gbit_per_s.into(), "Gb/s that the port says it has"),
    ]
}

fn common_limits(attr: &DeviceAttr) -> Vec<Limit> {
    vec![
        ("max_msg_bytes", attr.max_msg_bytes.into(), "bytes of one message"),
        ("inline_bytes", attr.inline_bytes.into(), "bytes of an inline send"),
        ("max_sq_wr", attr.max_sq_wr.into(), "sends of one queue pair"),
        ("max_rq_wr", attr.max_rq_wr.into(), "receives of one queue pair"),
        ("max_sq_sge", attr.max_sq_sge.into(), "pieces of a send"),
        ("max_rq_sge", attr.max_rq_sge.into(), "pieces of a receive"),
        ("max_qp", attr.max_qp.into(), "queue pairs"),
        ("max_cq", attr.max_cq.into(), "completion queues"),
        ("max_cqe", attr.max_cqe.into(), "completions of one queue"),
        ("max_mr", attr.max_mr.into(), "memory regions"),
        ("max_mr_bytes", attr.max_mr_bytes, "bytes of one memory region"),
        ("max_pd", attr.max_pd.into(), "protection domains"),
        ("max_ah", attr.max_ah.into(), "address handles"),
        ("max_rdma_bytes", attr.max_rdma_bytes.into(), "bytes of one RDMA operation, 0 = none"),
    ]
}

/// Returns the name of each capability and whether the device has it; capabilities that only an EFA
/// can have, only for an EFA.
fn capabilities(attr: &DeviceAttr) -> Vec<(&'static str, bool)> {
    let caps = &attr.caps;
    let mut all = vec![
        ("rdma_read", caps.rdma_read),
        ("rdma_write", caps.rdma_write),
        ("unsolicited_write_recv", caps.unsolicited_write_recv),
        ("rnr_retry", caps.rnr_retry),
        ("cq_with_sgid", caps.cq_with_sgid),
    ];
    if attr.roce.is_some() {
        all.retain(|(name, _)| name.starts_with("rdma") || *name == "rnr_retry");
    }
    all
}

fn to_text(config: &Config, devices: &[Arc<Device>], running: &[Running]) -> String {
    let mut lines = Vec::new();
    for device in devices {
        let attr = device.attr();
        lines.push(format!("device {}", device.name()));
        let mut row = |name: &str, value: String| lines.push(format!("  {name:<24}{value}"));
        row("kind", device.adapter().name().to_owned());
        row("address", device.addr().to_string());
        row("gid", Ipv6Addr::from(device.gid().0).to_string());
        row("profile", attr.profile.to_string());
        match device.adapter() {
            Adapter::Efa => row("pci_id", format!("{:04x}:{:04x}", attr.vendor_id, attr.part_id)),
            Adapter::Roce => {
                row("vendor_id", format!("{:06x}", attr.vendor_id));
                row("part_id", attr.part_id.to_string());
                row("interface", interface(device).unwrap_or("none").to_owned());
            }
        }
        for (name, value, unit) in limits(attr) {
            row(name, format!("{value:<14} {unit}"));
        }
        for (name, present) in capabilities(attr) {
            row(name, if present { "yes" } else { "no" }.to_owned());
        }
    }
    lines.push(format!("sealed  {}", sealed(config)));
    lines.push(format!("wire    {}", config.wire.name()));
    if config.faults.is_active() {
        lines.push(format!("faults  {}", config.faults));
    }
    if running.is_empty() {
        lines.push("no running programs".to_owned());
    }
    for (run, processes) in running {
        lines.push(format!("running {} ({})", run.program, run.path.display()));
        for line in counters::to_wire_lines(processes) {
            lines.push(format!("  {line}"));
        }
        for line in counters::to_lines(processes) {
            lines.push(format!("  {line}"));
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the network interface that a device sends through.
fn interface(device: &Device) -> Option<&str> {
    device.netdev().map(|netdev| netdev.name.as_str())
}

/// Returns whether datagrams are sealed, and with which key: equal names on two machines mean equal
/// keys.
fn sealed(config: &Config) -> String {
    let Some(key) = &config.key else {
        return "no: datagrams are in the clear (--key-file seals them)".to_owned();
    };
    format!("with key {} of {}", key.id(), key.path().display())
}

fn to_json(config: &Config, devices: &[Arc<Device>], running: &[Running]) -> Value {
    let devices: Vec<Value> = devices.iter().map(|device| device_json(device)).collect();
    let running: Vec<Value> = running
        .iter()
        .map(|(run, processes)| {
            let mut entry = counters::to_json(processes);
            entry["program"] = json!(run.program);
            entry["directory"] = json!(run.path.to_string_lossy());
            entry
        })
        .collect();
    let key = config.key.as_ref();
    let key = key.map(|key| json!({ "id": key.id(), "file": key.path().to_string_lossy() }));
    json!({
        "devices": devices,
        "faults": config.faults.to_string(),
        "sealed": key,
        "wire": config.wire.name(),
        "running": running,
    })
}

fn device_json(device: &Device) -> Value {
    let attr = device.attr();
    let mut value = json!({
        "name": device.name(),
        "kind": device.adapter().name(),
        "interface": interface(device),
        "address": device.addr().to_string(),
        "gid": Ipv6Addr::from(device.gid().0).to_string(),
        "profile": attr.profile.name(),
        "vendor_id": attr.vendor_id,
        "part_id": attr.part_id,
    });
    for (name, limit, _) in limits(attr) {
        value["limits"][name] = json!(limit);
    }
    for (name, present) in capabilities(attr) {
        value["capabilities"][name] = json!(present);
    }
    value
}
