//! Multicast groups: datagrams to them go to the transport as those to the queue pair itself do.

use std::io;
use std::net::IpAddr;
use std::os::fd::{OwnedFd, RawFd};

use srd::Instant;

use super::receive::{RUNS_PER_TURN, Received};
use super::{Shell, Side};
use crate::datagram::Datagram;
use crate::wire::{ForGroup, Groups};

impl Shell {
    /// Joins `group`, and returns the descriptor that is readable when something has come to it;
    /// `None` if the queue pair is a member already.
    pub(crate) fn join_group(&mut self, group: IpAddr) -> io::Result<Option<RawFd>> {
        let (local, tap) = (self.device.addr(), &self.tap);
        let groups = self.groups.get_or_insert_with(|| Box::new(Groups::new(local, tap.clone())));
        if groups.contains(group) {
            return Ok(None);
        }
        groups.join(group).map(Some)
    }

    /// Leaves `group`, and returns its socket, which ends the membership when it is closed; `None`
    /// if the queue pair was no member.
    pub(crate) fn leave_group(&mut self, group: IpAddr) -> Option<OwnedFd> {
        self.groups.as_mut()?.leave(group)
    }

    /// Iterates over its groups.
    pub(crate) fn groups(&self) -> impl Iterator<Item = IpAddr> {
        self.groups.iter().flat_map(|groups| groups.addrs())
    }

    #[inline]
    pub(super) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Receives the next datagram of any group.
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
