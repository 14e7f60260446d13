//! Short sends that share datagrams (SRD-14).

use std::collections::BTreeMap;

use crate::common::roce::WIRES;
use crate::common::sealing::{count, key};
use crate::common::{Side, poll_until, side_of};
use softefa::counters::Counter;
use softefa::{Access, Config, Integrity, QpKind, SendOp, Sge, Status};

const MESSAGES: u64 = 400;
/// The most messages that leave at once.
const BURST: u64 = 50;

fn pair(config: &Config) -> [Side; 2] {
    [side_of(QpKind::Srd, config), side_of(QpKind::Srd, config)]
}

/// Returns the contents of message `id`, 0 to 199 bytes.
fn content(id: u64) -> Vec<u8> {
    (0..id % 200).map(|at| (id.wrapping_mul(7) + at) as u8).collect()
}

/// Sends messages in bursts and checks that each arrives once and unchanged; returns the number of
/// packets that it took.
fn exchange([a, b]: &mut [Side; 2]) -> u64 {
    let (ah, before) = (a.ah(b), count(a, Counter::TxPkts));
    let mut arrived = BTreeMap::new();
    for burst in 0..MESSAGES / BURST {
        let ids = burst * BURST..(burst + 1) * BURST;
        for id in ids.clone() {
            let at = (id % BURST * 256) as usize;
            a.fill(at, &content(id));
            b.post_recv(id, at, 200);
        }
        for id in ids.clone() {
            let at = (id % BURST * 256) as usize;
            let op = SendOp::SendImm(id as u32);
            a.post(id, &ah, b.qp.qpn(), op, &[a.sge(at, (id % 200) as u32)]);
        }
        let mut left = 2 * BURST;
        poll_until(&[a, b], |index, done| {
            assert_eq!(done.status, Status::Ok, "{done:?}");
            if index == 1 {
                let at = (done.wr_id % BURST * 256) as usize;
                let id = u64::from(done.imm.expect("an immediate"));
                let bytes = b.bytes(at, done.byte_len as usize).to_vec();
                assert!(bytes == content(id), "message {id} is another");
                assert_eq!(arrived.insert(id, done.src_qpn), None, "message {id} came twice");
            }
            left -= 1;
            left == 0
        });
    }
    assert_eq!(arrived.len() as u64, MESSAGES);
    count(a, Counter::TxPkts) - before
}

#[test]
fn short_sends_share_datagrams() {
    let key = key(1);
    for wire in WIRES {
        for is_sealed in [false, true] {
            for integrity in [Integrity::Headers, Integrity::Crc32c] {
                let key = is_sealed.then(|| key.clone());
                let config = Config { wire, key, integrity, ..Config::default() };
                let mut sides = pair(&config);
                // On a busy machine the service thread may send the messages posted so far.
                let are_few = (0..50).any(|_| exchange(&mut sides) < MESSAGES / 4);
                assert!(are_few, "{wire:?} sealed: {is_sealed}: each had a packet of its own");
                let drops = count(&sides[1], Counter::RxDrops);
                assert_eq!(drops, 0, "{wire:?} sealed: {is_sealed}");
            }
        }
    }
}

/// With faults, or on a strict device, each message has its own datagram.
#[test]
fn nothing_is_shared_under_faults_and_strict() {
    let faults = "dup=1%,seed=1".parse().expect("faults");
    let faulty = Config { faults, ..Config::default() };
    let strict = Config { strict: true, ..Config::default() };
    for config in [&faulty, &strict] {
        let mut sides = pair(config);
        exchange(&mut sides);
        assert!(exchange(&mut sides) >= MESSAGES, "{config:?}");
        // The same holds if the peer does not share datagrams.
        let mut sides = [side_of(QpKind::Srd, &Config::default()), side_of(QpKind::Srd, config)];
        exchange(&mut sides);
        assert!(exchange(&mut sides) >= MESSAGES, "toward {config:?}");
    }
}

/// A message whose memory was unmapped since the post ends with an error, unless it was sent
/// before; the others arrive.
#[test]
fn a_message_that_cannot_be_read_ends_alone() {
    for wire in WIRES {
        let mut sides = pair(&Config { wire, ..Config::default() });
        exchange(&mut sides);
        // The other messages of its datagram are not repeated one by one.
        let shared =
            (0..200).any(|_| packets_without_one(&sides).is_some_and(|packets| packets < 10));
        assert!(shared, "{wire:?}: it always left before its memory was gone, or alone");
    }
}

/// Sends 20 messages, one of which loses its memory; returns the number of packets of all, unless
/// it was sent before.
fn packets_without_one([a, b]: &[Side; 2]) -> Option<u64> {
    let ah = a.ah(b);
    let memory = vec![1u8; 64].into_boxed_slice();
    let addr = memory.as_ptr() as u64;
    let region = a.pd.reg_mr(addr, 64, Access::default()).expect("a region");
    (0..20).for_each(|id| b.post_recv(id, id as usize * 64, 64));
    for id in 0..20 {
        let own = Sge { addr, len: 64, lkey: region.lkey() };
        let sge = if id == 7 { own } else { a.sge(0, 64) };
        a.post(id, &ah, b.qp.qpn(), SendOp::Send, &[sge]);
        if id == 7 {
            region.deregister();
        }
    }
    let (mut ended, mut arrived) = (BTreeMap::new(), 0);
    let before = count(a, Counter::TxPkts);
    poll_until(&[a, b], |index, done| {
        if index == 0 {
            assert_eq!(ended.insert(done.wr_id, done.status), None);
        } else {
            assert_eq!(done.status, Status::Ok);
            arrived += 1;
        }
        let is_read = ended.get(&7).is_none_or(|&status| status == Status::Ok);
        ended.len() == 20 && arrived == 19 + u64::from(is_read)
    });
    let is_read = ended.remove(&7) == Some(Status::Ok);
    assert!(ended.values().all(|&status| status == Status::Ok), "{ended:?}");
    let packets = count(a, Counter::TxPkts) - before;
    if !is_read {
        // The receive for it is still there.
        a.post(20, &ah, b.qp.qpn(), SendOp::Send, &[a.sge(0, 64)]);
        let mut left = 2;
        poll_until(&[a, b], |_, done| {
            assert_eq!(done.status, Status::Ok);
            left -= 1;
            left == 0
        });
    }
    (!is_read).then_some(packets)
}
