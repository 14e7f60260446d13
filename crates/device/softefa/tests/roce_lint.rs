//! The lines of `--lint` about XRC targets. They go to standard error, so each program is a child.

use crate::common::roce::{Link, config, ends};
use crate::common::xrc::{Target, found, pair_of, post, post_to};
use crate::common::{Side, only};
use softefa::{Config, Cq, SendOp, SrqAttr, Status, WireChoice};

const CHILD: &str = "SOFTEFA_TEST_CHILD";

/// Returns the lines of this test's program on standard error, with or without a request for them.
fn lines_of(test: &str, wish: &str) -> Vec<String> {
    let child = only(module_path!(), test).env(CHILD, wish).output().expect("a child");
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{said}");
    said.lines().filter(|line| line.contains("softefa: lint: ")).map(str::to_owned).collect()
}

fn pair(wish: &str) -> (Side, Target) {
    let config = Config { lint: wish == "1", ..config(WireChoice::Udp, "") };
    pair_of(&config, 1 << 16, &Link { rnr_retry: 0, ..Link::default() })
}

/// Makes four mistakes: a queue that does not exist, one without a receive, a receive without
/// memory, and a queue that is full of completions.
fn make_mistakes(wish: &str) {
    let (a, b) = pair(wish);
    post_to(&a.qp, b.srq.number() + 100, 1, SendOp::Send, &[a.sge(0, 8)]);
    let [sent, _] = found(&a, &b, 1);
    assert_eq!(ends(&sent, true), [(1, Status::RemoteInvalidQueue)]);

    let (a, b) = pair(wish);
    post(&a, &b, 2, SendOp::Send, &[a.sge(0, 8)]);
    let [sent, _] = found(&a, &b, 1);
    assert_eq!(ends(&sent, true), [(2, Status::RemoteRnr)]);

    let (a, b) = pair(wish);
    b.post_recv(0x77, 0, 8);
    b.side.mr.deregister();
    post(&a, &b, 3, SendOp::Send, &[a.sge(0, 8)]);
    let [sent, got] = found(&a, &b, 2);
    assert_eq!(ends(&sent, true), [(3, Status::RemoteOperation)]);
    assert_eq!(ends(&got, false), [(0x77, Status::LocalInvalidLkey)]);

    let (a, b) = pair(wish);
    let small = Cq::create(&b.side.device, 2).expect("a queue");
    let attr = SrqAttr { max_wr: 8, max_sge: 1, limit: 0 };
    let srq = b.xrcd.create_srq(&b.side.pd, &small, &attr, None).expect("a shared queue");
    for id in 0..3 {
        srq.post_recv(id, &[b.side.sge(0, 8)]).expect("room");
        post_to(&a.qp, srq.number(), id, SendOp::Send, &[a.sge(0, 8)]);
        let [sent, _] = found(&a, &b, 1);
        assert_eq!(ends(&sent, true), [(id, Status::Ok)]);
    }
}

#[test]
fn mistakes_at_a_target_are_named() {
    if let Ok(wish) = std::env::var(CHILD) {
        return make_mistakes(&wish);
    }
    let lines = lines_of("mistakes_at_a_target_are_named", "1");
    for expected in [
        "which its XRC domain does not have",
        "a message of 127.0.0.1 found no receive",
        "work request 0x77 ended with LocalInvalidLkey",
        "a completion queue of 2 entries holds 3",
    ] {
        let count = lines.iter().filter(|line| line.contains(expected)).count();
        assert_eq!(count, 1, "'{expected}' in {lines:#?}");
    }
    assert_eq!(lines_of("mistakes_at_a_target_are_named", "0"), [""; 0], "nobody asked");
}
