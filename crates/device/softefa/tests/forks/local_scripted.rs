//! Bytes that are named instead of sent, with a peer made of the engine alone (SRD-10.7 to 10.10).

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use crate::common::scripted::{
    BLOCK_LEN, OP_READ, OP_READ_CONFIRM, OP_READ_DATA, OP_READ_FAIL, OP_READ_GRANT, OP_WRITE_LOCAL,
    Scripted, address, answer, block, outcome, until,
};
use crate::common::{Page, Side, remote, side_of};
use softefa::{Access, Ah, Config, ModifyQp, QpKind, QpState, SendOp, Sge, Status};
use srd::{Address, Reject};

/// The flag of a READ whose bytes may be named instead of sent.
const FLAG_LOCAL: u8 = 0x80;
/// A length from which on bytes are named instead of sent.
const LONG: u32 = 40_000;
const KEY: [u8; 16] = *b"key of this user";

/// Makes a side whose bytes may be copied by holders of [`KEY`], and that may copy theirs.
fn local() -> Side {
    side_of(QpKind::Srd, &Config { local_key: Some(KEY), ..Config::default() })
}

/// A process whose memory is as that of this one was when it was made.
struct Twin(libc::pid_t);

impl Twin {
    fn new() -> Self {
        // SAFETY: the child waits until it is ended, and does nothing else.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: it only waits.
                unsafe { libc::pause() };
            },
            child if child > 0 => Self(child),
            _ => panic!("no process: {}", std::io::Error::last_os_error()),
        }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // SAFETY: a child of this process, for which no other thread waits.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Returns a source as in SRD-10.7: bytes that `peer`, which lives in a process of its own, lets
/// `to` copy for ever.
fn source(peer: &Scripted, to: Address, bytes: &[u8]) -> Vec<u8> {
    source_at(peer, to, bytes.as_ptr() as usize, u32::try_from(bytes.len()).expect("short"))
}

/// Returns a source like [`source`], of bytes that need not be there.
fn source_at(peer: &Scripted, to: Address, at: usize, len: u32) -> Vec<u8> {
    thread_local! {
        static TWINS: RefCell<Vec<Twin>> = const { RefCell::new(Vec::new()) };
    }
    let twin = Twin::new();
    let pid = twin.0.unsigned_abs();
    TWINS.with_borrow_mut(|twins| twins.push(twin));
    source_of(pid, peer, to, at, len)
}

/// Returns a source like [`source_at`], of process `pid`.
fn source_of(pid: u32, peer: &Scripted, to: Address, at: usize, len: u32) -> Vec<u8> {
    static LEASE: u64 = 77;
    let long = |address: usize| (address as u64).to_be_bytes();
    let open = [
        &pid.to_be_bytes()[..],
        &len.to_be_bytes(),
        &long(at),
        &long(&raw const LEASE as usize),
        &LEASE.to_be_bytes(),
    ]
    .concat();
    let from = Address { host: Ipv4Addr::LOCALHOST.to_bits().into(), qpn: peer.qpn() };
    let ends = [from, to].map(|end| [&end.host.to_be_bytes()[..], &end.qpn.to_be_bytes()].concat());
    let sealed = [&open[..], &ends.concat()].concat();
    let seal = siphasher::sip128::SipHasher24::new_with_key(&KEY).hash(&sealed).as_bytes();
    [&open[..], &seal].concat()
}

#[test]
fn bytes_sent_although_they_were_named_fail_the_read() {
    let (a, mut peer) = (local(), Scripted::new());
    let ah = a.ah(&a);
    a.post(1, &ah, peer.qpn(), SendOp::Read(remote(&a, 0)), &[a.sge(0, LONG)]);
    let (bytes, mut request, mut is_asked) = ([9; LONG as usize], Vec::new(), false);
    until(&mut peer, |peer| {
        assert!(a.cq.poll_one().is_none());
        // The READ lasts as long as its confirmation is refused.
        let refuse = |op| if op == OP_READ_CONFIRM { Err(Reject::Rnr) } else { Ok(()) };
        for (from, op, body) in peer.turn(refuse) {
            if op == OP_READ {
                let named = [answer(&body, 0, LONG, 0, &[]), source(peer, from, &bytes)].concat();
                peer.send(from, OP_READ_GRANT, &named);
                request = body;
            } else if !std::mem::replace(&mut is_asked, true) {
                peer.send(from, OP_READ_DATA, &answer(&request, 0, LONG, 0, &bytes[..100]));
            }
        }
        is_asked && peer.bodies.is_empty()
    });
    assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::RemoteBadStatus);
}

#[test]
fn a_read_that_failed_is_not_copied_any_more() {
    let (a, mut peer) = (local(), Scripted::new());
    let ah = a.ah(&a);
    let into = Page::new(&a, Access { local_write: true, ..Access::default() });
    let sge = Sge { addr: into.mr.addr(), len: Page::LEN, lkey: into.mr.lkey() };
    let bytes = vec![9; Page::LEN as usize];
    a.post(1, &ah, peer.qpn(), SendOp::Read(remote(&a, 0)), &[sge]);
    let mut found = None;
    until(&mut peer, |peer| {
        for (from, op, body) in peer.turn(|_| Ok(())) {
            assert_eq!(op, OP_READ);
            let named = answer(&body, 0, Page::LEN, 0, &[]);
            peer.send(from, OP_READ_GRANT, &[&named[..], &source(peer, from, &bytes)].concat());
            // Bytes that were not requested end it.
            peer.send(from, OP_READ_DATA, &answer(&body, 0, Page::LEN, 0, &bytes[..100]));
        }
        found = a.cq.poll_one();
        found.is_some()
    });
    assert_eq!(found.map(|done| done.status), Some(Status::RemoteBadStatus));
    // The memory belongs to the program again.
    into.words.iter().for_each(|word| word.store(1, Ordering::Relaxed));
    for _ in 0..100 {
        assert!(a.cq.poll_one().is_none());
    }
    assert!(into.words.iter().all(|word| word.load(Ordering::Relaxed) == 1));
}

/// A PROBE may reach the responder after it has named the bytes and ended its side of the READ. The
/// answer must not end the READ.
#[test]
fn an_answer_to_a_late_question_does_not_end_a_read_that_is_copied() {
    let (a, mut peer) = (local(), Scripted::new());
    let ah = a.ah(&a);
    a.post(1, &ah, peer.qpn(), SendOp::Read(remote(&a, 0)), &[a.sge(0, LONG)]);
    let (bytes, mut found) = (vec![9; LONG as usize], None);
    until(&mut peer, |peer| {
        for (from, op, body) in peer.turn(|_| Ok(())) {
            let named = answer(&body, 0, LONG, 0, &[]);
            if op == OP_READ {
                peer.send(from, OP_READ_GRANT, &[&named[..], &source(peer, from, &bytes)].concat());
                peer.send(from, OP_READ_FAIL, &named);
            }
        }
        found = a.cq.poll_one();
        found.is_some()
    });
    assert_eq!(found.map(|done| done.status), Some(Status::Ok));
    assert_eq!(a.bytes(0, LONG as usize), bytes);
}

/// If the copy fails, the bytes are requested again over the wire.
#[test]
fn an_answer_to_a_late_question_does_not_end_a_read_that_is_asked_for_again() {
    let (a, mut peer) = (local(), Scripted::new());
    let ah = a.ah(&a);
    a.post(1, &ah, peer.qpn(), SendOp::Read(remote(&a, 0)), &[a.sge(0, LONG)]);
    let (bytes, mut first, mut found) = (vec![9; LONG as usize], None, None);
    until(&mut peer, |peer| {
        for (from, op, body) in peer.turn(|_| Ok(())) {
            let Some(first) = first.replace(body.clone()).filter(|_| op == OP_READ) else {
                let named = [answer(&body, 0, LONG, 0, &[]), source_at(peer, from, 4096, LONG)];
                peer.send(from, OP_READ_GRANT, &named.concat());
                continue;
            };
            peer.send(from, OP_READ_FAIL, &answer(&first, 0, LONG, 0, &[]));
            for (number, part) in bytes.chunks(8000).enumerate() {
                let data = answer(&body, 0, LONG, 8000 * number as u32, part);
                peer.send(from, OP_READ_DATA, &data);
            }
        }
        found = a.cq.poll_one();
        found.is_some()
    });
    assert_eq!(found.map(|done| done.status), Some(Status::Ok));
    assert_eq!(a.bytes(0, LONG as usize), bytes);
}

/// Posts a READ whose answers name `LONG` bytes at `at`, and returns its status and whether the
/// bytes were copied.
fn read_named(a: &Side, peer: &mut Scripted, at: usize) -> (Status, bool) {
    let ah = a.ah(a);
    a.post(1, &ah, peer.qpn(), SendOp::Read(remote(a, 0)), &[a.sge(0, LONG)]);
    let (mut requests, mut is_copied, mut status) = (0, false, None);
    until(peer, |peer| {
        for (from, op, body) in peer.turn(|_| Ok(())) {
            is_copied |= op == OP_READ_CONFIRM;
            if op == OP_READ {
                requests += 1;
                let answer = answer(&body, 0, LONG, 0, &[]);
                let named = [&answer[..], &source_at(peer, from, at, LONG)].concat();
                let again = (OP_READ_FAIL, &answer);
                let (op, body) = if requests == 1 { (OP_READ_GRANT, &named) } else { again };
                peer.send(from, op, body);
            }
        }
        status = a.cq.poll_one().map(|done| done.status);
        status.is_some()
    });
    (status.expect("until it has one"), is_copied)
}

/// A peer whose program had unmapped its memory is copied from again later.
#[test]
fn a_peer_whose_bytes_were_not_there_is_copied_from_again() {
    let (a, mut peer) = (local(), Scripted::new());
    assert_eq!(read_named(&a, &mut peer, 4096), (Status::RemoteAbort, false));
    let bytes = vec![9u8; LONG as usize];
    assert_eq!(read_named(&a, &mut peer, bytes.as_ptr() as usize), (Status::Ok, true));
    assert!(a.bytes(0, LONG as usize) == bytes);
}

/// A refused WRITE does not say why, so its peer is asked again later.
#[test]
fn a_peer_that_could_not_copy_is_asked_again() {
    let (a, mut peer) = (local(), Scripted::new());
    let ah = a.ah(&a);
    // Returns true if the bytes were named.
    let write = |peer: &mut Scripted| {
        let was_named = Cell::new(false);
        a.post(1, &ah, peer.qpn(), SendOp::Write(remote(&a, 0)), &[a.sge(0, LONG)]);
        let status = outcome(&a, peer, |op| {
            let is_named = op == OP_WRITE_LOCAL;
            was_named.set(was_named.get() || is_named);
            if is_named { Err(Reject::BadStatus) } else { Ok(()) }
        });
        assert_eq!(status, Status::Ok);
        was_named.get()
    };
    assert!(write(&mut peer));
    until(&mut peer, write);
}

/// A longer source would have to be copied within one turn (SRD-10.8).
#[test]
fn a_source_longer_than_a_segment_is_refused() {
    const SEGMENT: u32 = 262_144;
    let (a, mut peer) = (local(), Scripted::new());
    let bytes = vec![9u8; SEGMENT as usize + 1];
    for (len, status) in [(SEGMENT, srd::Status::Ok), (SEGMENT + 1, srd::Status::BadStatus)] {
        let named = source(&peer, address(&a), &bytes[..len as usize]);
        let id = peer.send(address(&a), OP_WRITE_LOCAL, &[block(&a, len, 0), named].concat());
        until(&mut peer, |peer| {
            assert!(a.cq.poll_one().is_none());
            peer.turn(|_| Ok(()));
            peer.ended.contains_key(&id)
        });
        assert_eq!(peer.ended[&id], status, "{len} bytes");
    }
}

/// The kernel lets a process read itself, also one that its peer may not read.
#[test]
fn nobody_else_names_memory_of_this_process() {
    let (a, mut peer) = (local(), Scripted::new());
    let secret = vec![9u8; LONG as usize];
    let at = secret.as_ptr() as usize;
    let named = source_of(std::process::id(), &peer, address(&a), at, LONG);
    let id = peer.send(address(&a), OP_WRITE_LOCAL, &[block(&a, LONG, 0), named].concat());
    until(&mut peer, |peer| {
        assert!(a.cq.poll_one().is_none());
        peer.turn(|_| Ok(()));
        peer.ended.contains_key(&id)
    });
    assert_eq!(peer.ended[&id], srd::Status::BadStatus);
    assert!(a.bytes(0, LONG as usize).iter().all(|byte| *byte == 0), "copied all the same");
}

#[test]
fn a_source_is_good_for_nobody_but_whom_it_was_made_for() {
    let (mut a, b, mut peer) = (local(), local(), Scripted::new());
    a.fill(0, &[1; LONG as usize]);
    // The peer need not know the key to learn where the bytes of its READ are.
    peer.send_with(address(&a), OP_READ, FLAG_LOCAL, &block(&a, LONG, 0));
    let mut source = Vec::new();
    until(&mut peer, |peer| {
        assert!(a.cq.poll_one().is_none());
        for (_, op, body) in peer.turn(|_| Ok(())) {
            assert_eq!(op, OP_READ_GRANT);
            source = body[BLOCK_LEN..].to_vec();
        }
        !source.is_empty()
    });
    // The source is for a queue pair to which the bytes were never granted, or for their owner.
    for to in [&b, &a] {
        let id =
            peer.send(address(to), OP_WRITE_LOCAL, &[block(to, LONG, 0), source.clone()].concat());
        until(&mut peer, |peer| {
            assert!(a.cq.poll_one().is_none() && b.cq.poll_one().is_none());
            peer.turn(|_| Ok(()));
            peer.ended.contains_key(&id)
        });
        assert_eq!(peer.ended[&id], srd::Status::BadStatus);
    }
    assert!(b.bytes(0, LONG as usize).iter().all(|byte| *byte == 0), "copied all the same");
}

/// A way in which a program gets its memory back.
type TakeBack<'a> = &'a dyn Fn(&Side, &Ah);

/// Returns the lease that a source names, and the address of its word.
fn lease(source: &[u8]) -> (u64, u64) {
    use std::os::unix::fs::FileExt;
    let field = |at: usize| u64::from_be_bytes(source[at..at + 8].try_into().expect("8 bytes"));
    let mut word = [0; 8];
    let memory = std::fs::File::open("/proc/self/mem").expect("our own memory");
    memory.read_exact_at(&mut word, field(16)).expect("a word of ours");
    (field(24), u64::from_ne_bytes(word))
}

#[test]
fn the_lease_of_a_write_ends_when_its_bytes_are_taken_back() {
    let error = ModifyQp { state: Some(QpState::Error), ..ModifyQp::default() };
    let reset = ModifyQp { state: Some(QpState::Reset), ..ModifyQp::default() };
    let ways: [(&str, TakeBack<'_>); 5] = [
        ("error state", &|a, _| a.qp.modify(&error).expect("possible")),
        ("reset state", &|a, _| a.qp.modify(&reset).expect("possible")),
        ("destroyed queue pair", &|a, _| a.qp.destroy()),
        ("destroyed address handle", &|_, ah| assert!(ah.destroy())),
        ("deregistered memory", &|a, _| a.mr.deregister()),
    ];
    for (how, take_back) in ways {
        let (a, mut peer) = (local(), Scripted::new());
        let ah = a.ah(&a);
        a.post(1, &ah, peer.qpn(), SendOp::Write(remote(&a, 0)), &[a.sge(0, LONG)]);
        let mut source = Vec::new();
        until(&mut peer, |peer| {
            assert!(a.cq.poll_one().is_none());
            for (_, op, body) in peer.turn(|_| Err(Reject::Rnr)) {
                assert_eq!(op, OP_WRITE_LOCAL);
                source = body[BLOCK_LEN..].to_vec();
            }
            !source.is_empty()
        });
        let (value, word) = lease(&source);
        assert_eq!(value, word, "{how}: the bytes may be copied before");
        take_back(&a, &ah);
        assert_ne!(value, lease(&source).1, "{how}: the bytes may still be copied");
    }
}
