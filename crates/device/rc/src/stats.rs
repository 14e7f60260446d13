//! Counters.

use crate::DropReason;

/// The counters of one endpoint since it was made. All counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets transmitted, of every kind.
    pub tx_packets: u64,
    /// Request packets transmitted again.
    pub tx_repeated: u64,
    /// Packets of answers to READs, atomics, FLUSHes and ATOMIC WRITEs transmitted.
    pub tx_responses: u64,
    /// Acknowledgements transmitted.
    pub tx_acks: u64,
    /// "Packet missing" transmitted.
    pub tx_sequence_naks: u64,
    /// "No receive posted" transmitted.
    pub tx_rnr_naks: u64,
    /// Refusals transmitted.
    pub tx_refusals: u64,
    /// Packets received and understood.
    pub rx_packets: u64,
    /// Requests received again.
    pub rx_duplicates: u64,
    /// "Packet missing" received.
    pub rx_sequence_naks: u64,
    /// "No receive posted" received.
    pub rx_rnr_naks: u64,
    /// Answers that showed that earlier ones are missing.
    pub rx_implied_naks: u64,
    /// Times that nothing was acknowledged for too long.
    pub timeouts: u64,
    /// Times that an answer was overdue before the acknowledgement timeout (RC-4.5).
    pub early_timeouts: u64,
    /// Times that packets were repeated before the acknowledgement timeout because further reports
    /// indicated a loss (RC-4.6, RC-4.7).
    pub early_repetitions: u64,
    /// Congestion notifications received.
    pub rx_congestion: u64,
    /// Packets dropped, by reason (see [`DropReason`]).
    pub dropped: [u64; DropReason::COUNT],
}
