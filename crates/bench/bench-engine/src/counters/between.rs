//! Readings of counters before and after a block.

use bench_record::counted::{Counted, Reading};
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;

use super::Source;
use crate::group::Group;

/// The client's view of the counters of all nodes.
pub(crate) struct CounterReader {
    is_wanted: bool,
    /// The source of the client's counters.
    source: Option<Source>,
    /// The reading after the last block, if there was one.
    last: Option<Reading>,
}

impl CounterReader {
    pub(crate) fn new(is_wanted: bool, fabric: &FabricName, domain: &str) -> Self {
        let source = if is_wanted { Source::of(fabric, domain) } else { None };
        Self { is_wanted, source, last: None }
    }

    fn read(&self, group: &mut Group) -> Result<Reading, Failure> {
        group.read_counters(|| self.source.as_ref().map(Source::snapshot))
    }

    /// Returns the counts before a block, if it is to be counted.
    pub(crate) fn before(
        &mut self,
        group: &mut Group,
        is_counted: bool,
    ) -> Result<Option<Reading>, Failure> {
        // A reading after one block also serves before the next one, but not later.
        let last = self.last.take();
        if !(self.is_wanted && is_counted) {
            return Ok(None);
        }
        last.map_or_else(|| self.read(group), Ok).map(Some)
    }

    /// Returns what was counted since `before`, beside that many messages.
    pub(crate) fn after(
        &mut self,
        group: &mut Group,
        before: Option<Reading>,
        messages: u64,
    ) -> Result<Option<Counted>, Failure> {
        let Some(before) = before else { return Ok(None) };
        let after = self.read(group)?;
        let counted = Counted::between(&before, &after, messages);
        self.last = Some(after);
        Ok(counted)
    }
}
