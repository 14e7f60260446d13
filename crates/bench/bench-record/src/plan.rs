//! The plan that made a result file, and how much of it was done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;

/// The counters of a device by name.
pub type DeviceCounters = BTreeMap<String, u64>;

/// The plan that made a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    pub name: String,
    /// The factor of the plan's durations.
    pub scale: f64,
    pub steps: usize,
    pub steps_done: usize,
    /// The steps that were not possible here, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<LeftOut>,
    /// The steps that went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<LeftOut>,
    /// The figures and the references that the plan compares them with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// False while steps are left, also after an interruption.
    pub complete: bool,
}

/// A step without a result, or with part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    pub step: String,
    pub reason: String,
}
