//! Multicast groups: what comes to them goes to the transport as what comes to the queue pair
//! itself does.

use std::io;
use std::net::IpAddr;
use std::os::fd::{OwnedFd, RawFd};

use srd::Instant;

use super::receive::{RUNS_PER_TURN, Received};
use super::{Shell, Side};
use crate::datagram::Datagram;
use crate::wire::{ForGroup, Groups};

impl Shell {
    /// Becomes a member of `group`; the socket that is readable when something has come to it,
    /// `None` of a member.
    pub(crate) fn join_group(&mut self, group: IpAddr) -> io::Result<Option<RawFd>> {
        let (local, tap) = (self.device.addr(), &self.tap);
        let groups = self.groups.get_or_insert_with(|| Box::new(Groups::new(local, tap.clone())));
        if groups.contains(group) {
            return Ok(None);
        }
        groups.join(group).map(Some)
    }

    /// Is no member of `group` any more once the socket is closed; `None` when it was none.
    pub(crate) fn leave_group(&mut self, group: IpAddr) -> Option<OwnedFd> {
        self.groups.as_mut()?.leave(group)
    }

    /// The groups it is a member of.
    pub(crate) fn groups(&self) -> impl Iterator<Item = IpAddr> {
        self.groups.iter().flat_map(|groups| groups.addrs())
    }

    #[inline]
    pub(super) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// The next datagram of any group.
    fn receive_in_groups(&mut self, buffer: &mut [u8]) -> Option<ForGroup> {
        self.groups.as_mut()?.receive(buffer)
    }
}

/// Hands to `side` what has come to its groups.
#[cold]
pub(super) fn receive_in_groups<S: Side + ?Sized>(
    side: &mut S,
    now: Instant,
    received: &mut Received,
) {
    let Some(mut buffer) = side.shell_mut().groups.as_mut().map(|groups| groups.take_buffer())
    else {
        return;
    };
    for _ in 0..RUNS_PER_TURN {
        let Some(came) = side.shell_mut().receive_in_groups(&mut buffer) else { break };
        received.note_one(came.len);
        take(side, now, came, &mut buffer[..came.len]);
        if side.has_enough() {
            break;
        }
    }
    if let Some(groups) = &mut side.shell_mut().groups {
        groups.return_buffer(buffer);
    }
}

fn take<S: Side + ?Sized>(side: &mut S, now: Instant, came: ForGroup, bytes: &mut [u8]) {
    let ForGroup { group, from, .. } = came;
    let shell = side.shell_mut();
    shell.arriving_from = from.ip();
    match shell.framing.open_in_group(from, group, bytes) {
        Ok(inner) => side.take_in_group(from.ip(), group, &Datagram::from(&bytes[inner])),
        Err(unfit) => {
            shell.useless += 1;
            shell.drop_unfit(now, from.ip(), bytes, unfit);
        }
    }
}
