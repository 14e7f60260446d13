//! Links that are bad without being dead: one that loses, one that is slow, one that flaps.

use std::time::Duration;

use anyhow::Result;

use super::Context;
use super::traffic::{Flow, Outcome};
use crate::args::Transport;
use crate::interrupt;
use crate::machine::Precedence;
use crate::network::{Network, Shape};
use crate::record::Record;

/// What is wrong with the link from spine 0 to leaf 0, one of four ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Sound,
    /// Drops one packet in twenty.
    Lossy,
    /// A tenth of its rate.
    Slow,
    /// Down and up again five times in a second, and routes know nothing of it.
    Flapping,
}

impl Link {
    const ALL: [Self; 4] = [Self::Sound, Self::Lossy, Self::Slow, Self::Flapping];

    fn name(self) -> &'static str {
        match self {
            Self::Sound => "all links sound",
            Self::Lossy => "one of four ways loses 5 %",
            Self::Slow => "one of four ways 10 times slower",
            Self::Flapping => "one of four ways flaps (100 ms down, 100 ms up)",
        }
    }
}

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let _first = Precedence::take();
    let mut records = Vec::new();
    for mtu_bytes in [1500, 9000] {
        if context.is_short && mtu_bytes == 9000 {
            continue;
        }
        let shape = Shape::of(mtu_bytes);
        for link in Link::ALL {
            if context.is_short && link == Link::Sound {
                continue;
            }
            let network = Network::clos(shape)?;
            spoil(&network, link, shape)?;
            for transport in [Transport::Srd, Transport::Tcp] {
                if context.is_short && transport == Transport::Tcp {
                    continue;
                }
                let name = transport.name().to_uppercase();
                let case = format!("{name}, MTU {mtu_bytes}, {}", link.name());
                context.beginning(&case);
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

fn spoil(network: &Network, link: Link, shape: Shape) -> Result<()> {
    match link {
        Link::Sound | Link::Flapping => Ok(()),
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
    flows.iter_mut().try_for_each(|flow| flow.source.tell("go"))?;
    if link == Link::Flapping {
        let mut lever = network.lever("s0")?;
        let neighbour = neighbour(network)?;
        for _ in 0..seconds * 5 {
            for state in ["down", "up"] {
                lever.pull(&format!("link set l0 {state}"))?;
                if state == "up" {
                    // The kernel takes routes away with their link.
                    lever.pull("route replace 10.10.0.0/16 via 10.20.0.1")?;
                    lever.pull(&neighbour)?;
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
        if let Some(wrong) = outcome.wrong(source) {
            record.fail(wrong);
        }
        let bytes: u64 = outcome.series().1.iter().sum();
        rates.push(bytes as f64 * 8.0 / 1e6 / seconds as f64);
        taken += outcome.taken();
        repeated += outcome.repeated();
    }
    let (low, sum) = (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().sum::<f64>());
    record.figure("all_mbps", sum);
    record.figure("slowest_flow_mbps", low);
    record.result = format!("{sum:.0} Mbit/s of four flows, the slowest {low:.0}");
    if transport == Transport::Srd {
        record.figure("repeated", repeated as f64);
        let share = 100.0 * repeated as f64 / (taken.max(1)) as f64;
        record.result += &format!("; {taken} messages, each once, {share:.1} % sent again");
    }
}
