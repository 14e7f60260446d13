//! Which packets may follow which, and how long each may be (RC-5.3).

use super::Message;
use crate::Mtu;
use crate::wire::Kind;

/// The packet may come while `message` is being received.
pub(super) const fn fits(message: Option<Message>, kind: Kind) -> bool {
    match message {
        None => kind.is_start(),
        Some(Message::Send { .. }) => kind.is_send() && !kind.is_start(),
        Some(Message::Write { .. }) => kind.is_write() && !kind.is_start(),
    }
}

/// The payload is as long as a packet in that place of a message has it.
pub(super) const fn has_length(kind: Kind, payload_len: u32, mtu: Mtu) -> bool {
    match (kind.is_start(), kind.is_end()) {
        (true, true) => payload_len <= mtu.bytes(),
        (false, true) => payload_len > 0 && payload_len <= mtu.bytes(),
        _ => payload_len == mtu.bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Range;

    /// RC-5.3.
    #[test]
    fn a_message_is_finished_before_the_next_begins() {
        let send = Some(Message::Send { offset: 0 });
        let write = Some(Message::Write { range: Range::default(), offset: 0 });
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_request()) {
            let begins = kind.is_start();
            assert_eq!(fits(None, kind), begins, "{kind:?}");
            assert_eq!(fits(send, kind), !begins && kind.is_send(), "{kind:?}");
            assert_eq!(fits(write, kind), !begins && kind.is_write(), "{kind:?}");
        }
    }

    #[test]
    fn all_packets_but_the_last_are_full() {
        let fits = |kind, len| has_length(kind, len, Mtu::B256);
        assert!(fits(Kind::SendFirst, 256) && !fits(Kind::SendFirst, 255));
        assert!(fits(Kind::WriteMiddle, 256) && !fits(Kind::WriteMiddle, 257));
        assert!(fits(Kind::SendLast, 1) && fits(Kind::SendLast, 256));
        assert!(!fits(Kind::SendLast, 0) && !fits(Kind::SendLast, 257));
        assert!(fits(Kind::SendOnly, 0) && fits(Kind::WriteOnly, 256));
        assert!(!fits(Kind::SendOnlyImm, 257));
    }
}
