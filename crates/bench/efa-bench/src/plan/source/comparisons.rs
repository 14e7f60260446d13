//! The comparisons in the text of a plan.

use bench_record::comparison::{Bound, Figure};
use bench_record::failure::Failure;
use serde::Deserialize;

use super::{Positive, Reader, Value};

/// A `[[compare]]` of a plan.
#[derive(Debug)]
pub(in crate::plan) struct ComparisonSource {
    /// The place in the text.
    pub(in crate::plan) place: String,
    pub(in crate::plan) section: String,
    pub(in crate::plan) what: String,
    pub(in crate::plan) figure: Figure,
    pub(in crate::plan) ours: SideSource,
    pub(in crate::plan) beside: Option<SideSource>,
    pub(in crate::plan) bound: Bound,
    pub(in crate::plan) aim: Option<f64>,
}

/// A step on a fabric.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::plan) struct SideSource {
    /// The step's id.
    pub(in crate::plan) step: String,
    /// The fabric's name.
    pub(in crate::plan) on: String,
    /// The name that readers see: that of the fabric, or another one.
    pub(in crate::plan) name: String,
}

/// The keys of a comparison.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    section: String,
    what: String,
    figure: Figure,
    step: String,
    on: String,
    beside_step: Option<String>,
    beside: Option<String>,
    beside_name: Option<String>,
    aim: Option<Positive>,
    ratio_at_most: Option<Positive>,
    ratio_at_least: Option<Positive>,
    at_least: Option<Positive>,
    ratio_within: Option<Positive>,
}

impl Keys {
    /// Returns the bounds that are given.
    fn bounds(&self) -> Vec<Bound> {
        let bound =
            |limit: Option<Positive>, bound: fn(f64) -> Bound| limit.map(|own| bound(own.0));
        let all = [
            bound(self.ratio_at_most, Bound::RatioAtMost),
            bound(self.ratio_at_least, Bound::RatioAtLeast),
            bound(self.at_least, Bound::AtLeast),
            bound(self.ratio_within, Bound::RatioWithin),
        ];
        all.into_iter().flatten().collect()
    }
}

impl Reader<'_> {
    pub(super) fn comparison(&self, value: &Value<'_>) -> Result<ComparisonSource, Failure> {
        let keys: Keys = self.read(value)?;
        let bound = match keys.bounds()[..] {
            [] => Bound::Nothing,
            [one] => one,
            _ => return Err(self.wrong(&value.span(), "one bound is enough")),
        };
        let is_ratio = !matches!(bound, Bound::AtLeast(_) | Bound::Nothing);
        if is_ratio && keys.beside.is_none() {
            let what = "a ratio needs `beside = \"...\"`, the name of a fabric";
            return Err(self.wrong(&value.span(), what));
        }
        if keys.beside_step.is_some() && keys.beside.is_none() {
            return Err(self.wrong_at(
                value,
                "beside_step",
                "write the name of its fabric, beside",
            ));
        }
        let beside = keys.beside.map(|on| SideSource {
            step: keys.beside_step.unwrap_or_else(|| keys.step.clone()),
            name: keys.beside_name.unwrap_or_else(|| on.clone()),
            on,
        });
        Ok(ComparisonSource {
            place: self.place(&value.span()),
            section: keys.section,
            what: keys.what,
            figure: keys.figure,
            ours: SideSource { step: keys.step, name: keys.on.clone(), on: keys.on },
            beside,
            bound,
            aim: keys.aim.map(|own| own.0),
        })
    }
}
