//! Messages of the connection manager, which do not belong to a queue pair of a program. They are
//! counted and captured like all packets of their device.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use crate::capture::{Fate, Protocol, Record};
use crate::counters::Counter;
use crate::device::Device;
use crate::host;
use crate::progress::live;
use crate::seal::Refusal;

static ON_FIRST_DATA: OnceLock<fn(IpAddr, u32)> = OnceLock::new();

/// Calls `report` from now on with the address of a device and the number of its queue pair when
/// the first packet of a connection has come: its requester is ready, though the message that says
/// so may be lost. `report` is called with locks held, and must not wait for others. Only the first
/// call has an effect.
pub fn on_first_data(report: fn(IpAddr, u32)) {
    let _ = ON_FIRST_DATA.set(report);
}

/// Makes queue pair `qpn` of the device at `device` take in what has come for it, before its
/// program learns that the connection is over: an adapter would have taken it in when it came, and
/// the program may destroy the queue pair at once. Does nothing if this process has no such queue
/// pair.
pub fn take_what_has_come(device: IpAddr, qpn: u32) {
    live::all().iter().filter(|qp| qp.is_at(device, qpn)).for_each(|qp| qp.take_in());
}

/// Returns true if queue pair `qpn` of the device at `device` has successes that have not been
/// polled yet, which are lost if the program destroys the queue pair first.
#[must_use]
pub fn has_unseen_success(device: IpAddr, qpn: u32) -> bool {
    live::all().iter().any(|qp| qp.is_at(device, qpn) && qp.has_unseen_success())
}

/// Reports that the first packet of a connection of queue pair `qpn` has come.
pub(crate) fn report_first_data(device: IpAddr, qpn: u32) {
    if let Some(report) = ON_FIRST_DATA.get() {
        report(device, qpn);
    }
}

/// A datagram that holds a message, or should hold one.
#[derive(Debug, Clone, Copy)]
pub struct ManagementPacket<'a> {
    /// The address that it came from.
    pub src: SocketAddr,
    /// The address that it was sent to.
    pub dst: SocketAddr,
    /// The UDP payload of the datagram.
    pub bytes: &'a [u8],
}

/// The verdict on a datagram that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The datagram held a message.
    Message,
    /// The datagram held no message.
    Unfit,
    /// The check of the datagram was wrong.
    Damaged,
    /// The datagram could not be opened, or it was sealed and there is no key (RC-1.14).
    Sealed {
        /// The reason why.
        refusal: Refusal,
        /// A datagram of that host was opened before: it has the key, and this datagram may be
        /// damaged.
        is_known: bool,
    },
}

impl Device {
    /// Notes that the operating system took this packet to be sent.
    pub fn sent_management(&self, packet: ManagementPacket<'_>) {
        let counters = self.counters();
        counters.add(Counter::TxPkts, 1);
        counters.add(Counter::TxBytes, packet.bytes.len() as u64);
        counters.add(Counter::CmTxMsgs, 1);
        self.show_management(Fate::Sent, packet);
    }

    /// Notes that this packet was received.
    pub fn received_management(&self, packet: ManagementPacket<'_>, verdict: Verdict) {
        let counters = self.counters();
        counters.add(Counter::RxPkts, 1);
        counters.add(Counter::RxBytes, packet.bytes.len() as u64);
        match verdict {
            Verdict::Message => counters.add(Counter::CmRxMsgs, 1),
            Verdict::Unfit => counters.add(Counter::RxDrops, 1),
            Verdict::Damaged => {
                counters.add(Counter::RxDrops, 1);
                counters.add(Counter::RxCrcErrors, 1);
            }
            Verdict::Sealed { refusal, is_known } => {
                counters.add(Counter::RxDrops, 1);
                counters.add(Counter::of_refusal(refusal), 1);
                if !is_known && matches!(refusal, Refusal::NotSealed | Refusal::Tag) {
                    self.sealing.report_other_key(self.name(), packet.src.ip());
                }
            }
        }
        self.show_management(Fate::Received, packet);
    }

    /// Notes that a peer was told that its message could not be opened.
    pub fn sent_notice(&self) {
        self.counters().add(Counter::TxNotices, 1);
    }

    /// Notes that a notice came about a message of ours.
    pub fn received_notice(&self) {
        self.counters().add(Counter::RxNotices, 1);
    }

    /// Notes that a received message changed nothing: repeated, late, of no connection, or too
    /// many.
    pub fn ignored_management(&self) {
        self.counters().add(Counter::CmRxIgnored, 1);
    }

    fn show_management(&self, fate: Fate, packet: ManagementPacket<'_>) {
        if !self.capture().is_on() {
            return;
        }
        let ManagementPacket { src, dst, bytes } = packet;
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        let (time_ns, protocol) = (host::epoch_ns(), Protocol::Roce);
        let head = Record { time_ns, fate, protocol, src, dst, len, bytes: Vec::new() };
        self.capture()
            .record(&head, |max, out| out.extend_from_slice(&bytes[..bytes.len().min(max)]));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::Config;

    #[test]
    fn messages_count_as_packets_of_their_device() {
        let device =
            Device::open(&"roce0=127.0.0.1,profile=roce".parse().unwrap(), &Config::default());
        let device = device.unwrap();
        let at = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let packet = ManagementPacket { src: at(1), dst: at(2), bytes: &[0; 280] };
        device.sent_management(packet);
        for verdict in [Verdict::Message, Verdict::Unfit, Verdict::Damaged, Verdict::Damaged] {
            device.received_management(packet, verdict);
        }
        device.ignored_management();
        let counted = |counter| device.counters().get(counter);
        assert_eq!((counted(Counter::TxPkts), counted(Counter::TxBytes)), (1, 280));
        assert_eq!((counted(Counter::RxPkts), counted(Counter::RxBytes)), (4, 4 * 280));
        assert_eq!((counted(Counter::RxDrops), counted(Counter::RxCrcErrors)), (3, 2));
        let messages = [Counter::CmTxMsgs, Counter::CmRxMsgs, Counter::CmRxIgnored].map(counted);
        assert_eq!(messages, [1, 1, 1]);
    }
}
