//! A box in the middle: a translation of addresses, a firewall.

use std::time::Duration;

use anyhow::Result;

use super::Context;
use super::traffic::{Flow, faults, number};
use crate::crew::{Location, Role};
use crate::interrupt;
use crate::network::Network;
use crate::record::Record;

const INSIDE: &str = "10.50.0.2";
const OUTSIDE: &str = "10.60.0.2";

/// A box, what it does, and what is to be expected.
struct Middle {
    name: &'static str,
    rules: &'static [&'static str],
    /// Messages arrive.
    works: bool,
}

const BOXES: &[Middle] = &[
    Middle { name: "the box forwards", rules: &[], works: true },
    Middle {
        name: "source addresses translated (masquerade)",
        rules: &[
            "add table ip nat",
            "add chain ip nat post { type nat hook postrouting priority 100; }",
            "add rule ip nat post oifname outside masquerade",
        ],
        works: false,
    },
    Middle {
        name: "firewall: only answers come in (conntrack)",
        rules: &[
            "add table ip fire",
            "add chain ip fire pass { type filter hook forward priority 0; policy drop; }",
            "add rule ip fire pass ct state established,related accept",
            "add rule ip fire pass iifname inside accept",
        ],
        works: false,
    },
    Middle {
        name: "firewall: UDP to ports 16384-65535 only",
        rules: &[
            "add table ip fire",
            "add chain ip fire pass { type filter hook forward priority 0; policy drop; }",
            "add rule ip fire pass udp dport 16384-65535 accept",
        ],
        works: true,
    },
    Middle {
        name: "firewall: UDP to ports 18000-19000 only, others rejected",
        rules: &[
            "add table ip fire",
            "add chain ip fire pass { type filter hook forward priority 0; }",
            "add rule ip fire pass ip protocol icmp accept",
            "add rule ip fire pass udp dport != 18000-19000 reject with icmp type admin-prohibited",
        ],
        works: false,
    },
    Middle {
        name: "firewall: ICMP dropped",
        rules: &[
            "add table ip fire",
            "add chain ip fire pass { type filter hook forward priority 0; }",
            "add rule ip fire pass ip protocol icmp drop",
        ],
        works: true,
    },
];

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for middle in BOXES {
        // Silence takes its 8 s.
        if context.is_short && !middle.works {
            continue;
        }
        context.beginning(middle.name);
        let network = Network::line()?;
        middle.rules.iter().try_for_each(|rule| network.nft("box", rule))?;
        let mut record = Record::new(middle.name, "connections");
        for is_outwards in [true, false] {
            try_it(&network, middle, is_outwards, &mut record)?;
        }
        records.push(record);
    }
    Ok(records)
}

fn try_it(
    network: &Network,
    middle: &Middle,
    is_outwards: bool,
    record: &mut Record,
) -> Result<()> {
    let inside = Location::Host(network, "inside", INSIDE);
    let outside = Location::Host(network, "outside", OUTSIDE);
    let (from, to) = if is_outwards { (inside, outside) } else { (outside, inside) };
    let mut flow = Flow::start(from, to, &Role { depth: 16, ..Role::default() })?;
    flow.source.tell("go")?;
    interrupt::sleep(Duration::from_secs(1))?;
    flow.source.tell("stop")?;
    flow.source.wait_for("ended", Duration::from_secs(25))?;
    let Flow { mut source, mut sink } = flow;
    let (sent, taken) = (source.quit()?, sink.quit()?);
    let way = if is_outwards { "outwards" } else { "inwards" };
    let arrived = number(&taken["sources"]["1"]["taken"]);
    let statuses = sent["statuses"].as_object().filter(|statuses| !statuses.is_empty());
    let seen = match statuses {
        None => format!("{way}: works ({arrived} messages)"),
        Some(statuses) => {
            let codes: Vec<&str> = statuses.keys().map(String::as_str).collect();
            format!("{way}: every operation ends with status {}", codes.join(" and "))
        }
    };
    if !record.result.is_empty() {
        record.result += "; ";
    }
    record.result += &seen;
    let wrong = match (middle.works, statuses.is_none()) {
        (true, false) => Some(format!("{way}: {}", faults(&sent).join("; "))),
        (true, true) if arrived == 0 => Some(format!("{way}: nothing arrived")),
        _ => super::traffic::damage(&taken).into_iter().next(),
    };
    record.tried(wrong);
    Ok(())
}
