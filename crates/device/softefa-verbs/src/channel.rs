//! Completion channels, on which programs sleep until a completion arrives.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use softefa::{Adapter, ArmError, Uncancelled};

use crate::context::Context;
use crate::cq::Cq;
use crate::errno::Errno;
use crate::event;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Users;
use crate::sleeper;
use crate::sys::{ibv_comp_channel, ibv_context, ibv_cq};

/// Completion channel.
#[repr(C)]
pub(crate) struct Channel {
    ibv: UnsafeCell<ibv_comp_channel>,
    pub(crate) nic: Arc<softefa::Channel>,
    pub(crate) users: Users,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Channel {
    type C = ibv_comp_channel;
}

impl Channel {
    /// Returns the context as the program knows it.
    pub(crate) fn context(&self) -> *mut ibv_context {
        // SAFETY: `context` is written once, before the program learns the address.
        unsafe { (*self.ibv.get()).context }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        unsafe { handle::borrow::<Context>(context) }?.owner.check()?;
        let nic = softefa::Channel::create()?;
        let ibv = UnsafeCell::new(ibv_comp_channel { context, fd: nic.fd(), refcnt: 0 });
        let (users, owner) = (Users::default(), Owner::current());
        Ok(handle::give(Box::new(Channel { ibv, nic, users, owner })))
    })
}

/// Refused while a completion queue uses the channel. A thread that sleeps on it wakes with
/// `EBADF`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a channel it made.
        let borrowed = unsafe { handle::borrow::<Channel>(channel) }?;
        borrowed.users.none()?;
        // SAFETY: no queue uses it and the program gives it up.
        let channel = unsafe { handle::take::<Channel>(channel) }?;
        if channel.owner.is_current() {
            channel.nic.close();
        }
        channel.owner.release(channel);
        Ok(())
    })
}

/// Threads may be cancelled while they sleep here: then the stack is unwound through this function,
/// so it holds nothing that has to be dropped, and is no part of a panic boundary, while it reads.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the program passes a channel it made.
    let nic = unsafe { sleepers_share(channel, !cq.is_null() && !cq_context.is_null()) };
    if nic.is_null() {
        return -1;
    }
    // SAFETY: `nic` is a share of the channel that this call owns; its descriptor is open.
    while unsafe { event::sleep((*nic).fd()) } {
        // SAFETY: as above, and not null as checked.
        if let Some(result) = unsafe { answer(&*nic, cq, cq_context) } {
            // SAFETY: given back once.
            unsafe { sleeper::give_back(nic) };
            return result;
        }
    }
    let errno = Errno::last();
    // SAFETY: given back once.
    unsafe { sleeper::give_back(nic) };
    errno.store();
    -1
}

/// Returns the channel, which stays until it is given back; null with `errno` set.
///
/// # Safety
/// `channel` as for [`handle::borrow`].
unsafe fn sleepers_share(
    channel: *mut ibv_comp_channel,
    is_valid: bool,
) -> *const softefa::Channel {
    panic::pointer(|| {
        // SAFETY: as this function demands.
        let channel = unsafe { handle::borrow::<Channel>(channel) }?;
        // In a child, the counter behind the descriptor is shared with the parent.
        if !is_valid || channel.owner.check().is_err() {
            return Err(Errno::EINVAL);
        }
        Ok(sleeper::keep(&channel.nic).cast_mut())
    })
}

/// Takes the event whose count was read; `None` when it was withdrawn.
///
/// # Safety
/// Both pointers can be written to.
unsafe fn answer(
    nic: &softefa::Channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> Option<c_int> {
    let mut is_withdrawn = false;
    // The program is about to answer what woke it, and its answer carries acknowledgements.
    let _uncancelled = Uncancelled::begin();
    let result = panic::count_or(Err(Errno::EDEADLK), || {
        let Some(event) = nic.take_event().map_err(|_| Errno::EBADF)? else {
            is_withdrawn = true;
            return Ok(0);
        };
        let from = Cq::of_event(&event);
        // SAFETY: as this function demands. The queue cannot go before the program has acknowledged
        // this event.
        unsafe {
            cq.write(from);
            cq_context.write((*from).cq_context);
        }
        Ok(0)
    });
    (!is_withdrawn).then_some(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: u32) {
    panic::value((), || {
        // SAFETY: the program passes a live completion queue.
        if let Ok(cq) = unsafe { handle::borrow::<Cq>(cq) } {
            cq.nic.acknowledge_events(count);
        }
    });
}

/// An EFA knows no solicited events and says so. A RoCE device arms also what nobody can wait for.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // Programs arm a queue before they answer what they found in it.
    let _uncancelled = Uncancelled::begin();
    panic::code_or(Errno::EDEADLK, || {
        // SAFETY: the program passes a live completion queue.
        let cq = unsafe { handle::borrow::<Cq>(cq) }?;
        let armed = match (solicited_only != 0, cq.nic.device().adapter()) {
            (false, _) => cq.nic.arm(),
            (true, Adapter::Roce) => cq.nic.arm_for_solicited(),
            (true, Adapter::Efa) => return Err(Errno::EOPNOTSUPP),
        };
        match armed {
            Err(ArmError::NoChannel) if cq.nic.device().adapter() == Adapter::Roce => Ok(()),
            Err(ArmError::NoChannel) => Err(Errno::EINVAL),
            Err(_) => Err(Errno::EOPNOTSUPP),
            Ok(()) => Ok(()),
        }
    })
}
