//! Of which plan a result file is, and how much of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters of a device by name.
pub(crate) type DeviceCounters = BTreeMap<String, u64>;

/// The plan that made a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanRecord {
    pub(crate) name: String,
    /// Its durations were multiplied by this.
    pub(crate) scale: f64,
    pub(crate) steps: usize,
    pub(crate) steps_done: usize,
    /// Steps that were not possible here, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped: Vec<LeftOut>,
    /// Steps that went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<LeftOut>,
    /// False while steps are left, after an interruption too.
    pub(crate) complete: bool,
}

/// A step without a result, or with part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) step: String,
    pub(crate) reason: String,
}
