//! The parameters of a sweep, as axes of charts.

use crate::command::record::{Point, Results};
use crate::command::setting;
use report::{Axis, Scale};

/// Name of the parameter for scenario files, where several are swept.
const SCENARIO: &str = "scenario";
/// Ratio above which values are shown in equal factors.
const LINEAR_RATIO_MAX: f64 = 5.0;

/// A field with the values that the points of a sweep have of it, as written, in their order.
#[derive(Debug, PartialEq)]
pub(super) struct Parameter {
    pub(super) field: String,
    values: Vec<String>,
    /// Values as numbers, when all are.
    numbers: Option<Vec<f64>>,
}

impl Parameter {
    /// Returns all parameters that differ between points; the scenario when nothing else does.
    pub(super) fn all(results: &Results) -> Vec<Self> {
        let points = &results.points;
        let mut all = vec![Self::new(SCENARIO, points)];
        for (field, _) in points.iter().flat_map(|point| &point.settings) {
            if all.iter().all(|known| known.field != *field) {
                all.push(Self::new(field, points));
            }
        }
        let varies = |parameter: &Self| parameter.values.len() > 1;
        if all.iter().any(varies) {
            all.retain(varies);
        } else {
            all.truncate(1);
        }
        all
    }

    fn new(field: &str, points: &[Point]) -> Self {
        let mut values: Vec<String> = Vec::new();
        for value in points.iter().map(|point| value_of(field, point)) {
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
        let numbers = values.iter().map(|value| setting::number(value)).collect();
        Self { field: field.to_owned(), values, numbers }
    }

    /// Returns the value that a point has of it; empty when it has none.
    pub(super) fn value<'a>(&self, point: &'a Point) -> &'a str {
        value_of(&self.field, point)
    }

    /// Returns the place of a point on the axis.
    pub(super) fn place(&self, point: &Point) -> Option<f64> {
        let number = self.values.iter().position(|value| value == self.value(point))?;
        match &self.numbers {
            Some(numbers) => numbers.get(number).copied(),
            None => Some(number as f64 + 1.0),
        }
    }

    pub(super) fn axis(&self) -> Axis {
        let names = || Scale::Names(self.values.clone());
        let scale = self.numbers.as_ref().map_or_else(names, |numbers| scale_of(numbers));
        Axis { label: self.field.clone(), scale }
    }
}

fn value_of<'a>(field: &str, point: &'a Point) -> &'a str {
    if field == SCENARIO {
        return &point.file;
    }
    let known = point.settings.iter().find(|(name, _)| name == field);
    known.map_or("", |(_, value)| value)
}

/// Chooses the scale that spreads numbers best: in equal factors when some are far apart and all
/// above zero.
pub(super) fn scale_of(numbers: &[f64]) -> Scale {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_power = |number: &f64| number.log2().fract() == 0.0;
    if least <= 0.0 || most <= LINEAR_RATIO_MAX * least {
        Scale::Linear
    } else if numbers.iter().all(is_power) {
        Scale::Log2
    } else {
        Scale::Log10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(points: &[(&str, &[(&str, &str)])]) -> Results {
        let own = |text: &&str| (*text).to_owned();
        let point = |(file, settings): &(&str, &[(&str, &str)])| Point {
            file: own(file),
            settings: settings.iter().map(|(field, value)| (own(field), own(value))).collect(),
            ..Point::default()
        };
        Results::new(points.iter().map(point).collect())
    }

    #[test]
    fn what_varies_is_an_axis_and_sizes_are_numbers() {
        let results = results(&[
            ("s.toml", &[("bytes", "64KB"), ("kind", "srd"), ("limit_ms", "9")]),
            ("s.toml", &[("bytes", "1MB"), ("kind", "tcp"), ("limit_ms", "9")]),
            ("s.toml", &[("bytes", "1MB"), ("kind", "srd"), ("limit_ms", "9")]),
        ]);
        let all = Parameter::all(&results);
        let fields: Vec<&str> = all.iter().map(|parameter| parameter.field.as_str()).collect();
        assert_eq!(fields, ["bytes", "kind"]);
        let places = |parameter: &Parameter| -> Vec<Option<f64>> {
            results.points.iter().map(|point| parameter.place(point)).collect()
        };
        assert_eq!(places(&all[0]), [Some(64e3), Some(1e6), Some(1e6)]);
        assert_eq!(places(&all[1]), [Some(1.0), Some(2.0), Some(1.0)]);
        assert_eq!(all[0].axis().scale, Scale::Log10);
        assert_eq!(all[1].axis().scale, Scale::Names(vec!["srd".to_owned(), "tcp".to_owned()]));
    }

    #[test]
    fn scenarios_are_one_where_they_are_several_or_all_there_is() {
        let fields = |results: &Results| -> Vec<String> {
            Parameter::all(results).into_iter().map(|parameter| parameter.field).collect()
        };
        assert_eq!(fields(&results(&[("a.toml", &[]), ("b.toml", &[])])), ["scenario"]);
        assert_eq!(fields(&results(&[("a.toml", &[("paths", "4")])])), ["scenario"]);
        let both = [("a.toml", &[("paths", "4")][..]), ("b.toml", &[("paths", "16")])];
        assert_eq!(fields(&results(&both)), ["scenario", "paths"]);
    }

    #[test]
    fn axes_fit_their_numbers() {
        assert_eq!(scale_of(&[16.0, 64.0, 256.0]), Scale::Log2);
        assert_eq!(scale_of(&[1.0, 2.0, 4.0]), Scale::Linear);
        assert_eq!(scale_of(&[0.0, 100.0]), Scale::Linear);
        assert_eq!(scale_of(&[1.0, 100.0]), Scale::Log10);
    }
}
