//! An end that is stopped (SIGSTOP) and continues later. After less than 8 s no operation may fail;
//! after 30 s the other end has given up, and the next peer must be able to use it.

use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;

use super::Context;
use super::traffic::{damage, faults, losses, number};
use crate::args::Op;
use crate::interrupt;
use crate::process::{Location, Peer, Role, STEP_LIMIT};
use crate::record::Record;

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let stops: &[u64] = context.pick(&[5], &[5, 30]);
    let ops: &[Op] = context.pick(&[Op::Send], &Op::ALL);
    let mut records = Vec::new();
    for &seconds in stops {
        for &op in ops {
            let case = format!("stopped for {seconds} s under {}", op.name().to_uppercase());
            context.log_case(&case);
            let mut record = Record::new(case, "stops");
            let failure = if seconds < 8 {
                short_stop(op, seconds, &mut record)?
            } else {
                long_stop(op, seconds, &mut record)?
            };
            record.count_trial(failure);
            records.push(record);
        }
    }
    Ok(records)
}

fn pair(op: Op) -> Result<[Peer; 2]> {
    let role = |source| Role {
        op,
        bytes: if op == Op::Send { 0 } else { 65536 },
        source,
        depth: 16,
        ..Role::default()
    };
    let mut a = Peer::start(Location::Loopback, &role(1))?;
    let mut b = Peer::start(Location::Loopback, &role(2))?;
    a.connect_to(&b)?;
    b.connect_to(&a)?;
    a.send_command("go")?;
    b.send_command("go")?;
    interrupt::sleep(Duration::from_millis(300))?;
    Ok([a, b])
}

/// Everything must arrive, late.
fn short_stop(op: Op, seconds: u64, record: &mut Record) -> Result<Option<String>> {
    let [mut a, mut b] = pair(op)?;
    stop(&b, seconds)?;
    interrupt::sleep(Duration::from_secs(1))?;
    a.send_command("stop")?;
    b.send_command("stop")?;
    a.wait_for("ended", STEP_LIMIT)?;
    b.wait_for("ended", STEP_LIMIT)?;
    interrupt::sleep(Duration::from_millis(100))?;
    let (from_a, from_b) = (a.quit()?, b.quit()?);
    let mut failures = faults(&from_a);
    failures.extend(faults(&from_b));
    for (source, sender, receiver) in [("1", &from_a, &from_b), ("2", &from_b, &from_a)] {
        let (sent, taken) =
            (number(&sender["begun"]), number(&receiver["sources"][source]["taken"]));
        // The other end does not see READs and WRITEs.
        let taken = if op == Op::Send { taken } else { sent };
        failures.extend(losses(sent, taken));
    }
    let done = number(&from_a["done"]) + number(&from_b["done"]);
    record.result =
        format!("both ends go on, no status other than 0; {done} operations, each once");
    Ok((!failures.is_empty()).then(|| failures.join("; ")))
}

/// The other end gives up after 8 s; the stopped one must work for the next peer.
fn long_stop(op: Op, seconds: u64, record: &mut Record) -> Result<Option<String>> {
    let [mut a, mut b] = pair(op)?;
    stop(&b, seconds)?;
    let mut failures = Vec::new();
    let given_up = a.wait_for("ended", STEP_LIMIT)?["statuses"].clone();
    let only_13 = given_up.as_object().is_some_and(|all| all.keys().all(|code| code == "13"));
    if !only_13 {
        failures.push(format!("operations of the end that waited: {given_up} (status: how many)"));
    }
    // The operations of the stopped end must end, too, or arrive.
    b.send_command("stop")?;
    let after = b.wait_for("ended", STEP_LIMIT)?["statuses"].clone();
    let mut next =
        Peer::start(Location::Loopback, &Role { source: 3, depth: 16, ..Role::default() })?;
    next.connect_to(&b)?;
    next.send_command("go")?;
    interrupt::sleep(Duration::from_millis(500))?;
    next.send_command("stop")?;
    next.wait_for("ended", STEP_LIMIT)?;
    interrupt::sleep(Duration::from_millis(50))?;
    let (sent, taken) = (next.quit()?, b.quit()?);
    failures.extend(faults(&sent));
    failures.extend(damage(&taken));
    let (begun, arrived) = (number(&sent["begun"]), number(&taken["sources"]["3"]["taken"]));
    failures.extend(losses(begun, arrived).map(|losses| format!("afterwards: {losses}")));
    failures.extend(damage(&a.quit()?));
    record.result = format!(
        "the end that waited: {given_up} (status: how many), the stopped one: {after}; afterwards it serves a new peer ({arrived} messages)"
    );
    Ok((!failures.is_empty()).then(|| failures.join("; ")))
}

fn stop(peer: &Peer, seconds: u64) -> Result<()> {
    peer.signal(Signal::STOP)?;
    let slept = interrupt::sleep(Duration::from_secs(seconds));
    peer.signal(Signal::CONT)?;
    slept
}
