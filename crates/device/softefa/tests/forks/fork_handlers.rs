//! Programs that have handlers of `pthread_atfork` before they open a device.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex};

use crate::common::{only, pair, wait_for};
use softefa::{Access, CompletionOp, Mr, Status};

/// The variable that makes this test the program.
const ENV: &str = "SOFTEFA_TEST_FORK_HANDLERS";
/// The time limit: a thread that waits for its own lock, or for that of a missing thread, hangs.
const LIMIT_SECONDS: u32 = 20;

static REGIONS: Mutex<Vec<Arc<Mr>>> = Mutex::new(Vec::new());

/// Gives a registration back, as a cache of registrations does whose allocator prepares a fork.
extern "C" fn give_back() {
    // SAFETY: a plain call. A child inherits no alarm.
    unsafe { libc::alarm(LIMIT_SECONDS) };
    let region = REGIONS.lock().ok().and_then(|mut regions| regions.pop());
    if let Some(region) = region {
        region.deregister();
    }
}

/// Forks a child that ends at once, and returns its status.
fn fork() -> i32 {
    // SAFETY: the child only ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: a child of ours and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// The adapter's handlers, which lock its lists, run after the program's before a fork.
fn program() {
    // SAFETY: the handlers are plain functions that do not unwind.
    let code = unsafe { libc::pthread_atfork(Some(give_back), Some(give_back), Some(give_back)) };
    assert_eq!(code, 0);
    let (a, b) = pair("");
    let bytes = [0u8; 64];
    let addr = bytes.as_ptr() as u64;
    let register = |_| a.pd.reg_mr(addr, 64, Access::default()).expect("registers");
    *REGIONS.lock().expect("the regions") = (0..8).map(register).collect();
    for _ in 0..2 {
        assert_eq!(fork(), 0, "the child did not end by itself");
    }
    let mut left = REGIONS.lock().expect("the regions");
    assert_eq!(left.len(), 4, "one before and one after each fork");
    left.clear();
    drop(left);

    let ah = a.ah(&b);
    b.post_recv(1, 0, 8);
    a.send(1, &b, &ah, 0, 8);
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
}

#[test]
fn a_programs_own_fork_handlers_may_use_the_adapter() {
    if std::env::var_os(ENV).is_some() {
        return program();
    }
    let output = only(module_path!(), "a_programs_own_fork_handlers_may_use_the_adapter")
        .env(ENV, "1")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
}
