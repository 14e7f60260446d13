//! Multicast groups that a queue pair of datagrams is a member of.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use super::Qp;
use crate::gid::Gid;
use crate::groups::GroupLimits;
use crate::interface::Interface;
use crate::qp_state::QpKind;
use crate::service;
use crate::uncancelled::Uncancelled;

/// The reason why a queue pair cannot join or leave a multicast group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// This kind of device has no groups.
    #[error("only RoCE devices have multicast groups")]
    Unsupported,
    /// This kind of queue pair cannot be a member.
    #[error("a {0:?} queue pair cannot be in a multicast group; UD queue pairs can")]
    NotDatagrams(QpKind),
    /// The GID is not that of a group.
    #[error(
        "{0:?} is not the GID of a multicast group of this device's family of addresses: \
         ::ffff:224.0.0.0 to ::ffff:239.255.255.255, or ff00::/8"
    )]
    NotAGroup(Gid),
    /// Linux sends nothing to IPv6 groups on the loopback interface.
    #[error(
        "IPv6 has no multicast groups on the loopback interface; use a device at an address of \
         another one, or of IPv4"
    )]
    Loopback,
    /// A limit is reached.
    #[error(
        "the device has room for {max_groups} multicast groups of {max_members} queue pairs each; \
         leave some"
    )]
    TooMany {
        /// The most groups of the device.
        max_groups: u32,
        /// The most members of a group.
        max_members: u32,
    },
    /// The operating system refused the socket of the group.
    #[error("no socket at UDP port 4791 of the group")]
    Socket(#[source] io::Error),
    /// The queue pair is not a member.
    #[error("the queue pair is not attached to {0:?}")]
    NotAttached(Gid),
    /// The queue pair is destroyed, its device has failed, or this is a forked child.
    #[error("the queue pair is destroyed or belongs to the parent of this process")]
    Gone,
}

impl Qp {
    /// Joins the multicast group `gid`: messages to it with this queue key use the receives of this
    /// queue pair, too. Joining again changes nothing.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn attach(&self, gid: Gid) -> Result<(), GroupError> {
        let group = self.group_of(gid)?;
        let roce = self.pd.device().attr().roce.ok_or(GroupError::Unsupported)?;
        let (max_groups, max_members) = (roce.max_mcast_grp, roce.max_mcast_qp_attach);
        // Opening and closing descriptors.
        let _uncancelled = Uncancelled::begin();
        let link = self.pd.device().netdev();
        if group.is_ipv6() && link.is_some_and(Interface::is_loopback) {
            return Err(GroupError::Loopback);
        }
        let mut side = self.lock();
        if side.shell().groups().any(|known| known == group) {
            return Ok(());
        }
        let table = &self.pd.device().groups;
        if !table.enter(group, GroupLimits { groups: max_groups, members: max_members }) {
            return Err(GroupError::TooMany { max_groups, max_members });
        }
        match side.shell_mut().join_group(group) {
            Ok(Some(fd)) => service::add_group(&self.inner.watch, fd),
            Ok(None) => table.exit(group),
            Err(error) => {
                table.exit(group);
                return Err(GroupError::Socket(error));
            }
        }
        drop(side);
        // It may wait for the other sockets alone.
        service::wake();
        Ok(())
    }

    /// Leaves the multicast group `gid` (RC-10.5).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn detach(&self, gid: Gid) -> Result<(), GroupError> {
        let group = self.group_of(gid)?;
        if self.leave(group) { Ok(()) } else { Err(GroupError::NotAttached(gid)) }
    }

    /// Drops what the queue pair itself sends to its groups.
    pub fn ignore_itself_in_groups(&self) {
        if self.made.is_current() {
            self.lock().shell_mut().ignores_itself = true;
        }
    }

    /// Returns true if it is a member of a group. One whose device has failed is not, because it
    /// could not leave.
    #[must_use]
    pub fn is_in_groups(&self) -> bool {
        self.made.is_current() && self.inner.watch.has_groups() && !self.pd.device().has_failed()
    }

    /// Leaves all groups.
    pub(super) fn leave_groups(&self) {
        while self.inner.watch.has_groups() {
            let first = self.lock().shell().groups().next();
            if !first.is_some_and(|group| self.leave(group)) {
                break;
            }
        }
    }

    /// Leaves a group; returns true if it was a member.
    fn leave(&self, group: IpAddr) -> bool {
        let _uncancelled = Uncancelled::begin();
        let mut side = self.lock();
        let Some(socket) = side.shell_mut().leave_group(group) else { return false };
        service::remove_group(&self.inner.watch, socket.as_raw_fd());
        drop(socket);
        self.pd.device().groups.exit(group);
        true
    }

    fn group_of(&self, gid: Gid) -> Result<IpAddr, GroupError> {
        if !self.is_roce() {
            return Err(GroupError::Unsupported);
        }
        if self.init.kind != QpKind::Ud {
            return Err(GroupError::NotDatagrams(self.init.kind));
        }
        let group = self.pd.device().addr_of(gid).filter(IpAddr::is_multicast);
        let group = group.ok_or(GroupError::NotAGroup(gid))?;
        if self.is_gone() { Err(GroupError::Gone) } else { Ok(group) }
    }
}
