//! A `write` to the device: reads a command, executes it and writes its answer.

use std::ffi::{c_int, c_void};

use cm::ids::{ChannelId, Ids};
use cm::ucma::{Call, Command};

use super::channels::{self, Access};
use super::manager::{self, Manager, State};
use super::marks::CHANNELS;
use super::user;
use crate::errno::Errno;
use crate::{event, panic};

/// The length of a command's header: number, length of the rest, room for the answer.
const HEADER_LEN: usize = 8;
/// The kernel takes no more at a time.
const WRITE_MAX: usize = 0x7FFF_F000;
/// The longest answer of GET_EVENT, which cannot be undone.
const EVENT_MAX: usize = 336;
/// The length of the answers with a number of other commands that cannot be undone.
const NUMBER_LEN: usize = 4;

/// The result of one attempt to execute a command.
enum Progress {
    /// `write` returns this many bytes.
    Done(c_int),
    /// No event waits in this channel, and the program wants to wait; a descriptor of the channel.
    Wait(ChannelId, c_int),
    /// The channel was closed under the sleeper. The kernel would keep the file until the sleeper
    /// returns, so nothing wakes it but a signal or its cancellation.
    Closed,
}

/// `write` to a descriptor of ours. A thread that waits for an event may be cancelled: then the
/// stack is unwound through this function, so it holds nothing that has to be dropped while it
/// sleeps.
///
/// # Safety
/// None but those of `event::sleep`; the memory is checked.
pub(super) unsafe extern "C-unwind" fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize {
    let (mut slept_on, mut sleeps_at) = (None, fd);
    loop {
        let (mut is_blocking, mut is_closed) = (false, false);
        let written = panic::count(|| match execute(fd, bytes.addr() as u64, len, slept_on)? {
            Progress::Done(len) => Ok(len),
            Progress::Wait(channel, at) => {
                (slept_on, sleeps_at, is_blocking) = (Some(channel), at, true);
                Ok(0)
            }
            Progress::Closed => {
                is_closed = true;
                Ok(0)
            }
        });
        if is_closed {
            // SAFETY: nothing is to be dropped.
            unsafe { event::sleep_until_signal() };
            return -1;
        }
        if !is_blocking {
            return written as isize;
        }
        // SAFETY: an eventfd, unless the program has closed it in this moment; nothing is to be
        // dropped.
        if !unsafe { event::sleep(sleeps_at) } && Errno::last() != Errno::EBADF {
            return -1;
        }
        // Closed before it slept: the next look finds that, and sleeps on as in the kernel.
    }
}

/// Executes the command at `at`; `slept_on` is the channel in which this call has waited before.
fn execute(fd: c_int, at: u64, len: usize, slept_on: Option<ChannelId>) -> Result<Progress, Errno> {
    let manager = manager::current().ok_or_else(channels::inherited)?;
    let len = len.min(WRITE_MAX);
    let bytes = command(at, len)?;
    let call = Call::parse(&bytes);
    // Asked before somebody who holds the lock may close it.
    let is_blocking = call.as_ref().is_ok_and(|call| is_blocking_call(call, fd));
    let mut state = manager.lock();
    let named = state.host.channels.find(fd);
    // The number may stand for another file by now. This call has begun with its own, which lives
    // as long as a duplicate does.
    let found = match slept_on {
        Some(channel) => state.host.channels.any_of(channel, fd),
        None => named.map(|access| (fd, access)),
    };
    if let Some(other) =
        named.filter(|other| slept_on.is_some_and(|channel| channel != other.channel))
    {
        // The wake-up may have been meant for readers of the new file.
        if state.ids.is_readable(other.channel) {
            state.host.channels.signal(other.channel);
        }
    }
    if slept_on.is_some() && found.is_none() {
        return Ok(Progress::Closed);
    }
    let Some((at, access)) = found else {
        if CHANNELS.has(fd) {
            return Err(channels::inherited());
        }
        // Closed since this call began. The kernel would have held the file by then.
        return if is_blocking { Ok(Progress::Closed) } else { Err(Errno::EBADF) };
    };
    if !access.is_writable {
        return Err(Errno::EBADF);
    }
    let call = call?;
    let is_blocking = if at == fd { is_blocking } else { is_blocking_call(&call, at) };
    let obeyed = state.execute(manager, access, &call, &bytes);
    state.update_readable(access, &call.command, slept_on.is_some());
    drop(state);
    let reply = match obeyed {
        Err(Errno::EAGAIN) if is_blocking => {
            return Ok(Progress::Wait(access.channel, at));
        }
        obeyed => obeyed?,
    };
    if !reply.is_none_or(|reply| user::copy_out(reply.at, &reply.bytes)) {
        return Err(Errno::EFAULT);
    }
    Ok(Progress::Done(len as c_int))
}

/// Reads the command that a program has written.
fn command(at: u64, len: usize) -> Result<Vec<u8>, Errno> {
    if len < HEADER_LEN {
        return Err(Errno::EINVAL);
    }
    let mut header = [0; HEADER_LEN];
    if !user::copy_in(at, &mut header) {
        return Err(Errno::EFAULT);
    }
    let body_len = usize::from(u16::from_ne_bytes([header[4], header[5]]));
    if HEADER_LEN + body_len > len {
        return Err(Errno::EINVAL);
    }
    let mut bytes = vec![0; HEADER_LEN + body_len];
    if user::copy_in(at, &mut bytes) { Ok(bytes) } else { Err(Errno::EFAULT) }
}

/// Returns whether the call waits for an event when there is none.
fn is_blocking_call(call: &Call, fd: c_int) -> bool {
    matches!(call.command, Command::GetEvent(_)) && channels::blocks(fd)
}

impl State {
    fn execute(
        &mut self,
        manager: &'static Manager,
        access: Access,
        call: &Call,
        bytes: &[u8],
    ) -> Result<Option<cm::ids::Reply>, Errno> {
        if matches!(call.command, Command::CreateId(_)) {
            self.start(manager)?;
        }
        check_answer(&self.ids, access, call)?;
        let now = manager.now();
        let reply = self.ids.write(now, &mut self.host, access.channel, bytes);
        self.settle(now);
        Ok(reply?)
    }

    /// Makes descriptors readable exactly when events wait.
    fn update_readable(&mut self, access: Access, command: &Command, has_slept: bool) {
        if self.ids.is_readable(access.channel) {
            if has_slept {
                self.host.channels.signal(access.channel);
            }
        } else {
            self.host.channels.clear_signal(access.channel);
        }
        if let Command::MigrateId(_) = command {
            // Another channel has lost events.
            for channel in self.host.channels.all() {
                if !self.ids.is_readable(channel) {
                    self.host.channels.clear_signal(channel);
                }
            }
        }
    }
}

/// Fails if the answer of a command that cannot be undone has nowhere to go.
fn check_answer(ids: &Ids, access: Access, call: &Call) -> Result<(), Errno> {
    let (at, len) = match &call.command {
        Command::CreateId(command) => (command.response, NUMBER_LEN),
        Command::JoinIpMcast(command) => (command.response, NUMBER_LEN),
        Command::JoinMcast(command) => (command.response, NUMBER_LEN),
        Command::GetEvent(command) if ids.is_readable(access.channel) => {
            (command.response, EVENT_MAX)
        }
        _ => return Ok(()),
    };
    if user::is_writable(at, len.min(call.out_len)) { Ok(()) } else { Err(Errno::EFAULT) }
}
