//! How many queue pairs of a device are members of which multicast group.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The groups of a device.
#[derive(Debug, Default)]
pub(crate) struct GroupTable(Mutex<HashMap<IpAddr, u32>>);

/// The number of groups and members that a device has room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupLimits {
    /// Groups.
    pub(crate) groups: u32,
    /// Queue pairs of each.
    pub(crate) members: u32,
}

impl GroupTable {
    /// One more queue pair is a member of `group`; `false` when there is no room for it.
    pub(crate) fn enter(&self, group: IpAddr, max: GroupLimits) -> bool {
        let mut members = self.lock();
        let (known, count) = (members.len(), members.get(&group).copied().unwrap_or(0));
        let is_new = count == 0;
        if count >= max.members || (is_new && known >= max.groups as usize) {
            return false;
        }
        members.insert(group, count + 1);
        true
    }

    /// One less.
    pub(crate) fn exit(&self, group: IpAddr) {
        let mut members = self.lock();
        let count = members.get_mut(&group).expect("a member has entered");
        *count -= 1;
        if *count == 0 {
            members.remove(&group);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_members_have_bounds_and_come_back() {
        let (table, max) = (GroupTable::default(), GroupLimits { groups: 2, members: 2 });
        let group = |last| IpAddr::from([239, 0, 0, last]);
        assert!(table.enter(group(1), max) && table.enter(group(1), max));
        assert!(!table.enter(group(1), max), "two members");
        assert!(table.enter(group(2), max) && !table.enter(group(3), max), "two groups");
        table.exit(group(1));
        assert!(!table.enter(group(3), max), "one member is left");
        table.exit(group(1));
        assert!(table.enter(group(3), max));
    }
}
