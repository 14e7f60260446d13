//! A middlebox: address translation or a firewall.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::Context;
use super::traffic::{Flow, damage, faults, number};
use crate::interrupt;
use crate::network::Network;
use crate::process::{Location, Role};
use crate::record::Record;

const INSIDE: &str = "10.50.0.2";
const OUTSIDE: &str = "10.60.0.2";
/// The status of an operation whose peer is unreachable, as the user sees it (`vendor_err`).
const UNREACHED: &str = "15";

/// A middlebox and the expected result.
struct Middlebox {
    name: &'static str,
    rules: &'static [&'static str],
    /// Whether messages arrive.
    works: bool,
}

const MIDDLEBOXES: &[Middlebox] = &[
    Middlebox { name: "the box forwards", rules: &[], works: true },
    Middlebox {
        name: "source addresses translated (masquerade)",
        rules: &[
            "add table ip nat",
            "add chain ip nat post { type nat hook postrouting priority 100; }",
            "add rule ip nat post oifname outside masquerade",
        ],
        works: false,
    },
    Middlebox {
        name: "firewall: only answers come in (conntrack)",
        rules: &[
            "add table ip fire",
            "add chain ip fire pass { type filter hook forward priority 0; policy drop; }",
            "add rule ip fire pass ct state established,related accept",
            "add rule ip fire pass iifname inside accept",
        ],
        works: false,
    },
    Middlebox {
        name: "firewall: UDP to ports 16384-65535 only",
        rules: &[
            "add table ip fire",
            "add chain ip fire pass { type filter hook forward priority 0; policy drop; }",
            "add rule ip fire pass udp dport 16384-65535 accept",
        ],
        works: true,
    },
    Middlebox {
        name: "firewall: UDP to ports 18000-19000 only, others rejected",
        rules: &[
            "add table ip fire",
            "add chain ip fire pass { type filter hook forward priority 0; }",
            "add rule ip fire pass ip protocol icmp accept",
            "add rule ip fire pass udp dport != 18000-19000 reject with icmp type admin-prohibited",
        ],
        works: false,
    },
    Middlebox {
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
    for middlebox in MIDDLEBOXES {
        // A case of silence takes 8 s.
        if context.is_short && !middlebox.works {
            continue;
        }
        context.log_case(middlebox.name);
        let network = Network::line()?;
        middlebox.rules.iter().try_for_each(|rule| network.nft("box", rule))?;
        let mut record = Record::new(middlebox.name, "connections");
        for is_outwards in [true, false] {
            try_direction(&network, middlebox, is_outwards, &mut record)?;
        }
        records.push(record);
    }
    Ok(records)
}

fn try_direction(
    network: &Network,
    middlebox: &Middlebox,
    is_outwards: bool,
    record: &mut Record,
) -> Result<()> {
    let inside = Location::Host(network, "inside", INSIDE);
    let outside = Location::Host(network, "outside", OUTSIDE);
    let (from, to) = if is_outwards { (inside, outside) } else { (outside, inside) };
    let mut flow = Flow::start(from, to, &Role { depth: 16, ..Role::default() })?;
    flow.source.send_command("go")?;
    interrupt::sleep(Duration::from_secs(1))?;
    flow.source.send_command("stop")?;
    flow.source.wait_for("ended", Duration::from_secs(25))?;
    let Flow { mut source, mut sink } = flow;
    let (sent, taken) = (source.quit()?, sink.quit()?);
    let way = if is_outwards { "outwards" } else { "inwards" };
    let statuses = statuses(&sent).join(" and ");
    let seen = match (statuses.as_str(), number(&sent["done"])) {
        ("", _) => format!("{way}: works ({} messages)", arrived(&taken)),
        (statuses, 0) => format!("{way}: every operation ends with status {statuses}"),
        (statuses, done) => format!("{way}: {done} operations succeed, others end with {statuses}"),
    };
    if !record.result.is_empty() {
        record.result += "; ";
    }
    record.result += &seen;
    record.count_trial(
        failure(middlebox.works, &sent, &taken).map(|failure| format!("{way}: {failure}")),
    );
    Ok(())
}

/// Returns the statuses with which operations failed.
fn statuses(sent: &Value) -> Vec<&str> {
    let all = sent["statuses"].as_object();
    all.map_or_else(Vec::new, |statuses| statuses.keys().map(String::as_str).collect())
}

fn arrived(taken: &Value) -> u64 {
    number(&taken["sources"]["1"]["taken"])
}

/// Describes what is wrong with the reports of both ends, given whether messages are to arrive.
fn failure(works: bool, sent: &Value, taken: &Value) -> Option<String> {
    let (statuses, done) = (statuses(sent), number(&sent["done"]));
    if works && !statuses.is_empty() {
        return Some(faults(sent).join("; "));
    }
    if works && arrived(taken) == 0 {
        return Some("nothing arrived".to_owned());
    }
    if !works && (done > 0 || statuses.is_empty()) {
        return Some(format!("{done} messages passed, which the box should not let through"));
    }
    if !works && statuses != [UNREACHED] {
        return Some(format!("{}, not with {UNREACHED} alone", faults(sent).join("; ")));
    }
    damage(taken).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a closed box lets through must arrive undamaged.
    #[test]
    fn a_box_is_judged_by_whether_it_should_work() {
        let sent = |done: u64, statuses: &str| {
            let text = format!(r#"{{"done": {done}, "statuses": {{{statuses}}}}}"#);
            serde_json::from_str::<Value>(&text).expect("JSON")
        };
        let taken = |arrived: u64| serde_json::json!({ "sources": { "1": { "taken": arrived } } });
        for (works, done, statuses, arrived, words) in [
            (true, 9, "", 9, None),
            (true, 0, "", 0, Some("nothing arrived")),
            (true, 0, r#""15": 16"#, 0, Some(r#"ended with {"15":16}"#)),
            (false, 0, r#""15": 16"#, 0, None),
            // A message may pass although its answer does not.
            (false, 0, r#""15": 16"#, 16, None),
            (false, 9, "", 9, Some("9 messages passed")),
            (false, 9, r#""15": 16"#, 9, Some("9 messages passed")),
            (false, 0, r#""13": 16"#, 0, Some(r#"{"13":16} (status: how many), not with 15"#)),
            (false, 0, r#""13": 1, "15": 15"#, 0, Some("not with 15 alone")),
        ] {
            let found = failure(works, &sent(done, statuses), &taken(arrived));
            let is_right = match (words, &found) {
                (None, None) => true,
                (Some(words), Some(found)) => found.contains(words),
                _ => false,
            };
            assert!(is_right, "{works}, {done}, {statuses}, {arrived}: {found:?}");
        }
        let damaged = serde_json::json!({ "duplicates": 1, "sources": { "1": { "taken": 9 } } });
        assert!(failure(true, &sent(9, ""), &damaged).is_some_and(|words| words.contains("twice")));
    }
}
