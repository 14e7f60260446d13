//! Completion channels: how programs sleep until a completion comes.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use softefa::ArmError;

use crate::context::Context;
use crate::cq::Cq;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Users;
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

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        unsafe { handle::borrow::<Context>(context) }?;
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

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    panic::count(|| {
        let nic = {
            // SAFETY: the program passes a channel it made.
            let channel = unsafe { handle::borrow::<Channel>(channel) }?;
            if !channel.owner.is_current() {
                // The counter behind the descriptor is the parent's, too.
                return Err(Errno::EINVAL);
            }
            // Another thread may destroy the channel while this one sleeps on it.
            Arc::clone(&channel.nic)
        };
        if cq.is_null() || cq_context.is_null() {
            return Err(Errno::EINVAL);
        }
        let event = nic.next_event()?;
        let from = Cq::of_event(&event);
        // SAFETY: not null, so the program wants the answers there. The queue cannot go before the
        // program has acknowledged this event.
        unsafe {
            cq.write(from);
            cq_context.write((*from).cq_context);
        }
        Ok(0)
    })
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

/// An EFA knows no solicited events and says so.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    panic::code(|| {
        if solicited_only != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: the program passes a live completion queue.
        let cq = unsafe { handle::borrow::<Cq>(cq) }?;
        cq.nic.arm().map_err(|error| match error {
            ArmError::NoChannel => Errno::EINVAL,
            _ => Errno::EOPNOTSUPP,
        })
    })
}
