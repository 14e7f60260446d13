//! The order and the lengths of packets in a message (RC-5.3).

use super::Message;
use crate::Mtu;
use crate::wire::Kind;

/// Returns whether the packet may arrive while `message` is being received.
pub(super) const fn fits(message: Option<Message>, kind: Kind) -> bool {
    match message {
        None => kind.is_start(),
        Some(Message::Send { .. }) => kind.is_send() && !kind.is_start(),
        Some(Message::Write { .. }) => kind.is_write() && !kind.is_start(),
    }
}

/// Returns whether the payload has the length that this position in a message requires, with this
/// many packets joined to it (RC-1.15).
pub(super) const fn has_length(kind: Kind, payload_len: u32, joined: u8, mtu: Mtu) -> bool {
    // All packets but the last are full.
    let Some(last) = payload_len.checked_sub(joined as u32 * mtu.bytes()) else { return false };
    match (kind.is_start(), kind.is_end()) {
        (true, true) if joined == 0 => last <= mtu.bytes(),
        (_, true) => last > 0 && last <= mtu.bytes(),
        _ => last == mtu.bytes(),
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
        let fits = |kind, len| has_length(kind, len, 0, Mtu::B256);
        assert!(fits(Kind::SendFirst, 256) && !fits(Kind::SendFirst, 255));
        assert!(fits(Kind::WriteMiddle, 256) && !fits(Kind::WriteMiddle, 257));
        assert!(fits(Kind::SendLast, 1) && fits(Kind::SendLast, 256));
        assert!(!fits(Kind::SendLast, 0) && !fits(Kind::SendLast, 257));
        assert!(fits(Kind::SendOnly, 0) && fits(Kind::WriteOnly, 256));
        assert!(!fits(Kind::SendOnlyImm, 257));
    }

    /// RC-1.15.
    #[test]
    fn joined_packets_are_full_but_for_the_last_of_a_message() {
        let fits = |kind, len| has_length(kind, len, 2, Mtu::B256);
        assert!(fits(Kind::SendFirst, 768) && fits(Kind::WriteMiddle, 768));
        assert!(!fits(Kind::SendFirst, 767) && !fits(Kind::WriteMiddle, 256));
        for kind in [Kind::SendLast, Kind::WriteOnly] {
            assert!(fits(kind, 513) && fits(kind, 768));
            assert!(!fits(kind, 512) && !fits(kind, 769) && !fits(kind, 0));
        }
    }
}
