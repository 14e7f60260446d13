//! Exchanges messages, each of which must arrive once.

use std::time::{Duration, Instant};

use softefa::{SendOp, Status};

use super::Side;

/// Sends `count` numbered messages of different lengths one after the other, several at a time.
/// Each arrives once and unchanged.
pub fn exchange(a: &mut Side, b: &Side, count: u64) {
    const SLOTS: u64 = 16;
    let ah = a.ah(b);
    let (mut posted, mut sent, mut received) = (0, 0, 0);
    let len_of = |number: u64| 8 + (number * 37 % 2000) as u32;
    let mut seen = vec![false; count as usize];
    let begin = Instant::now();
    let (mut queued, mut free) = (0, (0..SLOTS).collect::<Vec<_>>());
    while sent < count || received < count {
        assert!(begin.elapsed() < Duration::from_secs(60), "{sent} sent, {received} received");
        while queued < count && queued - received < SLOTS {
            b.post_recv(queued % SLOTS, 4096 * (queued % SLOTS) as usize, 4096);
            queued += 1;
        }
        while posted < queued {
            let Some(slot) = free.pop() else { break };
            let at = 4096 * slot as usize;
            a.fill(at, &u64::to_le_bytes(posted));
            a.post(slot, &ah, b.qp.qpn(), SendOp::Send, &[a.sge(at, len_of(posted))]);
            posted += 1;
        }
        a.cq.poll(16, |done| {
            assert_eq!(done.status, Status::Ok);
            free.push(done.wr_id);
            sent += 1;
        });
        b.cq.poll(16, |done| {
            assert_eq!(done.status, Status::Ok);
            let at = 4096 * done.wr_id as usize;
            let number = u64::from_le_bytes(b.bytes(at, 8).try_into().expect("eight bytes"));
            assert_eq!(done.byte_len, len_of(number));
            assert!(!std::mem::replace(&mut seen[number as usize], true), "{number} came twice");
            received += 1;
        });
    }
}
