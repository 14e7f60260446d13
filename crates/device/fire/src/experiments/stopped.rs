//! An end that is stopped (SIGSTOP) and goes on later: within 8 s nobody may notice, after 30 s the
//! other end has given it up, and whoever comes next finds it working.

use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;

use super::Context;
use super::traffic::{damage, faults, losses, number};
use crate::args::Op;
use crate::crew::{Location, Peer, Role, SOON};
use crate::interrupt;
use crate::record::Record;

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let stops: &[u64] = context.pick(&[5], &[5, 30]);
    let ops: &[Op] = context.pick(&[Op::Send], &Op::ALL);
    let mut records = Vec::new();
    for &seconds in stops {
        for &op in ops {
            let case = format!("stopped for {seconds} s under {}", op.name().to_uppercase());
            context.beginning(&case);
            let mut record = Record::new(case, "stops");
            let wrong = if seconds < 8 {
                short_stop(op, seconds, &mut record)?
            } else {
                long_stop(op, seconds, &mut record)?
            };
            record.tried(wrong);
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
    let mut a = Peer::start(Location::Here, &role(1))?;
    let mut b = Peer::start(Location::Here, &role(2))?;
    a.meet(&b)?;
    b.meet(&a)?;
    a.tell("go")?;
    b.tell("go")?;
    interrupt::sleep(Duration::from_millis(300))?;
    Ok([a, b])
}

/// Everything arrives, late.
fn short_stop(op: Op, seconds: u64, record: &mut Record) -> Result<Option<String>> {
    let [mut a, mut b] = pair(op)?;
    stop(&b, seconds)?;
    interrupt::sleep(Duration::from_secs(1))?;
    a.tell("stop")?;
    b.tell("stop")?;
    a.wait_for("ended", SOON)?;
    b.wait_for("ended", SOON)?;
    interrupt::sleep(Duration::from_millis(100))?;
    let (from_a, from_b) = (a.quit()?, b.quit()?);
    let mut wrong = faults(&from_a);
    wrong.extend(faults(&from_b));
    for (source, sender, receiver) in [("1", &from_a, &from_b), ("2", &from_b, &from_a)] {
        let (sent, taken) =
            (number(&sender["begun"]), number(&receiver["sources"][source]["taken"]));
        // Of READs and WRITEs the other end hears nothing.
        let taken = if op == Op::Send { taken } else { sent };
        wrong.extend(losses(sent, taken));
    }
    let done = number(&from_a["done"]) + number(&from_b["done"]);
    record.result =
        format!("both ends go on, no status other than 0; {done} operations, each once");
    Ok((!wrong.is_empty()).then(|| wrong.join("; ")))
}

/// The other end gives up after 8 s; the stopped one is as good as new for the next.
fn long_stop(op: Op, seconds: u64, record: &mut Record) -> Result<Option<String>> {
    let [mut a, mut b] = pair(op)?;
    stop(&b, seconds)?;
    let mut wrong = Vec::new();
    let given_up = a.wait_for("ended", SOON)?["statuses"].clone();
    let only_13 = given_up.as_object().is_some_and(|all| all.keys().all(|code| code == "13"));
    if !only_13 {
        wrong.push(format!("operations of the end that waited: {given_up} (status: how many)"));
    }
    // What the stopped end had under way ends, too, or arrives.
    b.tell("stop")?;
    let after = b.wait_for("ended", SOON)?["statuses"].clone();
    let mut next = Peer::start(Location::Here, &Role { source: 3, depth: 16, ..Role::default() })?;
    next.meet(&b)?;
    next.tell("go")?;
    interrupt::sleep(Duration::from_millis(500))?;
    next.tell("stop")?;
    next.wait_for("ended", SOON)?;
    interrupt::sleep(Duration::from_millis(50))?;
    let (sent, taken) = (next.quit()?, b.quit()?);
    wrong.extend(faults(&sent));
    wrong.extend(damage(&taken));
    let (begun, arrived) = (number(&sent["begun"]), number(&taken["sources"]["3"]["taken"]));
    wrong.extend(losses(begun, arrived).map(|losses| format!("afterwards: {losses}")));
    wrong.extend(damage(&a.quit()?));
    record.result = format!(
        "the end that waited: {given_up} (status: how many), the stopped one: {after}; afterwards it serves a new peer ({arrived} messages)"
    );
    Ok((!wrong.is_empty()).then(|| wrong.join("; ")))
}

fn stop(peer: &Peer, seconds: u64) -> Result<()> {
    peer.signal(Signal::STOP)?;
    let slept = interrupt::sleep(Duration::from_secs(seconds));
    peer.signal(Signal::CONT)?;
    slept
}
