//! Counters of a device, which other processes can read while its process runs and after it has
//! ended.

mod fault;
mod file;
mod gauges;
mod links;
mod request;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;

pub use fault::{DEALT, FaultSource, FaultStatus};
pub use file::{ProcessCounters, count_foreign, read_dir};
pub use gauges::{GAUGE_PATHS_MAX, Gauge, PathGauge, QueuePairGauge};
pub use links::Link;

pub(crate) use fault::FaultWords;
pub(crate) use file::{announce_faults, map, request_words};
pub(crate) use gauges::{Gauges, Slot};
pub(crate) use links::{Links, Shown};
pub(crate) use request::{Request, ask};

use file::Opened;

use crate::generation::Generation;
use crate::mapped::Words;
use crate::seal::Refusal;

macro_rules! counters {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// The counters of a device. Their names are those of the kernel driver's `hw_counters`
        /// where it has the same.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $(#[doc = $doc] $variant,)* }

        impl Counter {
            /// All counters, in file order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name in files and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Returns what the counter counts.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $doc),* }
            }
        }
    };
}

counters! {
    TxPkts "tx_pkts" "Datagrams sent, acknowledgements included. Several short sends may share one.";
    TxBytes "tx_bytes" "Bytes sent above UDP.";
    RxPkts "rx_pkts" "Datagrams received.";
    RxBytes "rx_bytes" "Bytes received above UDP.";
    RxDrops "rx_drops" "Datagrams received that named no receiver here, were damaged or malformed, or found no UD receive.";
    SendWrs "send_wrs" "Send work requests posted.";
    SendBytes "send_bytes" "Payload bytes of sends posted.";
    RecvWrs "recv_wrs" "Messages delivered to receive work requests.";
    RecvBytes "recv_bytes" "Payload bytes delivered.";
    RdmaReadWrs "rdma_read_wrs" "RDMA READs posted.";
    RdmaReadBytes "rdma_read_bytes" "Bytes of RDMA READs posted.";
    RdmaReadWrErr "rdma_read_wr_err" "RDMA READs that ended with an error.";
    RdmaReadRespBytes "rdma_read_resp_bytes" "Bytes of RDMA READs taken in by the responder.";
    RdmaWriteWrs "rdma_write_wrs" "RDMA WRITEs posted.";
    RdmaWriteBytes "rdma_write_bytes" "Bytes of RDMA WRITEs posted.";
    RdmaWriteWrErr "rdma_write_wr_err" "RDMA WRITEs that ended with an error.";
    RdmaWriteRecvBytes "rdma_write_recv_bytes" "Bytes of RDMA WRITEs placed here.";
    RdmaLocalBytes "rdma_local_bytes" "Bytes of RDMA this process copied out of another process of this machine.";
    RetransPkts "retrans_pkts" "Datagrams sent again.";
    RetransBytes "retrans_bytes" "Payload bytes sent again.";
    RetransGonePkts "retrans_gone_pkts" "Of them, those without the bytes, because the program had given up the memory; they only ask whether the message had arrived.";
    RetransTimeoutEvents "retrans_timeout_events" "Loss timers that expired.";
    UnresponsiveRemoteEvents "unresponsive_remote_events" "Peers given up after silence.";
    ImpairedRemoteConnEvents "impaired_remote_conn_events" "Times a peer lost most of its paths.";
    RxDuplicates "rx_duplicates" "Datagrams received again and not delivered.";
    OutOfSequence "out_of_sequence" "Messages taken after one of the same connection with a higher number (RFC 4737).";
    OutOfSequenceMax "out_of_sequence_max" "Most numbers one of them was behind the highest; a maximum, not a sum.";
    OutOfSequence1 "out_of_sequence_1" "Of them, those that were 1 number behind.";
    OutOfSequence2 "out_of_sequence_2" "2 to 3 numbers behind.";
    OutOfSequence4 "out_of_sequence_4" "4 to 7.";
    OutOfSequence8 "out_of_sequence_8" "8 to 15.";
    OutOfSequence16 "out_of_sequence_16" "16 to 31.";
    OutOfSequence32 "out_of_sequence_32" "32 to 63.";
    OutOfSequence64 "out_of_sequence_64" "64 to 127.";
    OutOfSequence128 "out_of_sequence_128" "128 to 255.";
    OutOfSequence256 "out_of_sequence_256" "256 to 511.";
    OutOfSequence512 "out_of_sequence_512" "512 to 1,023.";
    OutOfSequence1024 "out_of_sequence_1024" "1,024 to 2,047.";
    OutOfSequence2048 "out_of_sequence_2048" "2,048 to 4,095.";
    OutOfSequence4096 "out_of_sequence_4096" "4,096 to 8,191.";
    RxCrcErrors "rx_crc_errors" "Datagrams received damaged: their check failed. Also in `rx_drops`.";
    RxSealErrors "rx_seal_errors" "Datagrams received that do not open: sealed with another key or with none, where there is a key or where there is none, or altered. Also in `rx_drops`.";
    RxSealReplays "rx_seal_replays" "Sealed datagrams received a second time. Also in `rx_drops`.";
    RxSealLate "rx_seal_late" "Sealed datagrams too far behind to tell whether they were received before. Also in `rx_drops`.";
    RxSealStrangers "rx_seal_strangers" "Sealed datagrams of new senders beyond the most that are remembered. Also in `rx_drops`.";
    TxNotices "tx_notices" "Notices sent to those whose datagrams do not open.";
    RxNotices "rx_notices" "Notices received, including those that were ignored as possibly forged.";
    TxSequenceNaks "tx_sequence_naks" "Gaps in what a connection received that the peer was told of.";
    RxSequenceNaks "rx_sequence_naks" "Gaps in what a connection sent that the peer told of.";
    RxRnrNaks "rx_rnr_naks" "Messages of a connection that the peer turned away because no receive was posted.";
    RxNoReceive "rx_no_receive" "Messages of UC and UD of a RoCE device lost because no receive was posted. Also in `rx_drops`.";
    RxRnr "rx_rnr" "Messages turned away because no receive was posted.";
    AckPkts "ack_pkts" "Acknowledgements sent in a datagram of their own.";
    ConnChallenged "conn_challenged" "Times a peer wanted proof of our address before it opened a connection.";
    StrangerResets "stranger_resets" "Datagrams of unknown connections that were answered with a reset.";
    StrangerRefusals "stranger_refusals" "Openings of connections refused: another queue key, or a queue pair that closes.";
    StrangerChallenges "stranger_challenges" "Openings of connections whose address had to be proved first.";
    StrangersUnanswered "strangers_unanswered" "Of all these, those left without an answer because there were too many.";
    StrangersTurnedAway "strangers_turned_away" "Openings of connections refused because there were already as many peers as allowed.";
    RefusalsUnanswered "refusals_unanswered" "Messages left to be sent again because no more refusals could be remembered.";
    TxMemoryPkts "tx_memory_pkts" "Packets sent through shared memory. Also in `tx_pkts`.";
    RxMemoryPkts "rx_memory_pkts" "Packets received through shared memory. Also in `rx_pkts`.";
    TxUnsealedPkts "tx_unsealed_pkts" "Packets of a device with a key that were not sealed, because they went through memory to a program with the same key. Also in `tx_memory_pkts`.";
    CmTxMsgs "cm_tx_msgs" "Messages of the connection manager sent. Also in `tx_pkts`.";
    CmRxMsgs "cm_rx_msgs" "Messages of the connection manager received. Also in `rx_pkts`.";
    CmRxIgnored "cm_rx_ignored" "Of them, those that changed nothing: repeated, late, from unknown senders, or too many.";
    TxSyscalls "tx_syscalls" "System calls that sent.";
    RxSyscalls "rx_syscalls" "System calls that received something.";
    TxErrors "tx_errors" "Datagrams the operating system refused to send.";
    TxBlocked "tx_blocked" "Datagrams that found no room in their own socket, or that of UC and UD in a ring, and left later.";
    TxRefused "tx_refused" "Sends for which the operating system first reported that an earlier datagram was refused by its target.";
    FaultLost "fault_lost" "Datagrams dropped on purpose.";
    FaultReordered "fault_reordered" "Datagrams held back on purpose.";
    FaultDuplicated "fault_duplicated" "Datagrams doubled on purpose.";
    FaultBlackholed "fault_blackholed" "Datagrams a path swallowed on purpose.";
    FaultMangled "fault_mangled" "Datagrams sent with headers altered on purpose.";
    FaultCorrupted "fault_corrupted" "Datagrams sent with payload altered on purpose.";
    FaultRnr "fault_rnr" "Messages turned away on purpose as if no receive were posted. Also in `rx_rnr`.";
    FaultInternal "fault_internal" "Sends that failed on purpose.";
    FaultAckLost "fault_ack_lost" "Acknowledgements and NAKs of connections dropped on purpose.";
    FaultNak "fault_nak" "Acknowledgements that said on purpose that a packet was missing.";
    FaultPsnGap "fault_psn_gap" "Requests sent with a number that skipped on purpose.";
    ServiceTurns "service_turns" "Turns the service thread drove because nobody polled.";
    SubmittedCmds "submitted_cmds" "Commands to the device that make or change an object.";
    CmdsErr "cmds_err" "Commands the device refused.";
    AllocPdErr "alloc_pd_err" "Protection domains refused.";
    CreateQpErr "create_qp_err" "Queue pairs refused.";
    CreateCqErr "create_cq_err" "Completion queues refused.";
    RegMrErr "reg_mr_err" "Memory regions refused.";
    CreateAhErr "create_ah_err" "Address handles refused.";
}

impl Counter {
    /// Returns the counter of datagrams that are refused for this reason.
    pub(crate) fn of_refusal(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Replayed => Self::RxSealReplays,
            Refusal::Late => Self::RxSealLate,
            Refusal::TooManySenders => Self::RxSealStrangers,
            _ => Self::RxSealErrors,
        }
    }

    /// Histogram of the distance by which messages were behind, from 1 on. Each class is twice as
    /// wide as the one before.
    pub const OUT_OF_SEQUENCE: [Self; srd::OrderStats::CLASSES] = [
        Self::OutOfSequence1,
        Self::OutOfSequence2,
        Self::OutOfSequence4,
        Self::OutOfSequence8,
        Self::OutOfSequence16,
        Self::OutOfSequence32,
        Self::OutOfSequence64,
        Self::OutOfSequence128,
        Self::OutOfSequence256,
        Self::OutOfSequence512,
        Self::OutOfSequence1024,
        Self::OutOfSequence2048,
        Self::OutOfSequence4096,
    ];

    /// Combines the values of several queue pairs, devices or processes.
    #[must_use]
    pub fn combine(self, one: u64, other: u64) -> u64 {
        if self == Self::OutOfSequenceMax { one.max(other) } else { one.wrapping_add(other) }
    }

    /// The counters that the kernel driver has per port (`efa_verbs.c`), which is
    /// `ports/1/hw_counters` in the device's sysfs directory.
    pub const PORT: &'static [Self] = &[
        Self::TxBytes,
        Self::TxPkts,
        Self::RxBytes,
        Self::RxPkts,
        Self::RxDrops,
        Self::SendBytes,
        Self::SendWrs,
        Self::RecvBytes,
        Self::RecvWrs,
        Self::RdmaReadWrs,
        Self::RdmaReadBytes,
        Self::RdmaReadWrErr,
        Self::RdmaReadRespBytes,
        Self::RdmaWriteWrs,
        Self::RdmaWriteBytes,
        Self::RdmaWriteWrErr,
        Self::RdmaWriteRecvBytes,
        Self::RetransBytes,
        Self::RetransPkts,
        Self::RetransTimeoutEvents,
        Self::UnresponsiveRemoteEvents,
        Self::ImpairedRemoteConnEvents,
    ];
}

/// Counters of one device in this process.
#[derive(Debug)]
pub struct Counters {
    values: Words,
    links: Links,
    gauges: Gauges,
    faults: FaultWords,
    made: Generation,
}

impl Counters {
    /// Makes counters that only this process sees.
    pub(crate) fn private() -> Self {
        let values = Words::own(Counter::ALL.len());
        let (links, gauges) = (Links::private(), Gauges::private());
        Self { values, links, gauges, faults: FaultWords::private(), made: Generation::current() }
    }

    /// Makes the counters of the device at `addr` in `run_dir`, which other processes can read, and
    /// through which they make requests.
    pub(crate) fn in_dir(
        run_dir: &Path,
        device: &str,
        addr: IpAddr,
    ) -> io::Result<(Self, Request)> {
        let Opened { values, links, gauges, faults, request } =
            file::create(run_dir, device, addr)?;
        Ok((Self { values, links, gauges, faults, made: Generation::current() }, request))
    }

    /// Returns the peers that the device's queue pairs reach through memory.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the gauges of the device's queue pairs.
    pub(crate) fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// Returns the words in which the device publishes its faults, and is told of requests for
    /// others.
    pub(crate) fn faults(&self) -> &FaultWords {
        &self.faults
    }

    /// Returns how many faults the device has dealt.
    pub(crate) fn dealt(&self) -> [u64; DEALT.len()] {
        DEALT.map(|counter| self.get(counter))
    }

    /// Raises a maximum to `value`, if it is lower.
    pub(crate) fn raise(&self, counter: Counter, value: u64) {
        self.values[counter as usize].fetch_max(value, Ordering::Relaxed);
    }

    /// Adds `n` with relaxed order, which is cheap enough for once per turn.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        if n > 0 {
            self.values[counter as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Counts a command to the device, and its failure also as `refused` if given.
    pub(crate) fn command<T, E>(
        &self,
        result: Result<T, E>,
        refused: Option<Counter>,
    ) -> Result<T, E> {
        // A child shares the file with its parent, and none of its commands reach the device.
        if !self.made.is_current() {
            return result;
        }
        self.add(Counter::SubmittedCmds, 1);
        if result.is_err() {
            self.add(Counter::CmdsErr, 1);
            if let Some(counter) = refused {
                self.add(counter, 1);
            }
        }
        result
    }

    /// Returns the present value.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_of_counters_has_all_of_them() {
        let mut rows = String::new();
        for counter in Counter::ALL {
            let _ = writeln!(rows, "| `{}` | {} |", counter.name(), counter.meaning());
        }
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/COUNTERS.md");
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.ends_with(&rows), "the table of {} ends with:\n{rows}", page.display());
    }
}
