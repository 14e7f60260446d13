//! The packets that were sent and have not been acknowledged, and the times that acknowledgements
//! took on each path.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::line::{number, peer, value};
use super::messages::Message;
use super::packets::is_answer;

/// The most packets that are remembered for one peer. The oldest packets of a peer that never
/// answers are forgotten.
const SENT_MAX: usize = 1 << 16;

/// A packet that has not been acknowledged.
#[derive(Debug, Clone)]
struct Packet {
    psn: u32,
    first_ns: u64,
    last_ns: u64,
    path: u16,
    times: u32,
    op: String,
    len: u64,
}

/// The packets in flight to one peer.
#[derive(Debug, Default)]
struct Flow {
    /// The numbers of the packets, in order.
    order: VecDeque<u32>,
    packets: HashMap<u32, Packet>,
}

/// The traffic of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// The times at which datagrams with a message were sent.
    pub(super) sent_ns: Vec<u64>,
    /// Number of packets that were declared lost.
    pub(super) lost: u64,
    /// For each acknowledgement of a packet that had been sent once, its time and how long it took.
    pub(super) answers: Vec<(u64, u64)>,
}

/// The packets that one queue pair has sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    flows: HashMap<String, Flow>,
    pub(super) paths: BTreeMap<u16, Path>,
    /// The packets that were acknowledged, if they are wanted.
    pub(super) done: Vec<Message>,
    keeps_done: bool,
}

impl Sent {
    /// Makes an empty record. With `keeps_done`, packets are kept as if they were messages.
    pub(super) fn new(keeps_done: bool) -> Self {
        Self { keeps_done, ..Self::default() }
    }

    /// Records that a packet was given to the wire.
    pub(super) fn transmit(&mut self, at_ns: u64, what: &str) {
        let path = number(what, "path").and_then(|path| path.try_into().ok());
        let is_roce_answer = path.is_none() && is_answer(what);
        let path: u16 = path.unwrap_or_default();
        self.paths.entry(path).or_default().sent_ns.push(at_ns);
        let psn = number(what, "psn").and_then(|psn| psn.try_into().ok());
        let Some(psn) = psn.filter(|_| !is_roce_answer) else { return };
        let flow = self.flows.entry(peer(what).to_owned()).or_default();
        if let Some(packet) = flow.packets.get_mut(&psn) {
            (packet.last_ns, packet.path) = (at_ns, path);
            packet.times += 1;
            return;
        }
        let packet = Packet {
            psn,
            first_ns: at_ns,
            last_ns: at_ns,
            path,
            times: 1,
            op: value(what, "op").unwrap_or_default().to_owned(),
            len: number(what, "len").unwrap_or_default(),
        };
        flow.order.push_back(psn);
        flow.packets.insert(psn, packet);
        if flow.order.len() > SENT_MAX {
            if let Some(oldest) = flow.order.pop_front() {
                flow.packets.remove(&oldest);
            }
        }
    }

    /// Records that a transmission was declared lost.
    pub(super) fn lose(&mut self, what: &str) {
        let path = number(what, "path").and_then(|path| path.try_into().ok()).unwrap_or_default();
        self.paths.entry(path).or_default().lost += 1;
    }

    /// Records that an acknowledgement of SRD has come.
    pub(super) fn acknowledged(&mut self, at_ns: u64, what: &str) {
        let [cum, last] = ["cum", "last"].map(|key| psn(what, key));
        if let Some(last) = last {
            self.answer(at_ns, what, last);
        }
        if let Some(cum) = cum {
            self.resolve(at_ns, what, |psn| (psn.wrapping_sub(cum) as i32) < 0);
        }
    }

    /// Records that a packet of RoCE has come.
    pub(super) fn received(&mut self, at_ns: u64, what: &str) {
        let is_negative =
            value(what, "syndrome").is_some_and(|syndrome| !syndrome.starts_with("Ack"));
        let Some(last) = psn(what, "psn").filter(|_| is_answer(what) && !is_negative) else {
            return;
        };
        self.answer(at_ns, what, last);
        // Numbers have 24 bits and wrap.
        self.resolve(at_ns, what, |psn| last.wrapping_sub(psn) & 0xff_ffff < 1 << 23);
    }

    /// Measures the time until a packet was acknowledged. A packet that was sent twice gives no
    /// time, because it is unknown which of both was answered (Karn's rule).
    fn answer(&mut self, at_ns: u64, what: &str, psn: u32) {
        let Some(flow) = self.flows.get_mut(peer(what)) else { return };
        let Some(packet) = flow.packets.remove(&psn) else { return };
        if packet.times == 1 {
            let path = self.paths.entry(packet.path).or_default();
            path.answers.push((at_ns, at_ns.saturating_sub(packet.last_ns)));
        }
        self.finish(at_ns, packet);
    }

    /// Marks the packets with the numbers `taken` as arrived.
    fn resolve(&mut self, at_ns: u64, what: &str, taken: impl Fn(u32) -> bool) {
        let Some(flow) = self.flows.get_mut(peer(what)) else { return };
        let mut done = Vec::new();
        while let Some(psn) = flow.order.front().copied().filter(|psn| taken(*psn)) {
            flow.order.pop_front();
            done.extend(flow.packets.remove(&psn));
        }
        done.into_iter().for_each(|packet| self.finish(at_ns, packet));
    }

    fn finish(&mut self, at_ns: u64, packet: Packet) {
        if self.keeps_done {
            let Packet { psn, first_ns, times, path, op, len, .. } = packet;
            let again = if times > 1 { format!(", sent {times} times") } else { String::new() };
            self.done.push(Message {
                start_ns: first_ns,
                end_ns: Some(at_ns),
                op,
                len,
                what: format!("psn {psn}, path {path}{again}"),
                is_failed: false,
            });
        }
    }
}

fn psn(what: &str, key: &str) -> Option<u32> {
    number(what, key).and_then(|psn| psn.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_ends_what_it_covers_and_times_what_it_names() {
        let mut sent = Sent::new(true);
        sent.transmit(10, "a:1 op=SEND psn=4294967295 path=0 len=2 flags=-");
        sent.transmit(11, "a:1 op=SEND psn=0 path=1 len=2 flags=-");
        sent.transmit(12, "a:1 op=SEND psn=1 path=1 len=2 flags=-");
        sent.transmit(13, "a:1 op=SEND psn=0 path=0 len=2 flags=RTX");
        sent.lose("a:1 psn=0 path=1 by=silence");
        sent.acknowledged(20, "a:1 dir=in path=0 cum=1 last=1 above=1");
        sent.acknowledged(21, "b:1 dir=in path=0 cum=9 last=9 above=0");
        let ended: Vec<_> = sent.done.iter().map(|done| (done.start_ns, done.end_ns)).collect();
        assert_eq!(ended, [(12, Some(20)), (10, Some(20)), (11, Some(20))]);
        assert_eq!(sent.paths[&1], Path { sent_ns: vec![11, 12], lost: 1, answers: vec![(20, 8)] });
        assert_eq!(sent.paths[&0].answers, []);
    }

    #[test]
    fn an_acknowledgement_of_roce_covers_all_before() {
        let mut sent = Sent::new(false);
        sent.transmit(10, "a:1 op=SendOnly psn=16777215 len=2");
        sent.transmit(11, "a:1 op=SendOnly psn=0 len=2");
        sent.transmit(12, "a:1 op=Acknowledge psn=77 len=0");
        sent.received(15, "a:1 op=Acknowledge psn=0 syndrome=RnrNak(1)");
        sent.received(20, "a:1 op=Acknowledge psn=0 syndrome=Ack(31)");
        assert_eq!(
            (sent.paths[&0].answers.as_slice(), sent.paths[&0].sent_ns.len()),
            (&[(20, 9)][..], 3)
        );
        assert!(sent.flows["a:1"].packets.is_empty() && sent.done.is_empty());
    }
}
