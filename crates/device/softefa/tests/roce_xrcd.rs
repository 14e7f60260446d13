//! XRC domains: the files by which they are found, and the openings of a target.
#![allow(clippy::unwrap_used, reason = "what cannot be set up has failed")]

use std::fs::File;
use std::sync::Arc;

use crate::common::roce::{
    Link, config, ends, gather, side, to, to_init, to_receive, to_send, wide, wr,
};
use crate::common::xrc::{Target, pair_of, post, post_to};
use crate::common::{self, Side};
use softefa::{
    AsyncEventKind, AsyncEvents, CreateQpError, Device, EventSource, ModifyError, ModifyQp,
    OpenXrcd, OpenXrcdError, PostError, Qp, QpKind, QpState, SendOp, Status, WireChoice, Xrcd,
};

fn device() -> Arc<Device> {
    let config = config(WireChoice::Udp, "");
    Device::open(&config.devices[0], &config).unwrap()
}

fn by(file: &File) -> OpenXrcd {
    OpenXrcd { file: Some(file.try_clone().unwrap().into()), create: true, exclusive: false }
}

#[test]
fn a_file_names_one_domain_of_a_device() {
    let (device, other) = (device(), device());
    let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
    let open = |device, how| Xrcd::open(device, how);
    let only_known = || OpenXrcd { create: false, ..by(&files[0]) };
    let absent = open(&device, only_known()).unwrap_err();
    assert!(matches!(absent, OpenXrcdError::NotThere), "{absent}");
    let exclusive = || OpenXrcd { exclusive: true, ..by(&files[0]) };
    let first = open(&device, exclusive()).unwrap();
    let present = open(&device, exclusive()).unwrap_err();
    assert!(matches!(present, OpenXrcdError::Exists), "{present}");
    let is_same = |opened: Arc<Xrcd>| Arc::ptr_eq(&opened, &first);
    assert!(is_same(open(&device, only_known()).unwrap()));
    assert!(is_same(open(&device, by(&files[0])).unwrap()));
    assert!(!is_same(open(&device, by(&files[1])).unwrap()));
    assert!(!is_same(open(&other, by(&files[0])).unwrap()));
    let without = OpenXrcd { create: false, ..OpenXrcd::default() };
    assert!(!is_same(open(&device, without).unwrap()));
    drop(first);
    let gone = open(&device, only_known()).unwrap_err();
    assert!(matches!(gone, OpenXrcdError::NotThere), "{gone}");
}

/// The number of a deleted file may soon be that of another one, but that of a domain stays its
/// own.
#[test]
fn a_deleted_file_keeps_its_domain() {
    let (device, folder) = (device(), tempfile::tempdir().unwrap());
    let path = folder.path().join("domain");
    let first = File::create(&path).unwrap();
    let domain = Xrcd::open(&device, by(&first)).unwrap();
    std::fs::remove_file(&path).unwrap();
    drop(first);
    for _ in 0..50 {
        let next = File::create(&path).unwrap();
        let other = Xrcd::open(&device, by(&next)).unwrap();
        assert!(!Arc::ptr_eq(&other, &domain), "another file, the same domain");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_target_lives_as_long_as_somebody_has_it_open() {
    let (a, b) = pair_of(&config(WireChoice::Udp, ""), 4096, &Link::default());
    let events = AsyncEvents::create().unwrap();
    let source = EventSource::new(&events);
    let qpn = b.side.qp.qpn();
    let again = Qp::open_target(&b.xrcd, qpn, Some(Arc::clone(&source))).unwrap();
    assert!(Arc::ptr_eq(&again, &b.side.qp));
    let other = Target::new(&config(WireChoice::Udp, ""), 64, None);
    assert_eq!(Qp::open_target(&other.xrcd, qpn, None).unwrap_err().qpn, qpn);
    b.side.qp.destroy();
    b.post_recv(1, 0, 8);
    post(&a, &b, 1, SendOp::Send, &[a.sge(0, 8)]);
    let found = gather(&[&a, &b.side], 2);
    assert_eq!(ends(&found[1], false), [(1, Status::Ok)]);
    // It was the only queue of a domain, and no receive is left of it.
    post_to(&a.qp, 0xff_ffff, 2, SendOp::Send, &[]);
    assert_eq!(ends(&gather(&[&a], 1)[0], true), [(2, Status::RemoteInvalidQueue)]);
    let told = events.take().unwrap().unwrap();
    assert_eq!(told.kind, AsyncEventKind::QpRequestError);
    told.source.acknowledge();
    again.remove_event_source(&source);
    again.destroy();
    source.retire();
    assert!(Qp::open_target(&b.xrcd, qpn, None).is_err());
}

#[test]
fn halves_post_only_what_they_have() {
    let (a, b) = pair_of(&config(WireChoice::Udp, ""), 4096, &Link::default());
    let sges = [a.sge(0, 8)];
    let refused = b.side.qp.post_send(&wr(1, SendOp::Send, &sges));
    assert_eq!(refused, Err(PostError::Target));
    for qp in [&a.qp, &b.side.qp] {
        assert_eq!(qp.post_recv(1, &[]), Err(PostError::Shared));
    }
}

#[test]
fn targets_are_made_in_domains_and_efas_have_neither() {
    let a = side(&config(WireChoice::Udp, ""), QpKind::Rc, 64);
    let refused = Qp::create(&a.pd, wide(QpKind::XrcTarget, &a.cq)).unwrap_err();
    assert!(matches!(refused, CreateQpError::NoDomain), "{refused}");
    let efa = common::side(QpKind::Srd, "");
    let refused = Xrcd::open(&efa.device, OpenXrcd::default()).unwrap_err();
    assert!(matches!(refused, OpenXrcdError::Unsupported), "{refused}");
    for kind in [QpKind::XrcInitiator, QpKind::XrcTarget] {
        let init = common::init(kind, &efa.cq);
        let refused = Qp::create(&efa.pd, init).unwrap_err();
        assert!(matches!(refused, CreateQpError::NoSuchKind(_)), "{refused}");
    }
}

/// A work request that the program posted in vain leaves nothing behind that refers to a destroyed
/// domain.
#[test]
fn domains_come_and_go() {
    let device = device();
    for _ in 0..3000 {
        let xrcd = Xrcd::open(&device, OpenXrcd::default()).expect("what went is free again");
        drop(xrcd);
    }
    let config = config(WireChoice::Udp, "");
    for _ in 0..20 {
        let (a, b) = pair_of(&config, 4096, &Link::default());
        post(&a, &b, 1, SendOp::Send, &[a.sge(0, 8)]);
        let Target { side: Side { qp, .. }, srq, .. } = &b;
        srq.destroy();
        qp.destroy();
        a.qp.destroy();
    }
}

/// The attributes that each half needs for its transitions are those of the kernel's table.
#[test]
fn each_half_needs_its_own_attributes() {
    let link = Link::default();
    let b = Target::new(&config(WireChoice::Udp, ""), 64, None);
    let a = side(&config(WireChoice::Udp, ""), QpKind::XrcInitiator, 64);
    for (qp, of_receive, of_send) in [
        (&a.qp, vec![], vec!["timeout", "retry_cnt", "rnr_retry", "max_rd_atomic", "sq_psn"]),
        (&b.side.qp, vec!["max_dest_rd_atomic", "min_rnr_timer"], vec!["timeout", "sq_psn"]),
    ] {
        let kind = qp.init().kind;
        qp.modify(&to_init(&link)).unwrap();
        let receive = to_receive(kind, &link, b.side.device.gid(), 0x1234, 1);
        let mut needs = of_receive.clone();
        needs.extend(["path", "path_mtu_bytes", "dest_qpn", "rq_psn"]);
        needs_all(qp, &receive, &needs);
        let send = to_send(kind, &link, 1);
        needs_all(qp, &send, &of_send);
        let neither = ModifyQp { qkey: Some(1), ..to(QpState::ReadyToSend) };
        assert_eq!(missing(qp, &neither), None, "{:?}", qp.modify(&neither));
        assert!(qp.modify(&neither).is_err());
    }
}

/// Checks that `change` succeeds, but not without any of `needs`.
fn needs_all(qp: &Qp, change: &ModifyQp, needs: &[&str]) {
    let mut found = Vec::new();
    for less in without_one(change) {
        let before = qp.query();
        match missing(qp, &less) {
            Some(name) => found.push(name),
            None => assert_eq!(qp.query(), before),
        }
    }
    found.sort_unstable();
    let mut needs = needs.to_vec();
    needs.sort_unstable();
    assert_eq!(found, needs, "{:?}", qp.init().kind);
    qp.modify(change).unwrap();
}

fn missing(qp: &Qp, change: &ModifyQp) -> Option<&'static str> {
    match qp.modify(change) {
        Err(ModifyError::Attribute { attribute, problem: "missing", .. }) => Some(attribute),
        _ => None,
    }
}

fn without_one(change: &ModifyQp) -> Vec<ModifyQp> {
    let takes: [fn(&mut ModifyQp); 11] = [
        |it| it.path = None,
        |it| it.path_mtu_bytes = None,
        |it| it.dest_qpn = None,
        |it| it.rq_psn = None,
        |it| it.max_dest_rd_atomic = None,
        |it| it.min_rnr_timer = None,
        |it| it.sq_psn = None,
        |it| it.timeout = None,
        |it| it.retry_cnt = None,
        |it| it.rnr_retry = None,
        |it| it.max_rd_atomic = None,
    ];
    let less = takes.into_iter().map(|take| {
        let mut less = *change;
        take(&mut less);
        less
    });
    less.filter(|less| less != change).collect()
}
