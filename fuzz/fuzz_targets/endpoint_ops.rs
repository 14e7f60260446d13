//! Any bytes as a sequence of operations on a pair of endpoints; the oracles are the tests' own.
#![no_main]

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../../crates/device/srd/tests/common/mod.rs"]
mod common;

use common::{Answer, Faults, KEY, Pair};
use libfuzzer_sys::fuzz_target;
use srd::{Config, Message, MsgId, Reject};

const SECOND_NS: u64 = 1_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let mut ops = bytes.chunks_exact(4).take(200);
    let Some(start) = ops.next() else { return };
    let config =
        if start[0] & 1 == 0 { Config::socket() } else { Config::simulated(12_500, 20_000, 4150) };
    let config = Config { always_challenge: start[0] & 2 != 0, ..config };
    let mut pair = Pair::new(config, u64::from(start[1]));
    for (id, op) in ops.enumerate() {
        apply(&mut pair, id as u64 * 256, [op[0], op[1], op[2], op[3]]);
    }
    pair.faults = Faults::default();
    pair.nodes.iter_mut().for_each(|node| node.answer = Answer::Accept);
    assert!(pair.run_until_done(20 * SECOND_NS), "messages do not end on a healthy network");
    assert!(pair.check.all_ended(), "a message was forgotten");
});

fn apply(pair: &mut Pair, id: u64, [op, a, b, c]: [u8; 4]) {
    let who = usize::from(a & 1);
    match op % 8 {
        0 | 1 => {
            for i in 0..u64::from(b) {
                let (len, rnr_retry) = (u32::from(c) * 15, a >> 1 & 7);
                let id = MsgId(id + i);
                // With the high bit, every third has a wrong key.
                let qkey = KEY + u32::from(a & 0x80 != 0 && i % 3 == 0);
                let is_one_sided = i % 4 == 1;
                let op = u8::from(is_one_sided);
                let may_share = c % 2 == 0;
                let (flags, imm) = (0, 0);
                let msg =
                    Message { id, len, op, flags, qkey, imm, rnr_retry, is_one_sided, may_share };
                pair.send_with(who, msg);
            }
        }
        2 | 3 => pair.run_ns(1 << (a % 32)),
        4 => {
            pair.faults = Faults {
                loss: u32::from(a) * 4,
                duplicate: u32::from(b),
                reorder: u32::from(c) * 2,
                dead_paths: if c < 64 { 1 << (c % 4) } else { 0 },
            };
        }
        5 => {
            pair.nodes[who].answer = match b % 5 {
                0 => Answer::Accept,
                1 => Answer::Refuse(Reject::Rnr),
                2 => Answer::Refuse(Reject::BadLength),
                3 => Answer::NoReceive,
                _ => Answer::Mixed,
            };
        }
        6 => {
            let (now, peer) = (pair.now, pair.peer_of(who));
            pair.nodes[who].engine.cancel_peer(now, peer);
        }
        _ => {
            pair.turn();
            pair.now = pair.now.plus_ns(1_000_000);
            pair.restart(who, u64::from(b) + 1000);
        }
    }
    pair.turn();
}
