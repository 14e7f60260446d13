//! Queue pairs: creation, changes of state, posting. The turn itself is in `shell`.

mod attr;
mod connection;
mod drain;
mod end;
mod file;
mod groups;
mod has_come;
mod inner;
mod lint;
mod live;
mod state;
mod target;
mod turn;
mod watching;
mod xrcd;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::completion::Unpolled;
use crate::config::Adapter;
use crate::counters::Counter;
use crate::generation::Generation;
use crate::host;
use crate::mr::Sge;
use crate::pd::Pd;
use crate::progress::{Live, held};
use crate::qp_state::{QpKind, QpQuery, QpState};
use crate::request::{SendData, SendOp, SendWr};
use crate::rq::{self, RecvWqe};
use crate::service;
use crate::shell::{Shell, ShellInit};
use crate::side::{self, SideInit};
use crate::sq;
use crate::status::Status;
use crate::wire::Port;

pub use attr::{CreateQpError, ModifyError, ModifyQp, PostError, QpInit};
pub use groups::GroupError;
pub use target::OpenTargetError;
pub use xrcd::{OpenXrcd, OpenXrcdError, Xrcd};

pub(crate) use inner::QpInner;

/// A queue pair.
pub struct Qp {
    pd: Arc<Pd>,
    init: QpInit,
    /// The domain of an XRC target.
    xrcd: Option<Arc<Xrcd>>,
    qpn: u32,
    port: u16,
    inner: Arc<QpInner>,
    unpolled: Arc<Unpolled>,
    send_owner: u16,
    recv_owner: u16,
    destroyed: AtomicBool,
    failed: AtomicBool,
    made: Generation,
    /// The number of consecutive sends without completion. It is counted only for the lints.
    unsignaled: AtomicU32,
}

impl fmt::Debug for Qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qp").field("qpn", &self.qpn).field("kind", &self.init.kind).finish()
    }
}

impl Qp {
    /// Creates a queue pair in state [`QpState::Reset`].
    ///
    /// # Errors
    /// [`CreateQpError`].
    pub fn create(pd: &Arc<Pd>, init: QpInit) -> Result<Arc<Self>, CreateQpError> {
        pd.device().counters.command(Self::try_create(pd, init, None), Some(Counter::CreateQpErr))
    }

    fn try_create(
        pd: &Arc<Pd>,
        init: QpInit,
        xrcd: Option<Arc<Xrcd>>,
    ) -> Result<Arc<Self>, CreateQpError> {
        init.check(pd.device())?;
        if init.kind == QpKind::XrcTarget && xrcd.is_none() {
            return Err(CreateQpError::NoDomain);
        }
        let failed = || CreateQpError::DeviceFailed { name: pd.device().name().to_owned() };
        if pd.device().has_failed() {
            return Err(failed());
        }
        let session = pd.device().sealing.session().map_err(CreateQpError::Random)?;
        let max = pd.device().attr().max_qp;
        let port = pd.device().open_port().ok_or(CreateQpError::TooMany { max })?;
        let Port { qpn, port, src_port, wire, tap, paths, receive_fd, receive_buffer_bytes } =
            port.map_err(CreateQpError::Socket)?;
        let unpolled = Arc::new(Unpolled::default());
        let send_owner = init.send_cq.register(&unpolled);
        let recv_owner = init.recv_cq.register(&unpolled);
        let shell = Shell::new(ShellInit {
            pd,
            kind: init.kind,
            qpn,
            port,
            src_port,
            wire,
            tap,
            session,
            unpolled: Arc::clone(&unpolled),
            owners: [send_owner, recv_owner],
            sq_depth: init.sq_depth,
            rq_depth: init.rq_depth,
            srq: init.srq.clone(),
            queues: xrcd.as_ref().map(|xrcd| Arc::clone(xrcd.queues())),
            events: init.events.clone(),
        });
        let of_side = SideInit {
            kind: init.kind,
            unsolicited_write_recv: init.unsolicited_write_recv,
            recv_cq_depth: init.recv_cq.depth(),
            receive_buffer_bytes,
        };
        let side = side::new(shell, paths, of_side);
        let qp = Arc::new(Self {
            pd: Arc::clone(pd),
            xrcd,
            qpn,
            port,
            inner: Arc::new(QpInner::new(side, receive_fd)),
            unpolled,
            send_owner,
            recv_owner,
            destroyed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            made: Generation::current(),
            unsignaled: AtomicU32::new(0),
            init,
        });
        let live = Arc::clone(&qp) as Arc<dyn Live>;
        qp.init.send_cq.attach(&live);
        qp.init.recv_cq.attach(&live);
        if let Some(xrcd) = &qp.xrcd {
            xrcd.admit(&qp);
        }
        service::adopt(live);
        if pd.device().has_failed() {
            // In between: whoever ended the others may have missed this one.
            qp.fail();
            qp.destroy();
            return Err(failed());
        }
        Ok(qp)
    }

    /// Returns its number: the UDP port of its socket on an EFA, `port << 8 | slot` on a RoCE
    /// device.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Returns the UDP port of its socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its protection domain.
    #[must_use]
    pub fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns what the queue pair was created with.
    #[must_use]
    pub fn init(&self) -> &QpInit {
        &self.init
    }

    /// Returns the attributes. In a process forked off the one that created it, it is in the error
    /// state.
    #[must_use]
    pub fn query(&self) -> QpQuery {
        if !self.made.is_usable() {
            // The lock may have been taken at the fork, and nobody will give it back here.
            return QpQuery { state: QpState::Error, ..QpQuery::default() };
        }
        let side = self.lock();
        QpQuery { sq_draining: side.is_draining(), ..side.shell().attrs }
    }

    /// Changes state and attributes: all of them or none.
    ///
    /// # Errors
    /// [`ModifyError`].
    pub fn modify(&self, change: &ModifyQp) -> Result<(), ModifyError> {
        self.pd.device().counters.command(self.try_modify(change), None)
    }

    fn try_modify(&self, change: &ModifyQp) -> Result<(), ModifyError> {
        if self.is_gone() {
            return Err(ModifyError::Destroyed);
        }
        let mut side = self.lock();
        let device = self.pd.device();
        let present = side.shell().attrs.state;
        let to = change.state.unwrap_or(present);
        let check = |from| state::check(device.adapter(), self.init.kind, from, to, change);
        check(present)?;
        change.check_path(device)?;
        // Not before: of what is refused here nobody would publish what had come.
        if change.state == Some(QpState::Error) && !device.is_strict {
            has_come::take(&mut *side);
        }
        if change.state == Some(QpState::ReadyToReceive) {
            has_come::forget_past(&mut *side);
        }
        let shell = side.shell_mut();
        // It may have failed by what has come, and from there every way to ERR is the same.
        let from = shell.attrs.state;
        self.lint_change(change);
        change.apply(&mut shell.attrs);
        shell.attrs.state = to;
        let access = shell.attrs.access;
        self.inner.watch.unpolled_writes.allow(access.remote_write || access.remote_atomic);
        if from != to {
            shell.trace_state(from, Some(to));
        }
        if let Some(qkey) = change.qkey {
            side.set_qkey(qkey);
        }
        match to {
            QpState::Error if from != QpState::Error => side.flush(host::now()),
            QpState::Reset if from != QpState::Reset => {
                side.reset(host::now());
                if from != QpState::Init && self.init.kind != QpKind::Srd {
                    has_come::end_connection(&mut *side);
                }
                // First the completions: each that is polled is counted off.
                self.init.send_cq.purge(self.send_owner);
                self.init.recv_cq.purge(self.recv_owner);
                self.unpolled.clear();
            }
            QpState::Reset | QpState::Error => {}
            _ => side.changed(host::now(), from, to),
        }
        side.publish();
        // What was held back may leave now, and the program need not poll for that.
        let is_late = self.inner.settle(&*side) | self.end_light_sleep_of(&mut side);
        drop(side);
        if is_late {
            service::wake();
        }
        Ok(())
    }

    /// Posts a send. It leaves at once, unless something else is in flight and the program polls
    /// soon after posting: then a stream of posts leaves in bursts, with the polls.
    ///
    /// A bad key or length does not fail the post but the completion, as on the device.
    ///
    /// # Errors
    /// [`PostError`]; then nothing was posted.
    pub fn post_send(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let mrs = &self.pd.device().mrs;
        match wr.data {
            SendData::Sges(sges) if mrs.has_other_names() => {
                let data = SendData::Sges(&mrs.placed(sges));
                self.post_placed(&SendWr { data, ..*wr })
            }
            _ => self.post_placed(wr),
        }
    }

    /// Posts a send whose entries contain the addresses of its bytes.
    #[inline]
    fn post_placed(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let signaled = self.check_shape(wr)?;
        if self.is_gone() {
            return Err(PostError::Gone);
        }
        let mut side = self.lock();
        self.check_state(side.shell().attrs.state)?;
        let used = self.unpolled.sends();
        if used >= self.init.sq_depth {
            return Err(PostError::Full);
        }
        self.unpolled.note_posted();
        if !side.post_send(wr, signaled) {
            self.unpolled.take_back();
            return Err(PostError::Full);
        }
        if !wr.more && side.should_transmit(used, wr.op) {
            // One look at the clock for both.
            let now = host::now();
            side.shell_mut().note_sent_post(now);
            side.transmit(now);
            side.shell_mut().note_left(host::now);
        } else {
            side.shell_mut().note_post(host::now);
            held::note();
        }
        side.publish();
        let is_late = self.inner.settle(&*side) | self.wants_acks(&mut side);
        drop(side);
        if crate::lint::is_wanted() {
            self.lint_post(signaled);
        }
        if is_late {
            service::wake();
        }
        Ok(())
    }

    /// Checks whether [`Qp::post_send`] would accept `wr`, given room for it ([`Qp::send_room`]).
    /// It is for callers that post several sends or none.
    ///
    /// # Errors
    /// The same as [`Qp::post_send`].
    pub fn check_send(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.check_shape(wr)?;
        if self.is_gone() {
            return Err(PostError::Gone);
        }
        self.check_state(self.query().state)
    }

    /// Returns how many sends can be posted now; more become possible as completions are polled.
    #[must_use]
    pub fn send_room(&self) -> u32 {
        self.init.sq_depth.saturating_sub(self.unpolled.sends())
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`PostError`]; then nothing was posted.
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        let mrs = &self.pd.device().mrs;
        if mrs.has_other_names() {
            return self.post_recv_placed(wr_id, &mrs.placed(sges));
        }
        self.post_recv_placed(wr_id, sges)
    }

    /// Posts a receive whose entries contain the addresses of its bytes.
    #[inline]
    fn post_recv_placed(&self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        if sges.len() > self.init.rq_sge as usize || sges.len() > rq::SGE_MAX {
            return Err(PostError::TooManySges(sges.len()));
        }
        if self.init.srq.is_some() || self.init.kind.is_xrc() {
            return Err(PostError::Shared);
        }
        if sges.is_empty() && self.pd.device().is_strict && !self.is_roce() {
            return Err(PostError::NoSges);
        }
        if self.is_gone() {
            return Err(PostError::Gone);
        }
        let mut side = self.lock();
        let shell = side.shell_mut();
        match shell.attrs.state {
            QpState::Error if self.is_roce() => {
                shell.fail_recv(&RecvWqe::new(wr_id, sges), Status::Flushed);
                side.publish();
                return Ok(());
            }
            state @ (QpState::Reset | QpState::Error) => return Err(PostError::State(state)),
            _ => {}
        }
        if shell.rq.post(wr_id, sges) { Ok(()) } else { Err(PostError::Full) }
    }

    /// Returns true if the program cannot use it any more. If a turn has broken it, the device
    /// fails.
    fn is_gone(&self) -> bool {
        if self.destroyed.load(Ordering::Acquire) || self.has_failed() || !self.made.is_usable() {
            return true;
        }
        let is_broken = self.inner.is_broken();
        if is_broken {
            self.fail_broken();
        }
        is_broken
    }

    fn is_roce(&self) -> bool {
        self.pd.device().adapter() == Adapter::Roce
    }

    /// Returns true if sends are accepted; a RoCE device also accepts those that can only be
    /// flushed.
    fn check_state(&self, state: QpState) -> Result<(), PostError> {
        match state {
            QpState::ReadyToSend | QpState::SendQueueDrained => Ok(()),
            QpState::Error | QpState::SendQueueError if self.is_roce() => Ok(()),
            _ => Err(PostError::State(state)),
        }
    }

    /// Checks what does not change between two calls; returns whether a success has a completion.
    fn check_shape(&self, wr: &SendWr<'_>) -> Result<bool, PostError> {
        if self.init.kind == QpKind::XrcTarget {
            return Err(PostError::Target);
        }
        let signaled = wr.signaled || self.init.sq_sig_all;
        if !signaled && self.pd.device().is_strict && !self.is_roce() {
            return Err(PostError::Unsignaled);
        }
        let numbering = self.pd.device().numbering();
        let needs_target = !self.init.kind.is_connected();
        if needs_target && !wr.target.is_some_and(|to| numbering.allows(to.qpn)) {
            return Err(PostError::NoTarget);
        }
        match wr.data {
            SendData::Sges(sges) => {
                if sges.len() > self.init.sq_sge as usize || sges.len() > sq::SGE_MAX {
                    return Err(PostError::TooManySges(sges.len()));
                }
            }
            SendData::Inline(parts) => {
                let len = parts.iter().map(|part| part.len()).sum();
                // The word of an ATOMIC WRITE is a part of the work request.
                let is_word = matches!(wr.op, SendOp::AtomicWrite(_)) && len == 8;
                let room = if is_word { len } else { self.init.inline_bytes as usize };
                if len > room || len > sq::INLINE_MAX {
                    return Err(PostError::InlineTooLong(len));
                }
            }
        }
        Ok(signaled)
    }
}
