//! Sparklines: values as a line of blocks, so that a curve fits within a line of text.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum number of characters; longer ones do not fit beside words.
const CHARS_MAX: usize = 24;
/// Ratio above which values are spread by their logarithm.
const WIDE: f64 = 20.0;

/// Returns a block for each value, in order, the lowest for the least; a dot where there is none.
/// If there are too many values, some are left out.
#[must_use]
pub fn sparkline(values: &[Option<f64>]) -> String {
    let usable = |value: &f64| value.is_finite();
    let known = || values.iter().flatten().filter(|value| usable(value)).copied();
    let (Some(low), Some(high)) = (known().reduce(f64::min), known().reduce(f64::max)) else {
        return String::new();
    };
    let is_wide = low > 0.0 && high / low > WIDE;
    let place = |value: f64| match (is_wide, high > low) {
        (_, false) => 0.5,
        (true, true) => (value / low).ln() / (high / low).ln(),
        (false, true) => (value - low) / (high - low),
    };
    let block = |value: &Option<f64>| {
        let Some(value) = value.filter(usable) else { return '·' };
        let step = (place(value) * (BLOCKS.len() - 1) as f64).round() as usize;
        BLOCKS[step.min(BLOCKS.len() - 1)]
    };
    let shown = values.len().min(CHARS_MAX);
    // The first and the last are always among them.
    let index = |place: usize| place * (values.len() - 1) / shown.saturating_sub(1).max(1);
    (0..shown).filter_map(|place| values.get(index(place))).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> String {
        sparkline(&values.iter().copied().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn the_least_is_lowest_and_the_greatest_highest() {
        assert_eq!(of(&[1.0, 2.0, 8.0]), "▁▂█");
        assert_eq!(of(&[3.0, 3.0]), "▅▅");
        assert_eq!(sparkline(&[Some(1.0), None, Some(2.0)]), "▁·█");
        // By factors where they differ much.
        assert_eq!(of(&[1.0, 10.0, 100.0]), "▁▅█");
    }

    #[test]
    fn there_is_a_line_of_anything() {
        assert_eq!((sparkline(&[]), sparkline(&[None])), (String::new(), String::new()));
        assert_eq!(of(&[f64::NAN, 1.0, f64::INFINITY]), "·▅·");
        assert_eq!(of(&[0.0, -1.0, 5.0]).chars().count(), 3);
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        let line = of(&many);
        assert_eq!(
            (line.chars().count(), line.starts_with('▁'), line.ends_with('█')),
            (24, true, true)
        );
    }
}
