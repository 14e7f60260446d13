//! XRC domains: shared receive queues, and the targets that use the receives that peers name.
//!
//! A target completes in the completion queue of the shared queue that a peer has named. Polling
//! that completion queue must drive the target, so each shared queue attaches all targets of its
//! domain there, and each target is attached to the completion queues of all shared queues.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Qp;
use super::file::{self, FileId};
use super::lint::lint_completions;
use crate::async_event::EventSource;
use crate::completion::{Completion, Unpolled};
use crate::config::Adapter;
use crate::cq::{Cq, CreateCqError};
use crate::device::Device;
use crate::generation::Generation;
use crate::lint;
use crate::pd::{AllocPdError, Pd};
use crate::progress::Live;
use crate::srq::{Outlet, Srq, SrqAttr, SrqError, XrcQueues};

/// The options for opening a domain.
#[derive(Debug, Default)]
pub struct OpenXrcd {
    /// The file by which others of this process find the domain. Without a file the domain is
    /// private to its opener.
    pub file: Option<OwnedFd>,
    /// Create the domain of the file if it does not exist.
    pub create: bool,
    /// Fail if the domain exists already.
    pub exclusive: bool,
}

/// The reason why a domain cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenXrcdError {
    /// An EFA has no XRC domains.
    #[error("the device has no XRC domains")]
    Unsupported,
    /// The file cannot be identified.
    #[error("the file of the XRC domain")]
    File(#[source] std::io::Error),
    /// The domain does not exist in this process.
    #[error("no XRC domain of this process has that file; ask to create it")]
    NotThere,
    /// The domain exists already.
    #[error("an XRC domain of this process has that file already")]
    Exists,
    /// Its protection domain cannot be allocated.
    #[error(transparent)]
    Pd(#[from] AllocPdError),
    /// Its placeholder completion queue cannot be created.
    #[error(transparent)]
    Cq(#[from] CreateCqError),
}

/// An XRC domain.
pub struct Xrcd {
    /// The protection domain of its targets until a request names a queue.
    pd: Arc<Pd>,
    /// A placeholder for the completion queues of targets; nothing completes there.
    cq: Arc<Cq>,
    queues: Arc<XrcQueues>,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    targets: Vec<Target>,
    /// The completion queues, and the number of shared queues that use each.
    cqs: Vec<(Arc<Cq>, usize)>,
}

/// A target, and the number of its openings.
struct Target {
    qp: Weak<Qp>,
    handles: usize,
}

impl fmt::Debug for Xrcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xrcd").field("device", &self.device().name()).finish_non_exhaustive()
    }
}

impl Xrcd {
    /// Opens a domain: a new one, or that of a file. Domains belong to one process; in another
    /// process the same file names another domain.
    ///
    /// # Errors
    /// [`OpenXrcdError`].
    pub fn open(device: &Arc<Device>, how: OpenXrcd) -> Result<Arc<Self>, OpenXrcdError> {
        if device.adapter() != Adapter::Roce {
            // An EFA has no such command, and so counts none.
            return Err(OpenXrcdError::Unsupported);
        }
        device.counters().command(Self::try_open(device, how), None)
    }

    fn try_open(device: &Arc<Device>, how: OpenXrcd) -> Result<Arc<Self>, OpenXrcdError> {
        let OpenXrcd { file, create, exclusive } = how;
        let Some(file) = file else { return Self::new(device) };
        let file = FileId::of(file).map_err(OpenXrcdError::File)?;
        file::shared(device.id(), file, |present| match present {
            Some(_) if exclusive => Err(OpenXrcdError::Exists),
            Some(present) => Ok(present),
            None if create => Self::new(device),
            None => Err(OpenXrcdError::NotThere),
        })
    }

    fn new(device: &Arc<Device>) -> Result<Arc<Self>, OpenXrcdError> {
        Ok(Arc::new(Self {
            pd: device.alloc_pd()?,
            cq: Cq::create(device, 1)?,
            queues: Arc::default(),
            members: Mutex::default(),
        }))
    }

    /// Returns its device.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        self.pd.device()
    }

    /// Creates a shared receive queue that peers of all targets can name. Its memory is that of
    /// `pd`, and its receives complete in `cq`.
    ///
    /// # Errors
    /// [`SrqError`].
    pub fn create_srq(
        self: &Arc<Self>,
        pd: &Arc<Pd>,
        cq: &Arc<Cq>,
        attr: &SrqAttr,
        events: Option<Arc<EventSource>>,
    ) -> Result<Arc<Srq>, SrqError> {
        let create = || {
            let device = self.device();
            if !Arc::ptr_eq(pd.device(), device) || !Arc::ptr_eq(cq.device(), device) {
                return Err(SrqError::OtherDevice);
            }
            let outlet = Arc::new(QueueOutlet::new(self, cq));
            Srq::create_in(&self.queues, pd, attr, outlet, events)
        };
        self.device().counters().command(create(), None)
    }

    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    pub(super) fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }

    pub(super) fn queues(&self) -> &Arc<XrcQueues> {
        &self.queues
    }

    /// Returns true if this holds for a completion queue where targets may complete.
    pub(super) fn any_cq(&self, is: impl Fn(&Cq) -> bool) -> bool {
        self.members().cqs.iter().any(|(cq, _)| is(cq))
    }

    /// Adds a new target.
    pub(super) fn admit(&self, qp: &Arc<Qp>) {
        let mut members = self.members();
        members.targets.push(Target { qp: Arc::downgrade(qp), handles: 1 });
        let live = Arc::clone(qp) as Arc<dyn Live>;
        members.cqs.iter().for_each(|(cq, _)| cq.attach(&live));
    }

    /// Adds an opening of target `qpn`.
    pub(super) fn reopen(&self, qpn: u32) -> Option<Arc<Qp>> {
        let mut members = self.members();
        members.targets.iter_mut().find_map(|target| {
            let qp = target.qp.upgrade().filter(|qp| qp.qpn() == qpn && target.handles > 0)?;
            target.handles += 1;
            Some(qp)
        })
    }

    /// Removes an opening of `qp`; returns true if it was the last.
    pub(super) fn give_back(&self, qp: &Qp) -> bool {
        let mut members = self.members();
        let found = members.targets.iter_mut().find(|target| target.is(qp));
        found.is_none_or(|target| {
            target.handles = target.handles.saturating_sub(1);
            target.handles == 0
        })
    }

    /// Removes a target.
    pub(super) fn dismiss(&self, qp: &Qp) {
        let mut members = self.members();
        members.targets.retain(|target| !target.is(qp));
        members.cqs.iter().for_each(|(cq, _)| cq.stop_driving(qp));
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target {
    fn is(&self, qp: &Qp) -> bool {
        std::ptr::eq(self.qp.as_ptr(), qp)
    }
}

/// The completion queue in which the receives of a shared queue complete.
struct QueueOutlet {
    domain: Arc<Xrcd>,
    cq: Arc<Cq>,
    owner: u16,
    has_left: AtomicBool,
    made: Generation,
}

impl fmt::Debug for QueueOutlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueOutlet").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl QueueOutlet {
    fn new(domain: &Arc<Xrcd>, cq: &Arc<Cq>) -> Self {
        let owner = cq.register(&Arc::new(Unpolled::default()));
        let mut members = domain.members();
        match members.cqs.iter_mut().find(|(known, _)| Arc::ptr_eq(known, cq)) {
            Some((_, queues)) => *queues += 1,
            None => {
                let targets = members.targets.iter().filter_map(|target| target.qp.upgrade());
                targets.for_each(|qp| cq.attach(&(qp as Arc<dyn Live>)));
                members.cqs.push((Arc::clone(cq), 1));
            }
        }
        drop(members);
        let (domain, cq) = (Arc::clone(domain), Arc::clone(cq));
        Self { domain, cq, owner, has_left: AtomicBool::new(false), made: Generation::current() }
    }
}

impl Outlet for QueueOutlet {
    fn owner(&self) -> u16 {
        self.owner
    }

    fn complete(&self, done: &mut Vec<Completion>) -> bool {
        if lint::is_wanted() {
            lint_completions(&self.cq, &[&done[..]]);
        }
        self.cq.push([done])
    }

    fn notify_channel(&self) {
        self.cq.notify_channel();
    }

    fn leave(&self) {
        if !self.made.is_current() || self.has_left.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut members = self.domain.members();
        let place = members.cqs.iter().position(|(cq, _)| Arc::ptr_eq(cq, &self.cq));
        if let Some(place) = place {
            members.cqs[place].1 -= 1;
            if members.cqs[place].1 == 0 {
                members.cqs.swap_remove(place);
                let targets = members.targets.iter().filter_map(|target| target.qp.upgrade());
                targets.for_each(|qp| self.cq.stop_driving(&*qp));
            }
        }
        drop(members);
        self.cq.forget_owner(self.owner);
    }
}

impl Drop for QueueOutlet {
    /// Undoes the registration if the queue cannot be created.
    fn drop(&mut self) {
        self.leave();
    }
}
