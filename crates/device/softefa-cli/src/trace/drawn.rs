//! Chooses the events and messages that a page draws one by one, if there are too many for it.

use std::cmp::Reverse;

use softefa::trace::TraceEvent;

use super::log::Log;
use super::messages::Message;
use super::queue_pair::is_not_ready;

/// The most events on a page.
const EVENTS_MAX: usize = 30_000;
/// The most messages on a page.
const MESSAGES_MAX: usize = 12_000;
/// The kinds of events that have a mark of their own. Of the others only those of receivers that
/// were not ready are drawn: posts and completions are the ends of messages, and acknowledgements
/// become times.
const MARKED: [TraceEvent; 10] = [
    TraceEvent::Transmit,
    TraceEvent::Retransmit,
    TraceEvent::Receive,
    TraceEvent::Reject,
    TraceEvent::Drop,
    TraceEvent::Loss,
    TraceEvent::Timer,
    TraceEvent::State,
    TraceEvent::Peer,
    TraceEvent::Fault,
];

/// The events that are drawn one by one.
#[derive(Debug)]
pub(super) struct Drawn {
    /// Their places in the log, in the order of time, and whether a receiver was not ready.
    pub(super) events: Vec<(usize, bool)>,
    /// The number of events that could have been drawn.
    pub(super) candidates: u64,
}

/// Chooses events of the queue pairs that are `shown`: all of each kind, or as many as of any other
/// kind, evenly.
pub(super) fn events(log: &Log, shown: impl Fn(u32) -> bool) -> Drawn {
    let not_ready_kind = TraceEvent::ALL.len();
    let mut of_kind: Vec<Vec<usize>> = vec![Vec::new(); not_ready_kind + 1];
    for (place, event) in log.events.iter().enumerate() {
        if !shown(event.queue_pair) {
            continue;
        }
        if is_not_ready(event.kind, log.words(event)) {
            of_kind[not_ready_kind].push(place);
        } else if MARKED.contains(&event.kind) {
            of_kind[event.kind as usize].push(place);
        }
    }
    let candidates = of_kind.iter().map(|places| places.len() as u64).sum();
    let lens: Vec<usize> = of_kind.iter().map(Vec::len).collect();
    let mut events = Vec::new();
    for ((kind, places), share) in of_kind.iter().enumerate().zip(shares(&lens, EVENTS_MAX)) {
        let chosen = evenly(places.len(), share).map(|at| (places[at], kind == not_ready_kind));
        events.extend(chosen);
    }
    events.sort_unstable();
    Drawn { events, candidates }
}

/// Chooses messages of a queue pair that has `share` of the room: the longest, and the others
/// evenly. They are in the order of time.
pub(super) fn messages(all: &[Message], share: usize, log_ends_ns: u64) -> Vec<&Message> {
    let mut by_length: Vec<&Message> = all.iter().collect();
    if all.len() > share {
        by_length.sort_by_key(|message| Reverse(message.duration_ns(log_ends_ns)));
        let (longest, others) = by_length.split_at(share / 4);
        let mut others = others.to_vec();
        others.sort_by_key(|message| message.start_ns);
        let chosen = evenly(others.len(), share - longest.len()).map(|at| others[at]);
        by_length = longest.iter().copied().chain(chosen).collect();
    }
    by_length.sort_by_key(|message| message.start_ns);
    by_length
}

/// Returns how many messages of each queue pair are drawn.
pub(super) fn message_shares(lens: &[usize]) -> Vec<usize> {
    shares(lens, MESSAGES_MAX)
}

/// Divides `room` among groups, so that none has more than another one that could not have all.
fn shares(lens: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lens.len()).collect();
    order.sort_by_key(|at| lens[*at]);
    let (mut left, mut shares) = (room, vec![0; lens.len()]);
    for (done, at) in order.into_iter().enumerate() {
        shares[at] = lens[at].min(left / (lens.len() - done));
        left -= shares[at];
    }
    shares
}

/// Returns `count` of `len` places, the first and the last among them.
fn evenly(len: usize, count: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(1).max(1);
    (0..count.min(len)).map(move |at| if count >= len { at } else { at * (len - 1) / last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_kinds_have_all_and_the_others_as_many_as_each_other() {
        assert_eq!(shares(&[3, 1_000, 0, 500], 103), [3, 50, 0, 50]);
        assert_eq!(shares(&[3, 4], 100), [3, 4]);
        assert_eq!(evenly(10, 4).collect::<Vec<_>>(), [0, 3, 6, 9]);
        assert_eq!(evenly(3, 9).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(evenly(0, 0).count() + evenly(5, 0).count(), 0);
        assert_eq!(evenly(5, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_longest_messages_are_never_left_out() {
        let message = |at: u64| Message {
            start_ns: at,
            end_ns: Some(at + if at == 77 { 1_000 } else { 1 }),
            op: "SEND".to_owned(),
            len: 1,
            what: String::new(),
            is_failed: false,
        };
        let all: Vec<Message> = (0..100).map(message).collect();
        let chosen = messages(&all, 8, 2_000);
        assert_eq!(chosen.len(), 8);
        assert!(chosen.iter().any(|message| message.start_ns == 77));
        assert!(chosen.is_sorted_by_key(|message| message.start_ns));
        assert_eq!(messages(&all, 100, 2_000).len(), 100);
    }
}
