//! Which files there are, and what they count.

use crate::counters::Counter;

/// A file of a counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) name: &'static str,
    /// Ours; `None` for what cannot happen to a device without hardware, or is not counted.
    pub(super) counter: Option<Counter>,
    /// The number of ours that are one of theirs.
    pub(super) per_unit: u64,
}

const fn shown(name: &'static str, counter: Counter) -> Shown {
    Shown { name, counter: Some(counter), per_unit: 1 }
}

const fn never(name: &'static str) -> Shown {
    Shown { name, counter: None, per_unit: 1 }
}

/// Bytes in units of four, as InfiniBand counts them.
const fn words(name: &'static str, counter: Counter) -> Shown {
    Shown { name, counter: Some(counter), per_unit: 4 }
}

/// The counters that the driver of an EFA has per device (`efa_verbs.c`).
pub(super) const EFA_DEVICE: &[Shown] = &[
    shown("submitted_cmds", Counter::SubmittedCmds),
    // Each command is answered at once, and all are.
    shown("completed_cmds", Counter::SubmittedCmds),
    shown("cmds_err", Counter::CmdsErr),
    never("no_completion_cmds"),
    never("keep_alive_rcvd"),
    shown("alloc_pd_err", Counter::AllocPdErr),
    shown("create_qp_err", Counter::CreateQpErr),
    shown("create_cq_err", Counter::CreateCqErr),
    shown("reg_mr_err", Counter::RegMrErr),
    never("alloc_ucontext_err"),
    shown("create_ah_err", Counter::CreateAhErr),
    never("mmap_err"),
];

/// Returns the counters that it has per port.
pub(super) fn efa_port() -> Vec<Shown> {
    Counter::PORT.iter().map(|counter| shown(counter.name(), *counter)).collect()
}

/// The counters that rxe has per port (`rxe_hw_counters.c`).
pub(super) const ROCE_PORT: &[Shown] = &[
    shown("sent_pkts", Counter::TxPkts),
    shown("rcvd_pkts", Counter::RxPkts),
    shown("duplicate_request", Counter::RxDuplicates),
    shown("out_of_seq_request", Counter::OutOfSequence),
    shown("rcvd_rnr_err", Counter::RxRnrNaks),
    shown("send_rnr_err", Counter::RxRnr),
    shown("rcvd_seq_err", Counter::RxSequenceNaks),
    never("ack_deferred"),
    shown("retry_exceeded_err", Counter::UnresponsiveRemoteEvents),
    never("retry_rnr_exceeded_err"),
    shown("completer_retry_err", Counter::RetransTimeoutEvents),
    shown("send_err", Counter::TxErrors),
    never("link_downed"),
    shown("rdma_sends", Counter::SendWrs),
    shown("rdma_recvs", Counter::RecvWrs),
];

/// The counters that the kernel shows of every port of InfiniBand (`counters/`,
/// `drivers/infiniband/core/sysfs.c`).
pub(super) const IB_PORT: &[Shown] = &[
    words("port_xmit_data", Counter::TxBytes),
    words("port_rcv_data", Counter::RxBytes),
    shown("port_xmit_packets", Counter::TxPkts),
    shown("port_rcv_packets", Counter::RxPkts),
    shown("unicast_xmit_packets", Counter::TxPkts),
    shown("unicast_rcv_packets", Counter::RxPkts),
    never("multicast_xmit_packets"),
    never("multicast_rcv_packets"),
    shown("port_rcv_errors", Counter::RxDrops),
    shown("port_xmit_discards", Counter::TxErrors),
    never("port_xmit_wait"),
    never("symbol_error"),
    never("link_error_recovery"),
    never("link_downed"),
    never("port_rcv_remote_physical_errors"),
    never("port_rcv_switch_relay_errors"),
    never("port_xmit_constraint_errors"),
    never("port_rcv_constraint_errors"),
    never("local_link_integrity_errors"),
    never("excessive_buffer_overrun_errors"),
    never("VL15_dropped"),
];
