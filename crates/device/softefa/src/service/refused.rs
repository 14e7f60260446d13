//! Behaviour without the service thread, because the operating system refuses it.
#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::tests::{Gate, break_wire, device, post, queue_pair, send, within_a_while};
use super::*;
use crate::{Access, Qp, SendData, SendOp, Sge, Status};

/// Runs test `name` again in a process that starts no thread after [`refuse_threads`].
fn in_child(name: &str, body: impl FnOnce()) {
    const ENV: &str = "SOFTEFA_TEST_REFUSED";
    if std::env::var_os(ENV).is_some() {
        return body();
    }
    let name = format!("service::refused::{name}");
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", &name, "--test-threads=1", "--nocapture"])
        .env(ENV, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && ran.contains("1 passed"),
        "{}\n{ran}\n{said}",
        output.status
    );
}

/// Makes the kernel refuse threads from now on. Root is not limited, so a root process becomes
/// nobody.
fn refuse_threads() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    const NOBODY: u32 = 65_534;
    // SAFETY: plain calls, with a limit that lives through the first.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &raw const none), 0);
        assert!(libc::getuid() != 0 || libc::setuid(NOBODY) == 0);
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "threads can still be made");
}

/// A thread that runs closures, created while threads can still be created.
struct Hand {
    orders: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    tid: i32,
}

impl Hand {
    fn new() -> Self {
        let (orders, inbox) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: no precondition.
            tell.send(unsafe { libc::gettid() }).unwrap();
            inbox.iter().for_each(|order| order());
        });
        Self { orders, tid: told.recv().unwrap() }
    }

    fn run(&self, order: impl FnOnce() + Send + 'static) {
        self.orders.send(Box::new(order)).unwrap();
    }

    /// Returns whether the thread waits for another thread or for its next closure.
    fn is_asleep(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.tid)).unwrap();
        stat[stat.rfind(')').unwrap() + 1..].trim_start().starts_with('S')
    }
}

fn flag() -> Arc<AtomicBool> {
    Arc::default()
}

/// Holds a turn of `qp` open until the returned flag is set.
fn hold_a_turn(qp: &Arc<Qp>, hand: &Hand) -> Arc<AtomicBool> {
    let (is_open, trap) = (flag(), flag());
    let gate = (Arc::clone(&is_open), Arc::clone(&trap));
    qp.inner().rewire(|wire| Box::new(Gate { wire, is_open: gate.0, trap: Some(gate.1) }));
    let held = Arc::clone(qp);
    hand.run(move || held.app_turn(host::now()));
    within_a_while("no turn", || trap.load(Ordering::Acquire).then_some(()));
    is_open
}

/// Checks that `take_away` does not return while a turn of `qp` is in progress.
fn waits_for_the_turn(qp: &Arc<Qp>, hands: &[Hand; 2], take_away: impl FnOnce() + Send + 'static) {
    let may_end = hold_a_turn(qp, &hands[0]);
    let is_done = flag();
    let (done, is_over) = (Arc::clone(&is_done), Arc::clone(&may_end));
    let (was_over, has_begun) = (flag(), flag());
    let (over_at_end, begun) = (Arc::clone(&was_over), Arc::clone(&has_begun));
    hands[1].run(move || {
        begun.store(true, Ordering::Release);
        take_away();
        over_at_end.store(is_over.load(Ordering::Acquire), Ordering::Release);
        done.store(true, Ordering::Release);
    });
    within_a_while("it never begins", || has_begun.load(Ordering::Acquire).then_some(()));
    // It has either returned already or waits for the turn.
    within_a_while("it neither waits nor ends", || {
        (is_done.load(Ordering::Acquire) || hands[1].is_asleep()).then_some(())
    });
    may_end.store(true, Ordering::Release);
    within_a_while("it does not end", || is_done.load(Ordering::Acquire).then_some(()));
    assert!(was_over.load(Ordering::Acquire), "it returned in the middle of a turn");
}

/// Otherwise memory would be written after the program has freed it.
#[test]
fn deregistration_waits_for_a_turn_without_the_thread() {
    in_child("deregistration_waits_for_a_turn_without_the_thread", || {
        let (hands, (_device, pd)) = ([Hand::new(), Hand::new()], device());
        refuse_threads();
        let (qp, _cq) = queue_pair(&pd);
        assert!(!ensure_started());
        let bytes = [0u8; 64];
        let access = Access { local_write: true, ..Access::default() };
        let mr = pd.reg_mr(bytes.as_ptr() as usize as u64, 64, access).unwrap();
        waits_for_the_turn(&qp, &hands, move || mr.deregister());
        qp.destroy();
    });
}

/// The work requests to a peer end with its last address handle.
#[test]
fn the_last_address_handle_ends_what_is_on_its_way_without_the_thread() {
    in_child("the_last_address_handle_ends_what_is_on_its_way_without_the_thread", || {
        let (hands, (device, pd)) = ([Hand::new(), Hand::new()], device());
        refuse_threads();
        let ((qp, cq), (deaf, _deaf_cq)) = (queue_pair(&pd), queue_pair(&pd));
        assert!(!ensure_started());
        let ah = pd.create_ah(device.gid()).unwrap();
        // This queue pair has no receives.
        send(&qp, &ah, &deaf).unwrap();
        waits_for_the_turn(&qp, &hands, move || assert!(ah.destroy()));
        let done = within_a_while("it does not end", || cq.poll_one());
        assert_eq!(done.status, Status::Flushed);
        [qp, deaf].iter().for_each(|qp| qp.destroy());
    });
}

/// No thread would drive a lingering queue pair, so its peers must learn at once that it is gone.
#[test]
fn a_destroyed_queue_pair_closes_at_once_without_the_thread() {
    in_child("a_destroyed_queue_pair_closes_at_once_without_the_thread", || {
        let (device, pd) = device();
        refuse_threads();
        let ((from, cq), (to, to_cq)) = (queue_pair(&pd), queue_pair(&pd));
        assert!(!ensure_started());
        let ah = pd.create_ah(device.gid()).unwrap();
        let bytes = [0u8; 64];
        let access = Access { local_write: true, ..Access::default() };
        let mr = pd.reg_mr(bytes.as_ptr() as usize as u64, 64, access).unwrap();
        let sge = [Sge { addr: mr.addr(), len: 64, lkey: mr.lkey() }];
        to.post_recv(2, &sge).unwrap();
        post(&from, &ah, &to, SendOp::Send, SendData::Sges(&sge)).unwrap();
        // The message was accepted a moment ago, and its acknowledgement may be lost.
        within_a_while("nothing arrives", || to_cq.poll_one());
        to.destroy();
        let port = (IpAddr::V4(Ipv4Addr::LOCALHOST), to.port());
        assert!(std::net::UdpSocket::bind(port).is_ok(), "the port is still taken");
        let done = within_a_while("it does not end", || cq.poll_one());
        assert_eq!(done.status, Status::Ok, "the last acknowledgement was repeated");
        from.destroy();
    });
}

/// A panic in one queue pair fails the other queue pairs of the device, too.
#[test]
fn a_panic_ends_the_queue_pairs_of_the_device_without_the_thread() {
    in_child("a_panic_ends_the_queue_pairs_of_the_device_without_the_thread", || {
        let (device, pd) = device();
        refuse_threads();
        let ((broken, _), (sibling, sibling_cq)) = (queue_pair(&pd), queue_pair(&pd));
        assert!(!ensure_started());
        sibling.post_recv(3, &[]).unwrap();
        break_wire(&broken);
        let _ = catch_unwind(AssertUnwindSafe(|| broken.app_turn(host::now())));
        assert!(device.has_failed());
        let done = within_a_while("its receive does not end", || sibling_cq.poll_one());
        assert_eq!((done.wr_id, done.status), (3, Status::Flushed));
        [broken, sibling].iter().for_each(|qp| qp.destroy());
    });
}
