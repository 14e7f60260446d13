//! The page with the time line.

use report::{Layout, Page, Section};
use softefa::trace::TraceEvent;

use super::data::{self, Data};
use super::log::{Log, Window};
use super::queue_pair::QueuePair;
use super::tables::{self, seconds};

const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 3] =
    [include_str!("view.js"), include_str!("lanes.js"), include_str!("pointer.js")];

/// Returns the page of a log that was read from files of these names.
pub(super) fn page(log: &Log, queue_pairs: &[QueuePair], files: &str, window: Window) -> String {
    let data = data::data(log, queue_pairs);
    let [from_ns, last_ns] = log.span_ns();
    let mut times = format!(
        "Times count from the first event of {files}, {} s after 1970 began (UTC).",
        seconds(log.begins_ns)
    );
    if window.is_set() {
        times += &format!(
            " Only what was between {} s and {} s is shown: {} events are before or behind.",
            seconds(from_ns),
            seconds(last_ns),
            log.outside
        );
    }
    let markup = markup(log, queue_pairs, &data);
    let line = Section { layout: Layout::Lead, markup, ..Section::default() };
    report::html(&Page {
        title: format!("Time line of {files}"),
        summary: vec![summary(log, queue_pairs), times],
        warnings: warnings(log, queue_pairs, &data),
        sections: [vec![line], tables(log, queue_pairs)].concat(),
        ..Page::default()
    })
}

/// Returns a sentence about what happened.
pub(super) fn summary(log: &Log, queue_pairs: &[QueuePair]) -> String {
    let count = |kind| queue_pairs.iter().map(|queue_pair| queue_pair.count(kind)).sum::<u64>();
    let [from_ns, last_ns] = log.span_ns();
    let messages: usize = queue_pairs.iter().map(|queue_pair| queue_pair.messages.len()).sum();
    let failed: usize = queue_pairs
        .iter()
        .map(|queue_pair| queue_pair.messages.iter().filter(|message| message.is_failed).count())
        .sum();
    let not_ready: u64 = queue_pairs.iter().map(|queue_pair| queue_pair.not_ready).sum();
    format!(
        "{} queue pair{}, {} events in {} s: {messages} {} ({failed} failed), {} transmissions, {} retransmissions, \
         {} losses, {not_ready} times a receiver was not ready.",
        queue_pairs.len(),
        if queue_pairs.len() == 1 { "" } else { "s" },
        log.events.len(),
        seconds(last_ns - from_ns),
        bars(queue_pairs),
        count(TraceEvent::Transmit),
        count(TraceEvent::Retransmit),
        count(TraceEvent::Loss),
    )
}

/// Returns what the bars mean.
fn bars(queue_pairs: &[QueuePair]) -> &'static str {
    let has_posts = queue_pairs.iter().any(|queue_pair| queue_pair.count(TraceEvent::Post) > 0);
    if has_posts { "messages from post to completion" } else { "packets until acknowledged" }
}

fn tables(log: &Log, queue_pairs: &[QueuePair]) -> Vec<Section> {
    let [_, last_ns] = log.span_ns();
    let mut longest = Section {
        title: "The longest messages".to_owned(),
        tables: vec![tables::longest_table(queue_pairs, last_ns)],
        ..Section::default()
    };
    let unsignaled: u64 = queue_pairs.iter().map(|queue_pair| queue_pair.unsignaled).sum();
    if unsignaled > 0 {
        longest.text.push(format!(
            "{unsignaled} posts asked for no completion: nobody knows when they ended, and they are no bars."
        ));
    }
    let titles = ["Paths", "Faults", "Events"];
    let tables =
        [tables::paths(queue_pairs), tables::faults(log, queue_pairs), tables::events(queue_pairs)];
    let section = |(title, table): (&str, report::Table)| Section {
        title: title.to_owned(),
        tables: vec![table],
        ..Section::default()
    };
    let others = titles.into_iter().zip(tables).filter(|(_, table)| !table.rows.is_empty());
    std::iter::once(longest).chain(others.map(section)).collect()
}

/// Returns warnings about what the page leaves out and what could not be read.
pub(super) fn warnings(log: &Log, queue_pairs: &[QueuePair], data: &Data) -> Vec<String> {
    let mut warnings = unread(log);
    let shown = queue_pairs.len().min(data::QUEUE_PAIRS_MAX);
    if shown < queue_pairs.len() {
        let all = queue_pairs.len();
        warnings.push(format!(
            "The {shown} of {all} queue pairs with most events are drawn. Tables and totals have all."
        ));
    }
    let ([events, all_events], [messages, all_messages]) = (data.events, data.messages);
    if events < all_events || messages < all_messages {
        warnings.push(format!(
            "{events} of {all_events} events and {messages} of {all_messages} messages are drawn one by one: rare \
             kinds, the longest messages, and the others evenly; {} events and {} messages are left out. Columns, areas \
             and tables count all. `softefa trace --html --from SECONDS --to SECONDS` draws a part in full.",
            all_events - events,
            all_messages - messages,
        ));
    }
    warnings
}

/// Returns what could not be read.
pub(super) fn unread(log: &Log) -> Vec<String> {
    let mut said = Vec::new();
    let rest = log.rest;
    if rest.is_cut {
        said.push("A file is cut off at its end: what came then is missing.".to_owned());
    }
    if rest.lines > 0 {
        said.push(format!("{} lines are no events and were left out.", rest.lines));
    }
    if rest.packets > 0 {
        said.push(format!(
            "{} packets were left out: sealed ones (`softefa pcap --key-file` opens them), messages of the connection \
             manager, or packets of others.",
            rest.packets
        ));
    }
    if log.is_full {
        said.push(format!(
            "The first {} events were read; --from and --to choose others.",
            log.events.len()
        ));
    }
    said
}

/// Returns the time line: its place, its data, and the script that draws it.
fn markup(log: &Log, queue_pairs: &[QueuePair], data: &Data) -> String {
    let [_, last_ns] = log.span_ns();
    let mut json = data.json.clone();
    let longest = tables::longest(queue_pairs, last_ns);
    let times = |(_, message): &(usize, &super::messages::Message)| {
        [message.start_ns, message.duration_ns(last_ns)]
    };
    json["longest"] = longest.iter().map(times).map(|times| times.to_vec()).collect();
    // Text of events cannot end the script.
    let json = json.to_string().replace('<', "\\u003c");
    format!(
        "<style>{STYLE}</style>\n<div id=\"line\"></div>\
         <noscript><p>The time line is drawn by a script of this page; the tables below need none.</p></noscript>\n\
         <script type=\"application/json\" id=\"data\">{json}</script>\n<script>'use strict';(()=>{{\n{}}})()</script>\n",
        SCRIPT.concat()
    )
}
