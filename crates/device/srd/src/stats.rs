//! Counters.

use crate::{DropReason, PSN_WINDOW};

/// The counters of one endpoint since it was made. All counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Datagrams transmitted, of every kind.
    pub tx_datagrams: u64,
    /// Messages transmitted, repetitions included.
    pub tx_data: u64,
    /// Payload bytes transmitted, repetitions included.
    pub tx_payload_bytes: u64,
    /// Datagrams that carried nothing but an acknowledgement.
    pub tx_pure_acks: u64,
    /// The answers to senders without a connection.
    pub strangers: StrangerStats,
    /// Datagrams received and understood.
    pub rx_datagrams: u64,
    /// New messages accepted by the host.
    pub rx_accepted: u64,
    /// Payload bytes of accepted messages.
    pub rx_accepted_bytes: u64,
    /// Messages received again after they had been accepted or finally refused.
    pub rx_duplicates: u64,
    /// Accepted messages that later ones of their connection had overtaken.
    pub rx_order: OrderStats,
    /// Messages refused because no receive was posted.
    pub rx_rnr: u64,
    /// Messages refused for reasons other than a missing receive.
    pub rx_rejected: u64,
    /// Messages left unanswered, because no more refusals could be remembered (SRD-6.8).
    pub rx_unanswered: u64,
    /// Acknowledgement blocks used.
    pub rx_acks: u64,
    /// Acknowledgement blocks of a connection that is not current any more.
    pub rx_stale_acks: u64,
    /// RESETs that ended a connection of ours.
    pub rx_resets: u64,
    /// REFUSEDs that ended messages of ours.
    pub rx_refused: u64,
    /// CHALLENGEs that a connection of ours answered.
    pub rx_challenges: u64,
    /// Data datagrams transmitted again.
    pub retrans_pkts: u64,
    /// Payload bytes transmitted again.
    pub retrans_bytes: u64,
    /// Times that the retransmission timer expired without any acknowledgement.
    pub retrans_timeout_events: u64,
    /// Acknowledgements that named an earlier transmission of a repeated message, so that the
    /// repetition was needless. They name one message each, so there may have been more needless
    /// repetitions.
    pub spurious_retrans: u64,
    /// Times that a message was held back because its receiver was not ready for it.
    pub rnr_received: u64,
    /// Peers declared dead.
    pub unresponsive_remote_events: u64,
    /// Times that a peer became impaired.
    pub impaired_remote_conn_events: u64,
    /// Messages that ended successfully.
    pub completed_ok: u64,
    /// Messages that ended with an error.
    pub completed_error: u64,
    /// Datagrams dropped, by [`DropReason`] as an index.
    pub dropped: [u64; DropReason::COUNT],
}

/// Answers to senders without a connection (SRD-3.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrangerStats {
    /// RESETs transmitted.
    pub resets: u64,
    /// REFUSEDs transmitted.
    pub refused: u64,
    /// CHALLENGEs transmitted.
    pub challenges: u64,
    /// Requests that were not answered because too many were.
    pub unanswered: u64,
    /// Openings that were not admitted because there were
    /// [`Config::peers_max`](crate::Config::peers_max) peers.
    pub turned_away: u64,
}

/// Reordering of accepted messages, by RFC 4737: a message is out of sequence when one with a
/// higher number of the same connection arrived before it. A message that was lost and sent again
/// counts, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStats {
    /// Messages out of sequence.
    pub out_of_sequence: u64,
    /// The largest distance behind the highest number, below [`PSN_WINDOW`].
    pub behind_max: u32,
    /// The number of messages that were 2^i to 2^(i+1) - 1 numbers behind.
    pub behind: [u64; Self::CLASSES],
}

impl OrderStats {
    /// The number of classes of the histogram; the last one ends at the window's edge.
    pub const CLASSES: usize = PSN_WINDOW.ilog2() as usize;

    /// Records a message that was `behind` the highest number, 0 when in sequence.
    #[inline]
    pub(crate) fn note(&mut self, behind: u32) {
        if behind == 0 {
            return;
        }
        assert!(behind < PSN_WINDOW, "what is further behind is not accepted");
        self.out_of_sequence += 1;
        self.behind_max = self.behind_max.max(behind);
        self.behind[behind.ilog2() as usize] += 1;
    }
}

/// The state of one path toward one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Latest round-trip time measured over it in nanoseconds, 0 before the first.
    pub rtt_ns: u64,
    /// Data datagrams sent over it.
    pub tx_packets: u64,
    /// Packets declared lost on it.
    pub lost_packets: u64,
    /// The path is avoided at present because it lost packets.
    pub quarantined: bool,
}
