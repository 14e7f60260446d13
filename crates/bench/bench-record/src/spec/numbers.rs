//! Numbers as people write them.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// The most values of a list; more are a mistake.
const STEPS_MAX: usize = 10_000;

/// Parses a number of bytes: "4096", "64K", "256M", "20G" (powers of two).
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.filter(|n| *n > 0).ok_or_else(|| {
        let hint = meant(text).unwrap_or_else(|| "4096, 64K, 256M or 20G".to_owned());
        format!("`{text}`: write {hint}")
    })
}

/// Checks that the value of an option is in a sensible range, and returns it.
pub fn within<T: PartialOrd + Display>(
    option: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = range.into_inner();
    Err(format!("{option} {value}: give {least} to {most}"))
}

/// Returns the right spelling of a number with another unit: `64K` for `64KB` and `64KiB`, `64` for
/// `64B`.
fn meant(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let unit =
        ["kib", "mib", "gib", "kb", "mb", "gb", "b"].into_iter().find(|u| lower.ends_with(u))?;
    let digits = lower[..lower.len() - unit.len()].trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let factor = if unit == "b" { "" } else { &unit[..1] }.to_ascii_uppercase();
    let note = if factor.is_empty() { " (bytes)" } else { " (powers of two)" };
    is_number.then(|| format!("{digits}{factor}{note}"))
}

/// Parses a list of numbers: "64", "1,2,1000", "8K,1M", "1..8192" (powers of two within),
/// "7000..9000+100" (steps) and mixtures.
pub fn parse_list(text: &str) -> Result<Vec<usize>, String> {
    let number = |t: &str| {
        let t = t.trim();
        parse_bytes(t).map_err(|_| {
            let usual = || "64, 1,2,1000 or 1..8192 (powers of two)".to_owned();
            let hint = meant(t).unwrap_or_else(usual);
            format!("`{t}` is not a number above 0: write {hint}")
        })
    };
    let mut values = Vec::new();
    for part in text.split(',') {
        let Some((from, to)) = part.split_once("..") else {
            values.push(number(part)?);
            continue;
        };
        let (to, step) = match to.split_once('+') {
            Some((to, step)) => (to, Some(number(step)?)),
            None => (to, None),
        };
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(format!("`{part}` runs backwards"));
        }
        if let Some(step) = step {
            values.extend((from..=to).step_by(step).take(STEPS_MAX));
            continue;
        }
        let mut value = from.next_power_of_two();
        while value <= to {
            values.push(value);
            let Some(next) = value.checked_mul(2) else { break };
            value = next;
        }
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges_of_powers_of_two() {
        assert_eq!(parse_list("64"), Ok(vec![64]));
        assert_eq!(parse_list("1..16"), Ok(vec![1, 2, 4, 8, 16]));
        assert_eq!(parse_list("8K,1M..2M"), Ok(vec![8192, 1 << 20, 1 << 21]));
        assert_eq!(parse_list("3..9,1000,1"), Ok(vec![1, 4, 8, 1000]));
        assert_eq!(parse_list("7..10+2,1"), Ok(vec![1, 7, 9]));
        for bad in [
            "",
            "0",
            "1..5+0",
            "1..+5",
            "5..1+1",
            "a",
            "4..1",
            "1..",
            "-1",
            "1..99999999999999999999999",
        ] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_bytes("20G"), Ok(20 << 30));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for bad in ["", "G", "0", "-1", "1T", "99999999999999999G"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        for (given, meant) in [("64KB", "64K"), ("64kib", "64K"), ("1,2MB", "2M"), ("64B", "64 ")] {
            let error = parse_list(given).expect_err(given);
            assert!(error.ends_with(')') && error.contains(&format!("write {meant}")), "{error}");
        }
        assert!(parse_bytes("3GiB").is_err_and(|error| error.contains("write 3G")));
        let top = usize::MAX.to_string();
        assert_eq!(parse_list(&format!("1..{top}")).map(|v| v.len()), Ok(64));
    }
}
