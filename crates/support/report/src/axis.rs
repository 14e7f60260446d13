//! Axes: from values to places and tick marks.

/// Number of characters that fit below a chart.
const NAME_CHARS_ALL: usize = 72;
/// Minimum number of characters of a name.
const NAME_CHARS_MIN: usize = 6;

/// Maximum number of steps between the powers of ten that an axis marks.
const DECADES_MAX: f64 = 20.0;
/// Maximum number of steps between the marks of an axis of powers of two.
const POWERS_MAX: f64 = 32.0;

/// The spread of values along an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps, from zero.
    Linear,
    /// Equal factors, ticks at powers of ten (and 2, 5 on short axes).
    Log10,
    /// Equal factors, ticks at powers of two: message sizes and depths.
    Log2,
    /// Things that are no numbers, side by side: the first is at 1, the next at 2.
    Names(Vec<String>),
}

/// One axis of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// The label, with the unit: "message size (bytes)".
    pub label: String,
    /// The scale of the axis.
    pub scale: Scale,
}

impl Axis {
    /// Returns a value of the axis as a cell of a table.
    pub(crate) fn cell(&self, value: f64) -> String {
        let Scale::Names(names) = &self.scale else { return value.to_string() };
        let name = (1..).zip(names).find(|(place, _)| f64::from(*place) == value);
        name.map_or_else(|| value.to_string(), |(_, name)| name.clone())
    }
}

/// An axis fitted to data.
#[derive(Debug, Clone)]
pub(crate) struct Fitted {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Fitted {
    /// Fits the axis around `values`; logarithmic axes ignore values that are not above zero.
    pub(crate) fn new(scale: &Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| is_shown(scale, *value)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let (low, high) = match scale {
            Scale::Linear => (low.min(0.0), nice_above(high.max(1e-9))),
            Scale::Log10 => padded(floor_125(low), ceil_125(high), 10.0),
            Scale::Log2 => padded(low, high, 2.0),
            Scale::Names(names) => (0.5, names.iter().fold(0.5_f64, |end, _| end + 1.0).max(1.5)),
        };
        // Rounding may lead out of what numbers can hold.
        let is_log = matches!(scale, Scale::Log10 | Scale::Log2);
        let low = if is_log { low.max(f64::MIN_POSITIVE) } else { low };
        Self { scale: scale.clone(), low, high: high.min(f64::MAX) }
    }

    /// Returns the place of a value: 0 at the low end, 1 at the high end; `None` when it cannot be
    /// shown.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        if matches!(self.scale, Scale::Linear | Scale::Names(_)) {
            return Some((value - self.low) / (self.high - self.low));
        }
        is_shown(&self.scale, value)
            .then(|| (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()))
    }

    /// Returns the values to mark, with their labels.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let values = match &self.scale {
            Scale::Linear => (0..=5).map(|i| self.high / 5.0 * f64::from(i)).collect(),
            Scale::Log10 => self.decades(),
            Scale::Log2 => self.powers_of_two(),
            Scale::Names(names) => return named(names),
        };
        values.into_iter().map(|v| (v, number(v, &self.scale))).collect()
    }

    fn decades(&self) -> Vec<f64> {
        let span = self.high.log10() - self.low.log10();
        let step = (span / DECADES_MAX).ceil().max(1.0);
        let factors: &[f64] = if span <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.low.log10().floor();
        let mut ticks = Vec::new();
        let mut exponent = first;
        while exponent <= self.high.log10() + 1e-9 {
            for factor in factors {
                let value = factor * 10_f64.powf(exponent);
                if value >= self.low * (1.0 - 1e-9) && value <= self.high * (1.0 + 1e-9) {
                    ticks.push(value);
                }
            }
            exponent += step;
        }
        ticks
    }

    fn powers_of_two(&self) -> Vec<f64> {
        let (first, last) = (self.low.log2().ceil(), self.high.log2().floor());
        let usual = if last - first > 8.0 { 2.0 } else { 1.0 };
        let step = ((last - first) / POWERS_MAX).ceil().max(usual);
        let mut ticks = Vec::new();
        let mut exponent = first;
        while exponent <= last {
            ticks.push(exponent.exp2());
            exponent += step;
        }
        // An axis with one mark or none has no scale that one could read.
        if ticks.len() < 2 { vec![self.low, self.high] } else { ticks }
    }
}

/// Returns whether an axis has a place for a value: one of equal factors has none for 0, and none
/// for numbers so small that their digits are lost.
fn is_shown(scale: &Scale, value: f64) -> bool {
    match scale {
        Scale::Linear | Scale::Names(_) => value.is_finite(),
        Scale::Log10 | Scale::Log2 => value > 0.0 && value.is_normal(),
    }
}

/// Returns names at their places, cut to the room that each has; when that is too little, not all
/// of them.
fn named(names: &[String]) -> Vec<(f64, String)> {
    let every = names.len().div_ceil(NAME_CHARS_ALL / NAME_CHARS_MIN).max(1);
    let chars_max = NAME_CHARS_ALL * every / names.len().max(1);
    let short = |name: &String| {
        if name.chars().count() <= chars_max {
            return name.clone();
        }
        format!("{}…", name.chars().take(chars_max - 1).collect::<String>())
    };
    (1..).zip(names).step_by(every).map(|(i, name)| (f64::from(i), short(name))).collect()
}

fn padded(low: f64, high: f64, factor: f64) -> (f64, f64) {
    if high > low { (low, high) } else { (low / factor, high * factor) }
}

/// Returns the largest of 1, 2, 5 times a power of ten that is not above `value`.
fn floor_125(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [5.0, 2.0, 1.0].into_iter().find(|f| f * power <= value * (1.0 + 1e-9));
    factor.unwrap_or(1.0) * power
}

/// Returns the smallest of 1, 2, 5, 10 times a power of ten that is not below `value`.
fn ceil_125(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= value * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Returns a round number that is not below `value` and that five equal steps divide well.
fn nice_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0]
        .into_iter()
        .find(|f| f * power >= value * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Returns a short label for a tick.
fn number(value: f64, scale: &Scale) -> String {
    let unit = [(1_048_576.0, "Mi"), (1024.0, "Ki")]
        .into_iter()
        .find(|(unit, _)| *scale == Scale::Log2 && value >= *unit && value % unit == 0.0);
    if let Some((unit, name)) = unit {
        return format!("{} {name}", value / unit);
    }
    if value >= 10_000.0 {
        return if value >= 1e6 {
            format!("{} M", trim(value / 1e6))
        } else {
            format!("{} k", trim(value / 1e3))
        };
    }
    trim(value)
}

/// Formats a number without trailing zeros: whole from 100 on, else with up to four decimals, or
/// with up to four significant digits below 0.1.
fn trim(value: f64) -> String {
    // 0.00001 is not 0.
    let zeros = (4_u8..12).find(|zeros| value.abs() >= 0.1_f64.powi(i32::from(*zeros) - 3));
    let decimals = match value {
        _ if value >= 100.0 || value == 0.0 => 0,
        _ => usize::from(zeros.unwrap_or(12)),
    };
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale, values: &[f64]) -> Vec<String> {
        Fitted::new(scale, values.iter().copied()).ticks().into_iter().map(|(_, l)| l).collect()
    }

    #[test]
    fn sizes_are_marked_at_powers_of_two() {
        assert_eq!(labels(&Scale::Log2, &[1.0, 8.0]), ["1", "2", "4", "8"]);
        let long = labels(&Scale::Log2, &[1.0, 16384.0]);
        assert_eq!(long.first().map(String::as_str), Some("1"));
        assert_eq!(long.last().map(String::as_str), Some("16 Ki"));
    }

    /// The axis once had no mark, or one.
    #[test]
    fn ends_are_marked_where_there_are_less_than_two_powers_of_two() {
        assert_eq!(labels(&Scale::Log2, &[5.0, 7.0]), ["5", "7"]);
        assert_eq!(labels(&Scale::Log2, &[3000.0, 4000.0]), ["3000", "4000"]);
        assert_eq!(labels(&Scale::Log2, &[1536.0, 2048.0]), ["1536", "2 Ki"]);
        assert_eq!(labels(&Scale::Log2, &[3.0, 10.0]), ["4", "8"]);
        assert_eq!(labels(&Scale::Log2, &[6.0]), ["4", "8"]);
    }

    #[test]
    fn decades_and_linear_steps_are_round() {
        assert_eq!(labels(&Scale::Log10, &[3.0, 40.0]), ["2", "5", "10", "20", "50"]);
        assert_eq!(labels(&Scale::Log10, &[0.02, 90_000.0]).last().unwrap(), "100 k");
        assert_eq!(labels(&Scale::Linear, &[1.0, 9.0]), ["0", "2", "4", "6", "8", "10"]);
    }

    #[test]
    fn small_numbers_are_not_zero() {
        let labels = labels(&Scale::Log10, &[1.2e-6, 1.0]);
        assert_eq!(labels[..3], ["0.000001", "0.00001", "0.0001"]);
    }

    #[test]
    fn places_run_from_zero_to_one() {
        let axis = Fitted::new(&Scale::Log10, [1.0, 100.0].into_iter());
        assert_eq!(axis.place(1.0), Some(0.0));
        assert!((axis.place(10.0).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(axis.place(0.0), None);
        assert_eq!(axis.place(f64::NAN), None);
    }

    #[test]
    fn names_stand_side_by_side_and_are_cut_to_their_room() {
        let names = |names: &[&str]| Scale::Names(names.iter().map(|&n| n.to_owned()).collect());
        let axis = Fitted::new(&names(&["srd", "tcp"]), [1.0, 2.0].into_iter());
        assert_eq!(axis.ticks(), [(1.0, "srd".to_owned()), (2.0, "tcp".to_owned())]);
        assert_eq!((axis.place(1.0), axis.place(2.0)), (Some(0.25), Some(0.75)));
        let long = "a-scenario-of-the-repository.toml";
        let axis = Fitted::new(&names(&[long; 48]), std::iter::empty());
        let ticks = axis.ticks();
        assert_eq!((ticks.len(), ticks[1].0), (12, 5.0));
        assert_eq!(ticks[0].1, "a-sce…");
        let axis = Axis { label: String::new(), scale: names(&["srd", "tcp"]) };
        assert_eq!((axis.cell(2.0), axis.cell(3.0)), ("tcp".to_owned(), "3".to_owned()));
    }

    /// The least of all numbers once took all memory, and the greatest had no place.
    #[test]
    fn the_least_and_the_greatest_numbers_leave_an_axis_as_it_is() {
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2] {
            for values in [
                vec![5e-324],
                vec![5e-324, 1.0, 2.0],
                vec![f64::MIN_POSITIVE, f64::MAX],
                vec![1e308, 1.0],
                vec![1.7e308],
            ] {
                let axis = Fitted::new(&scale, values.iter().copied());
                let ticks = axis.ticks();
                assert!((1..200).contains(&ticks.len()), "{scale:?}, {values:?}: {ticks:?}");
                let ticks = ticks.into_iter().map(|(value, _)| value);
                for value in ticks.chain(values.iter().copied()) {
                    let place = axis.place(value).unwrap_or_default();
                    assert!((-0.01..=1.01).contains(&place), "{scale:?}, {values:?}: {value}");
                }
            }
        }
    }

    #[test]
    fn no_data_is_no_panic() {
        let names = |count| Scale::Names(vec!["a".to_owned(); count]);
        assert!(Fitted::new(&names(0), std::iter::empty()).ticks().is_empty());
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2, names(1)] {
            assert!(!Fitted::new(&scale, std::iter::empty()).ticks().is_empty());
            assert!(!Fitted::new(&scale, [f64::NAN, 0.0, -1.0].into_iter()).ticks().is_empty());
        }
    }
}
