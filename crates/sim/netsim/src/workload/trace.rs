//! Transfers from a file.

use super::{Plan, Wrong, first_processes};
use crate::flow::FlowSpec;
use crate::id::HostId;
use crate::scenario::{Trace, Transfer};

impl Plan<'_> {
    /// Returns the flows of a trace. Each is compared with the time that it would take alone.
    pub(super) fn trace(&self, spec: &Trace) -> Result<Vec<FlowSpec>, Wrong> {
        spec.transfers.iter().map(|transfer| self.transfer(spec, transfer)).collect()
    }

    fn transfer(&self, spec: &Trace, transfer: &Transfer) -> Result<FlowSpec, Wrong> {
        let Transfer { line, start, src_host, dst_host, bytes, transport } = *transfer;
        let last = self.fabric.hosts() - 1;
        let wrong = |column: &str, problem: String| {
            let problem = format!("{} line {line}, {column}: {problem}", spec.file);
            ("workload.trace.file", problem)
        };
        for (column, host) in [("src", src_host), ("dst", dst_host)] {
            if host > last {
                return Err(wrong(column, format!("{host} is not allowed, only 0 to {last}")));
            }
        }
        if src_host == dst_host {
            return Err(wrong("dst", format!("{dst_host} is the sender, too")));
        }
        let plan = self.with(transport)?;
        let flow = plan.flow(first_processes(HostId(src_host), HostId(dst_host)), bytes);
        Ok(FlowSpec { start, ideal_ps: plan.alone_ps(&flow), ..flow })
    }
}
