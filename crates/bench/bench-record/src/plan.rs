//! Of which plan a result file is, and how much of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;

/// Counters of a device by name.
pub type DeviceCounters = BTreeMap<String, u64>;

/// The plan that made a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    pub name: String,
    /// Its durations were multiplied by this.
    pub scale: f64,
    pub steps: usize,
    pub steps_done: usize,
    /// Steps that were not possible here, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<LeftOut>,
    /// Steps that went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<LeftOut>,
    /// Figures beside what the plan compares them with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// False while steps are left, after an interruption too.
    pub complete: bool,
}

/// A step without a result, or with part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    pub step: String,
    pub reason: String,
}
