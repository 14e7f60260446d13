//! The state machine of connected queue pairs: the attributes that each transition needs, and those
//! that it refuses. A transition happens completely or not at all.
#![allow(clippy::unwrap_used, reason = "what cannot be set up has failed")]

use std::net::{IpAddr, Ipv4Addr};

use crate::common::roce::{
    EVERYTHING, Link, config, ends, gather, pair, pair_of, post, side, to, to_init, to_receive,
    to_send, wr,
};
use crate::common::{Side, remote};
use softefa::{
    Config, Gid, ModifyError, ModifyQp, Path, PostError, QpKind, QpState, SendOp, Status,
    WireChoice,
};

const KINDS: [QpKind; 2] = [QpKind::Rc, QpKind::Uc];
const PEER: u32 = 0x12_3456;

fn fresh(kind: QpKind) -> Side {
    side(&config(WireChoice::Udp, ""), kind, 4096)
}

fn ways(side: &Side) -> [ModifyQp; 3] {
    let (kind, link) = (side.qp.init().kind, Link::default());
    let receive = to_receive(kind, &link, side.device.gid(), PEER, 1);
    [to_init(&link), receive, to_send(kind, &link, 1)]
}

/// Returns the error of the queue pair for `change`. If it refuses, no attribute has changed.
fn refusal(side: &Side, change: &ModifyQp) -> Option<ModifyError> {
    let before = side.qp.query();
    let error = side.qp.modify(change).err()?;
    assert_eq!(side.qp.query(), before, "{error}");
    Some(error)
}

type Take = fn(&mut ModifyQp);

/// Returns the changes that result if one attribute of `change` beside the state is removed.
fn without_one(change: &ModifyQp) -> Vec<(&'static str, ModifyQp)> {
    let takes: [(&str, Take); 14] = [
        ("port", |it| it.port = None),
        ("pkey_index", |it| it.pkey_index = None),
        ("access", |it| it.access = None),
        ("path", |it| it.path = None),
        ("path_mtu_bytes", |it| it.path_mtu_bytes = None),
        ("dest_qpn", |it| it.dest_qpn = None),
        ("rq_psn", |it| it.rq_psn = None),
        ("max_dest_rd_atomic", |it| it.max_dest_rd_atomic = None),
        ("min_rnr_timer", |it| it.min_rnr_timer = None),
        ("sq_psn", |it| it.sq_psn = None),
        ("timeout", |it| it.timeout = None),
        ("retry_cnt", |it| it.retry_cnt = None),
        ("rnr_retry", |it| it.rnr_retry = None),
        ("max_rd_atomic", |it| it.max_rd_atomic = None),
    ];
    let less = takes.map(|(name, take)| {
        let mut less = *change;
        take(&mut less);
        (name, less)
    });
    less.into_iter().filter(|(_, less)| less != change).collect()
}

#[test]
fn each_way_up_needs_all_of_its_attributes() {
    for kind in KINDS {
        let side = fresh(kind);
        let mut count = 0;
        for way in ways(&side) {
            for (name, less) in without_one(&way) {
                let error = refusal(&side, &less);
                let is_named = matches!(error, Some(ModifyError::Attribute { attribute, problem: "missing", .. }) if attribute == name);
                assert!(is_named, "{kind:?} without {name}: {error:?}");
                count += 1;
            }
            side.qp.modify(&way).unwrap();
        }
        assert_eq!(count, if kind == QpKind::Rc { 14 } else { 8 });
        assert_eq!(side.qp.query().state, QpState::ReadyToSend);
    }
}

#[test]
fn no_way_takes_an_attribute_of_another() {
    for kind in KINDS {
        let side = fresh(kind);
        let [init, receive, send] = ways(&side);
        let wrong = [
            (init, ModifyQp { qkey: Some(1), ..init }),
            (init, ModifyQp { sq_psn: Some(1), ..init }),
            (init, ModifyQp { path: receive.path, ..init }),
            (receive, ModifyQp { port: Some(1), ..receive }),
            (receive, ModifyQp { qkey: Some(1), ..receive }),
            (receive, ModifyQp { timeout: Some(1), ..receive }),
            (send, ModifyQp { dest_qpn: Some(1), ..send }),
            (send, ModifyQp { path_mtu_bytes: Some(256), ..send }),
            (send, ModifyQp { max_dest_rd_atomic: Some(1), ..send }),
        ];
        let mut last = None;
        for (way, change) in wrong {
            if let Some(done) = last.filter(|done| *done != way) {
                side.qp.modify(&done).unwrap();
            }
            last = Some(way);
            let error = refusal(&side, &change);
            let problem = "not allowed";
            let is_named =
                matches!(error, Some(ModifyError::Attribute { problem: p, .. }) if p == problem);
            assert!(is_named, "{kind:?}: {change:?}: {error:?}");
        }
        side.qp.modify(&send).unwrap();
        for change in [
            ModifyQp { dest_qpn: Some(2), ..ModifyQp::default() },
            ModifyQp { retry_cnt: Some(2), ..ModifyQp::default() },
            ModifyQp { sq_psn: Some(2), ..ModifyQp::default() },
        ] {
            assert!(refusal(&side, &change).is_some(), "{change:?} while sending");
        }
    }
}

fn value(name: &'static str, value: u32) -> Option<ModifyError> {
    Some(ModifyError::Value { attribute: name, value })
}

#[test]
fn values_that_the_device_has_not_are_refused() {
    let side = fresh(QpKind::Rc);
    let [init, receive, send] = ways(&side);
    assert_eq!(refusal(&side, &ModifyQp { port: Some(2), ..init }), value("port", 2));
    assert_eq!(refusal(&side, &ModifyQp { port: Some(0), ..init }), value("port", 0));
    assert_eq!(refusal(&side, &ModifyQp { pkey_index: Some(1), ..init }), value("pkey_index", 1));
    side.qp.modify(&init).unwrap();
    let too_many = ModifyQp { max_dest_rd_atomic: Some(129), ..receive };
    assert_eq!(refusal(&side, &too_many), value("max_dest_rd_atomic", 129));
    let too_high = ModifyQp { min_rnr_timer: Some(32), ..receive };
    assert_eq!(refusal(&side, &too_high), value("min_rnr_timer", 32));
    let believed = ModifyQp { cur_state: Some(QpState::Error), ..receive };
    assert!(refusal(&side, &believed).is_some());
    side.qp.modify(&receive).unwrap();
    assert_eq!(refusal(&side, &ModifyQp { timeout: Some(32), ..send }), value("timeout", 32));
    assert_eq!(refusal(&side, &ModifyQp { retry_cnt: Some(8), ..send }), value("retry_cnt", 8));
    assert_eq!(refusal(&side, &ModifyQp { rnr_retry: Some(8), ..send }), value("rnr_retry", 8));
    let too_many = ModifyQp { max_rd_atomic: Some(129), ..send };
    assert_eq!(refusal(&side, &too_many), value("max_rd_atomic", 129));
    let most = ModifyQp { max_rd_atomic: Some(128), timeout: Some(31), ..send };
    side.qp.modify(&most).unwrap();
}

/// Only the sizes that verbs has a name for are valid, and of those only the ones that the port
/// carries.
#[test]
fn a_path_mtu_is_one_that_the_port_carries() {
    for (mtu, most) in [("", 4096), (",mtu=1024", 1024), (",mtu=256", 256)] {
        let device = format!("roce0=127.0.0.1,profile=roce{mtu}").parse().unwrap();
        let config = Config { devices: vec![device], ..config(WireChoice::Udp, "") };
        for kind in KINDS {
            let mut taken = Vec::new();
            for bytes in [0, 1, 255, 256, 300, 512, 1000, 1024, 2048, 4095, 4096, 8192, u32::MAX] {
                let side = side(&config, kind, 64);
                let [init, receive, _] = ways(&side);
                side.qp.modify(&init).unwrap();
                let change = ModifyQp { path_mtu_bytes: Some(bytes), ..receive };
                match refusal(&side, &change) {
                    None => taken.push(bytes),
                    error => assert_eq!(error, value("path_mtu", bytes)),
                }
                side.qp.destroy();
            }
            let named = [256, 512, 1024, 2048, 4096].into_iter().filter(|bytes| *bytes <= most);
            assert_eq!(taken, named.collect::<Vec<_>>(), "{mtu}");
        }
    }
}

#[test]
fn a_path_leads_to_a_device_of_the_same_kind() {
    for kind in KINDS {
        let side = fresh(kind);
        let [init, receive, _] = ways(&side);
        side.qp.modify(&init).unwrap();
        let path = receive.path.unwrap();
        let with = |path: Path| ModifyQp { path: Some(path), ..receive };
        let not_global = Path { is_global: false, ..path };
        assert_eq!(refusal(&side, &with(not_global)), Some(ModifyError::NotGlobal));
        let efa = Gid::of_efa(IpAddr::V4(Ipv4Addr::LOCALHOST));
        for dgid in [efa, Gid::default()] {
            let error = refusal(&side, &with(Path { dgid, ..path }));
            assert_eq!(error, Some(ModifyError::ForeignGid(dgid)));
        }
        let error = refusal(&side, &with(Path { sgid_index: 1, ..path }));
        assert_eq!(error, value("sgid_index", 1));
        side.qp.modify(&receive).unwrap();
    }
}

/// Numbers have 24 bits; higher bits are ignored.
#[test]
fn attributes_are_told_as_they_are_used() {
    let side = fresh(QpKind::Rc);
    let [init, receive, send] = ways(&side);
    side.qp.modify(&init).unwrap();
    assert_eq!(side.qp.query().access, EVERYTHING);
    let wide = ModifyQp { rq_psn: Some(0xab00_0007), dest_qpn: Some(0xcd12_3456), ..receive };
    side.qp.modify(&wide).unwrap();
    side.qp.modify(&send).unwrap();
    let told = side.qp.query();
    assert_eq!((told.rq_psn, told.dest_qpn, told.sq_psn), (7, PEER, 1));
    assert_eq!((told.path_mtu_bytes, told.path.dgid), (1024, side.device.gid()));
    assert_eq!((told.timeout, told.retry_cnt, told.rnr_retry), (14, 7, 7));
    assert_eq!((told.max_rd_atomic, told.max_dest_rd_atomic, told.min_rnr_timer), (16, 16, 1));
}

#[test]
fn there_are_no_short_cuts() {
    use QpState::{
        Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained, SendQueueError,
    };
    for kind in KINDS {
        let all = [Init, ReadyToReceive, ReadyToSend, SendQueueDrained, SendQueueError, Error];
        for up_to in 0..4 {
            let allowed: &[QpState] = match up_to {
                0 => &[Init],
                1 => &[Init, ReadyToReceive, Error],
                2 => &[ReadyToSend, Error],
                _ => &[ReadyToSend, SendQueueDrained, Error],
            };
            for way in all {
                let side = fresh(kind);
                ways(&side)[..up_to].iter().for_each(|step| side.qp.modify(step).unwrap());
                let from = side.qp.query().state;
                let error = refusal(&side, &to(way));
                let is_closed = matches!(error, Some(ModifyError::Transition { from: f, to: t }) if (f, t) == (from, way));
                assert_eq!(is_closed, !allowed.contains(&way), "{from:?} to {way:?}: {error:?}");
            }
        }
        let side = fresh(kind);
        let [init, ..] = ways(&side);
        side.qp.modify(&init).unwrap();
        side.qp.modify(&to(Error)).unwrap();
        for way in [Init, ReadyToReceive, ReadyToSend, SendQueueDrained] {
            assert!(refusal(&side, &ModifyQp { state: Some(way), ..init }).is_some(), "{way:?}");
        }
        side.qp.modify(&to(Error)).unwrap();
        side.qp.modify(&to(Reset)).unwrap();
        ways(&side).iter().for_each(|step| side.qp.modify(step).unwrap());
    }
}

#[test]
fn work_requests_are_taken_in_their_states() {
    for kind in KINDS {
        let side = fresh(kind);
        let send = || side.qp.post_send(&wr(1, SendOp::Send, &[]));
        let receive = || side.qp.post_recv(1, &[]);
        assert_eq!(send(), Err(PostError::State(QpState::Reset)));
        assert_eq!(receive(), Err(PostError::State(QpState::Reset)));
        let [init, up, _] = ways(&side);
        for (way, state) in [(init, QpState::Init), (up, QpState::ReadyToReceive)] {
            side.qp.modify(&way).unwrap();
            assert_eq!(send(), Err(PostError::State(state)));
            assert_eq!(receive(), Ok(()));
        }
        assert!(side.cq.poll_one().is_none());
    }
}

/// A full queue refuses work requests with an error, and those that it holds are not affected.
#[test]
fn a_full_queue_refuses() {
    let (a, b) = pair();
    for id in 0..1024 {
        a.qp.post_send(&wr(id, SendOp::Send, &[])).unwrap();
    }
    assert_eq!(a.qp.post_send(&wr(1, SendOp::Send, &[])), Err(PostError::Full));
    (0..4096).for_each(|id| a.qp.post_recv(id, &[]).unwrap());
    assert_eq!(a.qp.post_recv(1, &[]), Err(PostError::Full));
    (0..1024).for_each(|id| b.qp.post_recv(id, &[]).unwrap());
    let found = gather(&[&a, &b], 2048);
    assert!(found.iter().all(|found| found.iter().map(|done| done.wr_id).eq(0..1024)));
}

/// From SQD to SQD, the number of READs that a peer may have outstanding can change.
#[test]
fn the_number_of_reads_that_are_answered_may_be_changed_while_drained() {
    let link = Link { rd_atomic: 0, ..Link::default() };
    let (a, b) = pair_of(&config(WireChoice::Udp, ""), QpKind::Rc, 4096, &link);
    for side in [&a, &b] {
        side.qp.modify(&to(QpState::SendQueueDrained)).unwrap();
        let more = ModifyQp {
            max_rd_atomic: Some(16),
            max_dest_rd_atomic: Some(16),
            ..to(QpState::SendQueueDrained)
        };
        side.qp.modify(&more).unwrap();
        side.qp.modify(&to(QpState::ReadyToSend)).unwrap();
    }
    let read = SendOp::Read(remote(&b, 0));
    (0..16).for_each(|id| post(&a, id, read, &[a.sge(0, 8)]));
    let read = (0..16).map(|id| (id, Status::Ok)).collect::<Vec<_>>();
    assert_eq!(ends(&gather(&[&a, &b], 16)[0], true), read);
}
