//! Shares and times as users write them.

/// Shares are per million, so that a specification compares and prints exactly.
const MILLION: u32 = 1_000_000;
/// The longest time that can be asked for: an hour.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Parses `1%` or `0.01` as 10,000 per million. A value that would be rounded to zero is no share,
/// nor is `1`, which more often means 1 % than 100 %.
pub(super) fn share(text: &str) -> Option<u32> {
    if text.trim() == "1" {
        return None;
    }
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 0.01));
    let share = number.trim().parse::<f64>().ok()? * unit;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked range")]
    let ppm = (0.0..=1.0).contains(&share).then(|| (share * f64::from(MILLION)).round() as u32);
    ppm.filter(|ppm| *ppm > 0 || share == 0.0)
}

/// Formats a share for [`share`] to parse.
pub(super) fn format_share(ppm: u32) -> String {
    format!("{}%", f64::from(ppm) / 10_000.0)
}

/// Parses `50us` or `1.5s` as nanoseconds.
pub(super) fn time(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, scale) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    #[expect(clippy::cast_precision_loss, reason = "a power of ten below 2^53")]
    let ns = (number.parse::<f64>().ok()? * scale as f64).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let ns = ns as u64;
    (ns <= TIME_MAX_NS).then_some(ns)
}

/// Formats a time for [`time`] to parse, in the largest unit that shows it exactly.
pub(super) fn format_time(ns: u64) -> String {
    let fits = |(_, scale): &&(&str, u64)| ns % scale == 0 && ns >= *scale;
    let (unit, scale) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]);
    format!("{}{unit}", ns / scale)
}

/// Parses `50us`, `10us..2ms`, `50us±20us` or `50us+-20us` as shortest and longest time.
pub(super) fn range(text: &str) -> Option<(u64, u64)> {
    if let Some((min, max)) = text.split_once("..") {
        return Some((time(min)?, time(max)?)).filter(|(min, max)| min <= max);
    }
    let Some((middle, around)) = text.split_once('±').or_else(|| text.split_once("+-")) else {
        return time(text).map(|time| (time, time));
    };
    let (middle, around) = (time(middle)?, time(around)?);
    // A longer time could not be parsed again where this is handed on.
    Some((middle.checked_sub(around)?, middle + around)).filter(|(_, max)| *max <= TIME_MAX_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_survive_printing() {
        assert_eq!(time("1.5s"), Some(1_500_000_000));
        for ns in [0, 1, 999, 1_000, 50_000, 1_500_000, 2_000_000_000, 3_600_000_000_000] {
            assert_eq!(time(&format_time(ns)), Some(ns), "{}", format_time(ns));
        }
        for bad in ["", "5", "s", "1.2.3s", "-1s", "1h", "3601s", "infs", ".s"] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_range_is_written_in_three_ways() {
        assert_eq!(range("50us"), Some((50_000, 50_000)));
        assert_eq!(range("10us..2ms"), Some((10_000, 2_000_000)));
        assert_eq!(range("50us±20us"), Some((30_000, 70_000)));
        assert_eq!(range("50us+-20us"), range("50us±20us"));
        assert_eq!(range("2000s±1600s"), Some((400_000_000_000, 3_600_000_000_000)));
        for bad in ["3us..1us", "10us+-20us", "50us..", "±1us", "1us+1us", "2000s±1800s"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }

    #[test]
    fn shares_are_percent_or_fractions() {
        assert_eq!(
            (share("1%"), share("0.2"), share("100%")),
            (Some(10_000), Some(200_000), Some(1_000_000))
        );
        assert_eq!((share("101%"), share("x"), share("")), (None, None, None));
        assert_eq!((share("1"), share("1.0")), (None, Some(1_000_000)), "1 % or 100 %?");
        assert_eq!((share("0.00004%"), share("0%"), share("0.0001%")), (None, Some(0), Some(1)));
        assert_eq!(share(&format_share(123)), Some(123));
    }
}
