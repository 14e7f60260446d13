//! Two devices of this process on loopback, with everything that a program sets up.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

pub mod exchange;
pub mod pages;
pub mod roce;
pub mod scripted;
pub mod sealing;
pub mod traffic;
pub mod xrc;

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use softefa::counters::Counter;
use softefa::{
    Access, Ah, Completion, CompletionOp, Config, Cq, Device, ModifyQp, Mr, Pd, Qp, QpInit, QpKind,
    QpState, Remote, SendData, SendOp, SendWr, Sge, Status, Target,
};

pub const QKEY: u32 = 0x1234;

/// Returns a command that runs this program again, for `test` of `module` (as `module_path!()`
/// says) alone.
pub fn only(module: &str, test: &str) -> Command {
    let (_, module) = module.split_once("::").expect("a module of the program");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", &format!("{module}::{test}"), "--nocapture"]);
    command
}

/// Returns true in a process that runs `test` alone; otherwise runs `test` in such a process, and
/// returns false. It is for work that a process is limited in: it may wait for half a second in ten
/// for what its queue pairs sent last.
pub fn is_alone(module: &str, test: &str) -> bool {
    const ALONE: &str = "SOFTEFA_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let ended = only(module, test).env(ALONE, "1").output().expect("a second process");
    let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(ended.status.success(), "{}", said.concat());
    false
}

/// One side: a device with one queue pair and one registered buffer.
pub struct Side {
    pub device: Arc<Device>,
    pub pd: Arc<Pd>,
    pub cq: Arc<Cq>,
    pub qp: Arc<Qp>,
    pub mr: Arc<Mr>,
    /// The buffer, which is not accessed through this name while it is registered, except to look
    /// at it.
    memory: Box<[u8]>,
    /// The completions that [`wait_for`] found while it waited for another one.
    aside: Mutex<Vec<Completion>>,
}

/// Destroys the queue pair, which otherwise lives on with its sockets and rings.
impl Drop for Side {
    fn drop(&mut self) {
        self.qp.destroy();
    }
}

pub fn side(kind: QpKind, fault: &str) -> Side {
    side_of(kind, &Config { faults: fault.parse().unwrap(), ..Config::default() })
}

pub fn side_of(kind: QpKind, config: &Config) -> Side {
    side_with(config, kind, |_| {})
}

/// Makes a side with a configuration and a queue pair that is made as `change` says.
pub fn side_with(config: &Config, kind: QpKind, change: impl FnOnce(&mut QpInit)) -> Side {
    let device = Device::open(&config.devices[0], config).unwrap();
    let pd = device.alloc_pd().unwrap();
    let mut init = init(kind, &Cq::create(&device, 16384).unwrap());
    change(&mut init);
    let cq = Arc::clone(&init.recv_cq);
    let qp = Qp::create(&pd, init).unwrap();
    up(&qp, 7);
    let memory = vec![0u8; 1 << 20].into_boxed_slice();
    let access =
        Access { local_write: true, remote_read: true, remote_write: true, ..Access::default() };
    let mr = pd.reg_mr(memory.as_ptr() as u64, memory.len() as u64, access).unwrap();
    Side { device, pd, cq, qp, mr, memory, aside: Mutex::default() }
}

/// Makes two sides with SRD queue pairs.
pub fn pair(fault: &str) -> (Side, Side) {
    (side(QpKind::Srd, fault), side(QpKind::Srd, fault))
}

/// Returns memory of a peer, from byte `at` on.
pub fn remote(of: &Side, at: usize) -> Remote {
    Remote { addr: of.mr.addr() + at as u64, rkey: of.mr.rkey() }
}

pub fn init(kind: QpKind, cq: &Arc<Cq>) -> QpInit {
    QpInit {
        kind,
        send_cq: Arc::clone(cq),
        recv_cq: Arc::clone(cq),
        sq_depth: 1024,
        rq_depth: 4096,
        sq_sge: 2,
        rq_sge: 3,
        inline_bytes: 32,
        sq_sig_all: true,
        unsolicited_write_recv: false,
        srq: None,
        events: None,
    }
}

/// Brings a queue pair to ReadyToSend.
pub fn up(qp: &Qp, rnr_retry: u8) {
    let to = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    let init =
        ModifyQp { port: Some(1), pkey_index: Some(0), qkey: Some(QKEY), ..to(QpState::Init) };
    let retry = (qp.init().kind == QpKind::Srd).then_some(rnr_retry);
    let rts = ModifyQp { sq_psn: Some(0), rnr_retry: retry, ..to(QpState::ReadyToSend) };
    qp.modify(&init).unwrap();
    qp.modify(&to(QpState::ReadyToReceive)).unwrap();
    qp.modify(&rts).unwrap();
}

impl Side {
    pub fn sge(&self, at: usize, len: u32) -> Sge {
        Sge { addr: self.mr.addr() + at as u64, len, lkey: self.mr.lkey() }
    }

    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes(&self, at: usize, len: usize) -> &[u8] {
        &self.memory[at..at + len]
    }

    pub fn post_recv(&self, wr_id: u64, at: usize, len: u32) {
        self.qp.post_recv(wr_id, &[self.sge(at, len)]).unwrap();
    }

    pub fn send(&self, wr_id: u64, to: &Self, ah: &Ah, at: usize, len: u32) {
        self.post(wr_id, ah, to.qp.qpn(), SendOp::Send, &[self.sge(at, len)]);
    }

    pub fn post(&self, wr_id: u64, ah: &Ah, qpn: impl Into<u32>, op: SendOp, sges: &[Sge]) {
        self.qp.post_send(&wr(wr_id, ah, qpn, op, sges)).unwrap();
    }

    pub fn ah(&self, to: &Self) -> Arc<Ah> {
        self.pd.create_ah(to.device.gid()).unwrap()
    }
}

/// Returns a signaled send to queue pair `qpn`.
pub fn wr<'a>(
    wr_id: u64,
    ah: &'a Ah,
    qpn: impl Into<u32>,
    op: SendOp,
    sges: &'a [Sge],
) -> SendWr<'a> {
    let (data, target) = (SendData::Sges(sges), Target { ah, qpn: qpn.into(), qkey: QKEY });
    let (signaled, fenced, solicited, more) = (true, false, false, false);
    SendWr {
        wr_id,
        op,
        data,
        signaled,
        fenced,
        solicited,
        target: Some(target),
        remote_srq: 0,
        more,
    }
}

/// Memory that changes while others read it. It is long enough that a READ of it takes many turns.
pub struct Page {
    pub words: Vec<AtomicU64>,
    pub mr: Arc<Mr>,
}

impl Page {
    pub const LEN: u32 = 1 << 25;

    pub fn new(of: &Side, access: Access) -> Self {
        let words: Vec<AtomicU64> = (0..Self::LEN / 8).map(|_| AtomicU64::new(1)).collect();
        let mr =
            of.pd.reg_mr(words.as_ptr() as u64, u64::from(Self::LEN), access).expect("a region");
        Self { words, mr }
    }

    /// Ends the registration and uses the memory for something else.
    pub fn reuse(&self) {
        self.mr.deregister();
        self.words.iter().for_each(|word| word.store(2, Ordering::Relaxed));
    }
}

/// Polls all sides in turn until `done` returns true; panics if nothing completes for ten seconds.
pub fn poll_until(sides: &[&Side], mut done: impl FnMut(usize, Completion) -> bool) {
    let mut last = Instant::now();
    loop {
        for (index, side) in sides.iter().enumerate() {
            while let Some(completion) = side.cq.poll_one() {
                if done(index, completion) {
                    return;
                }
                last = Instant::now();
            }
        }
        assert!(last.elapsed() < Duration::from_secs(10), "nothing more completed for ten seconds");
    }
}

/// Polls all sides in turn until `of` has counted to the given number. Panics if anything completes
/// meanwhile, or after ten seconds.
pub fn poll_until_counted(sides: &[&Side], of: &Side, counter: Counter, at_least: u64) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while of.device.counters().get(counter) < at_least {
        for side in sides {
            let early = side.cq.poll_one();
            assert!(early.is_none(), "{early:?} before {counter:?} was {at_least}");
        }
        assert!(Instant::now() < deadline, "{counter:?} stays below {at_least}");
    }
}

/// Returns the next completion of one kind on side `index`, while all are polled. Others that come
/// first must be successes, and are returned by later calls, because the two ends complete in any
/// order.
pub fn wait_for(sides: &[&Side], index: usize, op: CompletionOp) -> Completion {
    let mut aside = sides[index].aside.lock().unwrap();
    if let Some(place) = aside.iter().position(|completion| completion.op == op) {
        return aside.remove(place);
    }
    drop(aside);
    let mut found = None;
    poll_until(sides, |at, completion| {
        let hit = at == index && completion.op == op;
        if hit {
            found = Some(completion);
        } else {
            assert_eq!(completion.status, Status::Ok, "{completion:?}");
            sides[at].aside.lock().unwrap().push(completion);
        }
        hit
    });
    found.expect("poll_until returned")
}

/// Returns the status of the first completion on either side, which must be one of this kind on
/// `a`.
pub fn first(a: &Side, b: &Side, op: CompletionOp) -> Status {
    let mut found = None;
    poll_until(&[a, b], |index, done| {
        assert_eq!((index, done.op), (0, op), "{done:?} was not expected");
        found = Some(done.status);
        true
    });
    found.expect("poll_until returned")
}

/// Returns the status with which a work request of `a` toward `b` ends, while nothing else
/// completes.
pub fn outcome(a: &Side, b: &Side, op: SendOp, sges: &[Sge]) -> Status {
    let ah = a.ah(b);
    a.post(1, &ah, b.qp.qpn(), op, sges);
    let is_write = matches!(op, SendOp::Write(_) | SendOp::WriteImm(..));
    first(a, b, if is_write { CompletionOp::Write } else { CompletionOp::Send })
}

/// Returns the first completion that `poll` finds within `limit`.
pub fn settled_by(limit: Duration, mut poll: impl FnMut() -> Option<Completion>) -> Completion {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(done) = poll() {
            return done;
        }
        assert!(Instant::now() < deadline, "nothing completed for {limit:?}");
    }
}
