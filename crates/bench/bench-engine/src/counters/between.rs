//! Reading counters before and after a block.

use bench_record::counted::{Counted, Reading};
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;

use super::Source;
use crate::group::Group;

/// The client's view of what all nodes count beside points.
pub(crate) struct CounterReader {
    is_wanted: bool,
    /// The source of the counters here.
    source: Option<Source>,
    /// The reading after the block before, if there was one.
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

    /// Returns what has been counted before a block, if it is to be counted.
    pub(crate) fn before(
        &mut self,
        group: &mut Group,
        is_counted: bool,
    ) -> Result<Option<Reading>, Failure> {
        // What was read after a block holds before the next one, not later.
        let last = self.last.take();
        if !(self.is_wanted && is_counted) {
            return Ok(None);
        }
        last.map_or_else(|| self.read(group), Ok).map(Some)
    }

    /// Returns what was counted since, beside that many messages.
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
