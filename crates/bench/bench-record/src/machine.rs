//! The facts that tell one machine from another.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Host, Results};

/// A machine, by the facts that its figures depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub name: String,
    pub cpu: String,
    pub cores: usize,
}

impl Host {
    /// Returns the machine; `None` if it is not known.
    pub fn machine(&self) -> Option<Machine> {
        let Self { name, cpu, cores, .. } = self;
        (!name.is_empty()).then(|| Machine { name: name.clone(), cpu: cpu.clone(), cores: *cores })
    }
}

impl Results {
    /// Returns the machine on which the runs were measured; `None` if it is not known, or none of
    /// them was measured by this tool.
    pub fn measured_on(&self) -> Option<Machine> {
        let has_measured = self.runs.iter().any(|run| run.source == "measured");
        self.host.machine().filter(|_| has_measured)
    }

    /// Returns the hosts on which something was measured, as far as they are known. A host that
    /// only imports figures has not measured them; the host of a plan has, also with other tools.
    pub fn hosts(&self) -> Vec<&Host> {
        let is_here = self.measured_on().is_some() || self.plan.is_some();
        if is_here {
            std::iter::once(&self.host).chain(&self.other_hosts).collect()
        } else {
            Vec::new()
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, cpu, cores } = self;
        match cpu.as_str() {
            "" => write!(f, "{name} ({cores} cores)"),
            cpu => write!(f, "{name} ({cpu}, {cores} cores)"),
        }
    }
}
