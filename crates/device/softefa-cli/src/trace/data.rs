//! The data of a page's script, as JSON.

use serde_json::{Value, json};
use softefa::trace::TraceEvent;

use super::bins::Bins;
use super::drawn::{self, Drawn};
use super::log::Log;
use super::messages::Message;
use super::queue_pair::{QueuePair, is_not_ready};
use super::sent::Path;

/// The most queue pairs on a page.
pub(super) const QUEUE_PAIRS_MAX: usize = 24;
/// The most paths of a queue pair on a page.
const PATHS_MAX: usize = 16;
/// The most characters of the words of an event on a page.
const WORDS_MAX: usize = 300;

/// The data that is drawn, and how much is left out.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) json: Value,
    /// The number of events drawn one by one, followed by the number that could have been.
    pub(super) events: [u64; 2],
    /// The numbers of messages, like those of `events`.
    pub(super) messages: [u64; 2],
}

/// Returns the data of the queue pairs that are drawn, which come first in `queue_pairs`.
pub(super) fn data(log: &Log, queue_pairs: &[QueuePair]) -> Data {
    let shown = &queue_pairs[..queue_pairs.len().min(QUEUE_PAIRS_MAX)];
    let place_of = |name: &str| shown.iter().position(|shown| shown.name == name);
    let places: Vec<Option<usize>> = log.queue_pairs.iter().map(|name| place_of(name)).collect();
    let place = |queue_pair: u32| places[queue_pair as usize];
    let bins = Bins::new(log.span_ns(), shown.len());
    let Drawn { events, candidates } = drawn::events(log, |at| place(at).is_some());
    let mut marks = vec![Vec::new(); shown.len()];
    for (at, is_not_ready) in &events {
        let event = &log.events[*at];
        let words: String = log.words(event).chars().take(WORDS_MAX).collect();
        let mark = json!([event.at_ns, event.kind as usize, u8::from(*is_not_ready), words]);
        if let Some(place) = place(event.queue_pair) {
            marks[place].push(mark);
        }
    }
    let counts = counts(log, shown.len(), &place, bins);
    let lens: Vec<usize> = shown.iter().map(|queue_pair| queue_pair.messages.len()).collect();
    let shares = drawn::message_shares(&lens);
    let parts = shown.iter().zip(marks).zip(counts).zip(&shares);
    let queue_pairs: Vec<Value> = parts
        .map(|(((queue_pair, marks), counts), share)| {
            let mut data = of_queue_pair(queue_pair, *share, bins);
            data["marks"] = Value::from(marks);
            data["bins"] = counts;
            data
        })
        .collect();
    let kinds: Vec<&str> = TraceEvent::ALL.iter().map(|kind| kind.name()).collect();
    let json = json!({
        "from": bins.from_ns,
        "to": bins.to_ns,
        "bins": bins.count,
        "kinds": kinds,
        "queuePairs": queue_pairs,
    });
    let drawn_messages: usize = lens.iter().zip(&shares).map(|(len, share)| len.min(share)).sum();
    let all_messages: usize = lens.iter().sum();
    Data {
        json,
        events: [events.len() as u64, candidates],
        messages: [drawn_messages as u64, all_messages as u64],
    }
}

/// Returns for each queue pair the numbers of events of each kind in the parts of the time,
/// followed by those of receivers that were not ready.
fn counts(log: &Log, shown: usize, place: &dyn Fn(u32) -> Option<usize>, bins: Bins) -> Vec<Value> {
    let kinds = TraceEvent::ALL.len() + 1;
    let mut moments = vec![vec![Vec::new(); kinds]; shown];
    for event in &log.events {
        let Some(place) = place(event.queue_pair) else { continue };
        moments[place][event.kind as usize].push(event.at_ns);
        if is_not_ready(event.kind, log.words(event)) {
            moments[place][kinds - 1].push(event.at_ns);
        }
    }
    let of = |moments: Vec<u64>| Value::from(bins.counts(moments.into_iter()));
    let of_all = |kinds: Vec<Vec<u64>>| kinds.into_iter().map(of).collect::<Vec<Value>>();
    moments.into_iter().map(|kinds| Value::from(of_all(kinds))).collect()
}

fn of_queue_pair(queue_pair: &QueuePair, share: usize, bins: Bins) -> Value {
    let end_ns = bins.to_ns;
    let spans = queue_pair.messages.iter().map(|message| (message.start_ns, message.end_ns));
    let messages = drawn::messages(&queue_pair.messages, share, end_ns);
    let messages: Vec<Value> = messages.into_iter().map(|message| bar(message, end_ns)).collect();
    let shown = queue_pair.paths.len().min(PATHS_MAX);
    let path = |(id, path): &(u16, Path)| {
        let Path { sent_ns, answers, .. } = path;
        json!({
            "id": id,
            "sent": bins.counts(sent_ns.iter().copied()),
            "answers": bins.means(answers),
        })
    };
    let faults: Vec<Value> = queue_pair
        .faults
        .iter()
        .map(|fault| json!([fault.from_ns, fault.to_ns.unwrap_or(end_ns), fault.spec, fault.by]))
        .collect();
    json!({
        "name": queue_pair.name,
        "open": bins.most_open(spans),
        "messages": messages,
        "paths": queue_pair.paths[..shown].iter().map(path).collect::<Vec<Value>>(),
        "pathsLeft": queue_pair.paths.len() - shown,
        "faults": faults,
    })
}

/// Returns a message as start, duration, operation, bytes, whether it failed or has no end, and
/// words.
fn bar(message: &Message, end_ns: u64) -> Value {
    let state = match (message.end_ns, message.is_failed) {
        (None, _) => 2,
        (_, true) => 1,
        (_, false) => 0,
    };
    let Message { start_ns, op, len, what, .. } = message;
    json!([start_ns, message.duration_ns(end_ns), op, len, state, what])
}
