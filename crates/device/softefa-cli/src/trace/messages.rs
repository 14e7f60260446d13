//! Messages from their post to their completion, and packets from their transmission to their
//! acknowledgement.

use std::collections::{HashMap, VecDeque};

use super::line::{number, value};

/// A bar on the time line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Nanoseconds since the first event.
    pub(super) start_ns: u64,
    /// The end; `None` if the log does not have it.
    pub(super) end_ns: Option<u64>,
    pub(super) op: String,
    pub(super) len: u64,
    /// The result, and the program's id for the message.
    pub(super) what: String,
    pub(super) is_failed: bool,
}

impl Message {
    /// Returns its duration, as far as the log goes.
    pub(super) fn duration_ns(&self, log_ends_ns: u64) -> u64 {
        self.end_ns.unwrap_or(log_ends_ns).saturating_sub(self.start_ns)
    }
}

/// The work requests that were posted and have not ended.
#[derive(Debug, Default)]
pub(super) struct Posted {
    /// The messages by the ids that the program gave. Many programs give all of them the same id:
    /// then the oldest ends first.
    waiting: HashMap<u64, VecDeque<Message>>,
    /// Number of posts that asked for no completion.
    pub(super) unsignaled: u64,
}

impl Posted {
    /// Records that a work request was posted.
    pub(super) fn post(&mut self, at_ns: u64, what: &str) {
        if value(what, "signaled") == Some("false") {
            self.unsignaled += 1;
            return;
        }
        let wr_id = number(what, "wr_id").unwrap_or_default();
        let message = Message {
            start_ns: at_ns,
            end_ns: None,
            op: value(what, "op").unwrap_or_default().to_owned(),
            len: number(what, "len").unwrap_or_default(),
            what: format!("wr_id {wr_id:#x}"),
            is_failed: false,
        };
        self.waiting.entry(wr_id).or_default().push_back(message);
    }

    /// Records that a completion entered its queue, and returns the message that it ends.
    pub(super) fn complete(&mut self, at_ns: u64, what: &str) -> Option<Message> {
        let op = value(what, "op").unwrap_or_default();
        if op.starts_with("RECV") || op.starts_with("UNSOLICITED") {
            return None;
        }
        let wr_id = number(what, "wr_id").unwrap_or_default();
        let mut message = self.waiting.get_mut(&wr_id)?.pop_front()?;
        let status = value(what, "status").unwrap_or_default();
        message.end_ns = Some(at_ns);
        message.is_failed = !status.starts_with("0:");
        message.what = format!("{}, {status}", message.what);
        Some(message)
    }

    /// Returns the remaining messages in the order of time.
    pub(super) fn into_rest(self) -> Vec<Message> {
        let mut rest: Vec<Message> = self.waiting.into_values().flatten().collect();
        rest.sort_by_key(|message| message.start_ns);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_ends_the_oldest_post_of_its_name() {
        let mut posted = Posted::default();
        posted.post(1, "127.0.0.1:7 op=SEND len=64 wr_id=0x0");
        posted.post(2, "127.0.0.1:7 op=SEND len=65 wr_id=0x0");
        posted.post(3, "127.0.0.1:7 op=WRITE len=66 wr_id=0x1 signaled=false");
        posted.post(4, "127.0.0.1:7 op=READ len=67 wr_id=0x2");
        assert_eq!(posted.complete(5, "- op=RECV status=0:Ok len=64 wr_id=0x0"), None);
        let message = posted.complete(6, "- op=SEND status=0:Ok len=0 wr_id=0x0").unwrap();
        assert_eq!((message.len, message.duration_ns(99), message.is_failed), (64, 5, false));
        let message = posted.complete(7, "- op=READ status=7:RemoteBadAddress len=0 wr_id=0x2");
        let message = message.unwrap();
        assert!(message.is_failed && message.what == "wr_id 0x2, 7:RemoteBadAddress");
        assert_eq!((posted.unsignaled, posted.complete(8, "- op=SEND wr_id=0x9")), (1, None));
        let rest = posted.into_rest();
        assert_eq!((rest.len(), rest[0].duration_ns(10)), (1, 8));
    }
}
