//! The comparisons in the text of a plan.

use bench_record::comparison::{Bound, Figure};
use bench_record::failure::Failure;
use std::ops::Range;

use toml::Spanned;

use super::{Reader, Table};

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

/// A bound, and the key of its limit.
type BoundKey = (&'static str, fn(f64) -> Bound);

const BOUNDS: [BoundKey; 4] = [
    ("ratio_at_most", Bound::RatioAtMost),
    ("ratio_at_least", Bound::RatioAtLeast),
    ("at_least", Bound::AtLeast),
    ("ratio_within", Bound::RatioWithin),
];
const KEYS: [&str; 13] = [
    "beside_name",
    "section",
    "what",
    "figure",
    "step",
    "on",
    "beside_step",
    "beside",
    "aim",
    BOUNDS[0].0,
    BOUNDS[1].0,
    BOUNDS[2].0,
    BOUNDS[3].0,
];

impl Reader<'_> {
    pub(super) fn comparison(
        &self,
        span: &Range<usize>,
        table: &Table<'_>,
    ) -> Result<ComparisonSource, Failure> {
        self.known(table, &KEYS)?;
        let needed = |key: &str| {
            let text = self.text_at(table, key)?;
            let wrong = || self.wrong(span, &format!("[[compare]] needs `{key} = \"...\"`"));
            text.ok_or_else(wrong)
        };
        let on = needed("on")?;
        let ours = SideSource { step: needed("step")?, name: on.clone(), on };
        let beside = match (self.text_at(table, "beside_step")?, self.text_at(table, "beside")?) {
            (step, Some(on)) => {
                let name = self.text_at(table, "beside_name")?.unwrap_or_else(|| on.clone());
                Some(SideSource { step: step.unwrap_or_else(|| ours.step.clone()), on, name })
            }
            (None, None) => None,
            (Some(_), None) => {
                let at = table.get("beside_step").map_or_else(|| span.clone(), Spanned::span);
                return Err(self.wrong(&at, "beside_step: write the name of its fabric, beside"));
            }
        };
        Ok(ComparisonSource {
            place: self.place(span),
            section: self.text_at(table, "section")?.unwrap_or_default(),
            what: needed("what")?,
            figure: self.figure(table, &needed("figure")?)?,
            bound: self.bound(span, table, beside.is_some())?,
            ours,
            beside,
            aim: self.number_at(table, "aim")?,
        })
    }

    fn figure(&self, table: &Table<'_>, name: &str) -> Result<Figure, Failure> {
        Figure::ALL.into_iter().find(|figure| figure.name() == name).ok_or_else(|| {
            let names = Figure::ALL.map(Figure::name).join(", ");
            let span = table.get("figure").map_or(0..0, Spanned::span);
            self.wrong(&span, &format!("figure = \"{name}\": write one of {names}"))
        })
    }

    /// Reads the bound; a bound on a ratio needs a reference.
    fn bound(
        &self,
        span: &Range<usize>,
        table: &Table<'_>,
        has_reference: bool,
    ) -> Result<Bound, Failure> {
        let mut found = Bound::Nothing;
        for (key, bound) in BOUNDS {
            let Some(limit) = self.number_at(table, key)? else { continue };
            if found != Bound::Nothing {
                return Err(self.wrong(span, &format!("{key}: one bound is enough")));
            }
            found = bound(limit);
        }
        let is_ratio = !matches!(found, Bound::AtLeast(_) | Bound::Nothing);
        match is_ratio && !has_reference {
            true => Err(self.wrong(span, "a ratio needs `beside = \"...\"`, the name of a fabric")),
            false => Ok(found),
        }
    }
}
