//! Links that are degraded without being dead: lossy, slow or flapping.

use std::time::Duration;

use anyhow::Result;

use super::Context;
use super::traffic::{Flow, Outcome};
use crate::args::Transport;
use crate::interrupt;
use crate::machine::RealTimePriority;
use crate::network::{Network, Shape};
use crate::record::Record;

/// The fault of the link from spine 0 to leaf 0, which is on one of four paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Healthy,
    /// Drops one packet in twenty.
    Lossy,
    /// A tenth of its rate.
    Slow,
    /// It goes down and up five times a second, and no route reacts.
    Flapping,
}

impl Link {
    const ALL: [Self; 4] = [Self::Healthy, Self::Lossy, Self::Slow, Self::Flapping];

    fn name(self) -> &'static str {
        match self {
            Self::Healthy => "all links sound",
            Self::Lossy => "one of four ways loses 5 %",
            Self::Slow => "one of four ways 10 times slower",
            Self::Flapping => "one of four ways flaps (100 ms down, 100 ms up)",
        }
    }
}

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let _first = RealTimePriority::take();
    let mut records = Vec::new();
    for mtu_bytes in [1500, 9000] {
        if context.is_short && mtu_bytes == 9000 {
            continue;
        }
        let shape = Shape::of(mtu_bytes);
        for link in Link::ALL {
            if context.is_short && link == Link::Healthy {
                continue;
            }
            let network = Network::clos(shape)?;
            apply_fault(&network, link, shape)?;
            for transport in [Transport::Srd, Transport::Tcp] {
                if context.is_short && transport == Transport::Tcp {
                    continue;
                }
                let name = transport.name().to_uppercase();
                let case = format!("{name}, MTU {mtu_bytes}, {}", link.name());
                context.log_case(&case);
                let mut record = Record::new(case, "seconds of four flows");
                let seconds = context.pick(2, 20);
                let outcomes = flows(&network, shape, transport, link, seconds)?;
                describe(transport, seconds, &outcomes, &mut record);
                records.push(record);
            }
        }
    }
    Ok(records)
}

fn apply_fault(network: &Network, link: Link, shape: Shape) -> Result<()> {
    match link {
        Link::Healthy | Link::Flapping => Ok(()),
        Link::Lossy => network.lossy("s0", "l0", 5),
        Link::Slow => network.rate("s0", "l0", shape.core_mbps / 10),
    }
}

fn flows(
    network: &Network,
    shape: Shape,
    transport: Transport,
    link: Link,
    seconds: u64,
) -> Result<Vec<Outcome>> {
    let mut flows = Flow::start_across(network, shape, transport)?;
    flows.iter_mut().try_for_each(|flow| flow.source.send_command("go"))?;
    if link == Link::Flapping {
        let mut ip_batch = network.ip_batch("s0")?;
        let neighbour = neighbour(network)?;
        for _ in 0..seconds * 5 {
            for state in ["down", "up"] {
                ip_batch.run(&format!("link set l0 {state}"))?;
                if state == "up" {
                    // The kernel removes routes together with their link.
                    ip_batch.run("route replace 10.10.0.0/16 via 10.20.0.1")?;
                    ip_batch.run(&neighbour)?;
                }
                interrupt::sleep(Duration::from_millis(100))?;
            }
        }
    } else {
        interrupt::sleep(Duration::from_secs(seconds))?;
    }
    flows.iter_mut().map(Flow::finish).collect()
}

fn neighbour(network: &Network) -> Result<String> {
    let text = network.ip("l0", "-br link show s0")?;
    let mac = text.split_whitespace().nth(2).unwrap_or_default().to_owned();
    Ok(format!("neigh replace 10.20.0.1 lladdr {mac} dev l0 nud permanent"))
}

fn describe(transport: Transport, seconds: u64, outcomes: &[Outcome], record: &mut Record) {
    record.times = seconds;
    let mut rates = Vec::new();
    let (mut taken, mut repeated) = (0, 0);
    for (source, outcome) in (0..).zip(outcomes) {
        if let Some(failure) = outcome.failure(source) {
            record.fail(failure);
        }
        let bytes: u64 = outcome.series().1.iter().sum();
        rates.push(bytes as f64 * 8.0 / 1e6 / seconds as f64);
        taken += outcome.taken();
        repeated += outcome.repeated();
    }
    let (low, sum) = (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().sum::<f64>());
    record.set_figure("all_mbps", sum);
    record.set_figure("slowest_flow_mbps", low);
    record.result = format!("{sum:.0} Mbit/s of four flows, the slowest {low:.0}");
    if transport == Transport::Srd {
        record.set_figure("repeated", repeated as f64);
        let share = 100.0 * repeated as f64 / (taken.max(1)) as f64;
        record.result += &format!("; {taken} messages, each once, {share:.1} % sent again");
    }
}
