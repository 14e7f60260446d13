//! Checks whether a command printed the output that a page shows.
//!
//! Lines must be those of the page, in its order; blanks at their ends and the number of blanks in
//! between do not count. A line `...` stands for any number of lines, and ` ...` at the end of a
//! line for the rest of the line. If figures differ from run to run, each number stands for any
//! number.

/// The meaning of numbers on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// The same number.
    Same,
    /// Any number.
    Any,
}

/// The line that stands for any lines.
const ANY_LINES: &str = "...";
/// The text that stands for the rest of a line.
const ANY_REST: &str = " ...";

/// Checks `printed` against the lines of the page.
pub(crate) fn check(promised: &[String], printed: &str, numbers: Numbers) -> Result<(), String> {
    let normal = |line: &str| normal(line, numbers);
    let printed: Vec<String> = printed.lines().map(normal).collect();
    let mut rest = &printed[..];
    let parts: Vec<&[String]> = promised.split(|line| line == ANY_LINES).collect();
    for (index, part) in parts.iter().enumerate() {
        let (is_first, is_last) = (index == 0, index + 1 == parts.len());
        let part: Vec<String> = part.iter().map(|line| normal(line)).collect();
        let mut places = 0..=rest.len().saturating_sub(part.len());
        let fits = |&at: &usize| {
            let end = at + part.len();
            let lines = rest.get(at..end);
            lines
                .is_some_and(|lines| part.iter().zip(lines).all(|(page, line)| is_kept(page, line)))
                && (!is_first || at == 0)
                && (!is_last || end == rest.len())
        };
        let Some(at) = places.find(fits) else {
            return Err(format!("The page promises, and it did not print:\n{}", part.join("\n")));
        };
        rest = &rest[at + part.len()..];
    }
    Ok(())
}

/// Returns true if a printed line is that of the page.
fn is_kept(page: &str, line: &str) -> bool {
    match page.strip_suffix(ANY_REST) {
        Some(begin) => line.starts_with(begin),
        None => line == page,
    }
}

/// Normalizes a line: one blank between words, none at the ends, and numbers as `0` if any number
/// is accepted.
fn normal(line: &str, numbers: Numbers) -> String {
    let words: Vec<String> = line
        .split_whitespace()
        .map(|word| match numbers {
            Numbers::Same => word.to_owned(),
            Numbers::Any => without_figures(word),
        })
        .collect();
    words.join(" ")
}

/// Returns the word with each number, which may have a fraction, as `0`.
fn without_figures(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        if !c.is_ascii_digit() {
            text.push(c);
            continue;
        }
        text.push('0');
        while rest.next_if(|c| c.is_ascii_digit() || matches!(c, '.' | ',')).is_some() {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(promised: &str, printed: &str, numbers: Numbers) -> bool {
        let promised: Vec<String> = promised.lines().map(str::to_owned).collect();
        check(&promised, printed, numbers).is_ok()
    }

    #[test]
    fn lines_are_those_of_the_page() {
        assert!(keeps("a b\nc", "a   b \nc\n", Numbers::Same));
        for wrong in ["a b", "a b\nd", "a b\nc\nd", "x\na b\nc", ""] {
            assert!(!keeps("a b\nc", wrong, Numbers::Same), "{wrong}");
        }
        assert!(keeps("", "", Numbers::Same));
        assert!(!keeps("", "x", Numbers::Same));
    }

    #[test]
    fn dots_stand_for_any_lines() {
        assert!(keeps("a\n...\nc", "a\nb\nb\nc", Numbers::Same));
        assert!(keeps("a\n...\nc", "a\nc", Numbers::Same));
        assert!(keeps("...", "a\nc", Numbers::Same));
        assert!(keeps("...\nb\n...", "a\nb\nc", Numbers::Same));
        assert!(!keeps("...\nb\n...", "a\nc", Numbers::Same));
        assert!(!keeps("a\n...\nc", "a\nc\nd", Numbers::Same));
        assert!(keeps("...\na\nc", "a\nb\na\nc", Numbers::Same), "the last of several places");
    }

    #[test]
    fn dots_at_the_end_stand_for_the_rest_of_a_line() {
        assert!(keeps("a b ...", "a b c d", Numbers::Same));
        assert!(!keeps("a b ...", "a c", Numbers::Same));
    }

    #[test]
    fn figures_stand_for_any_figures() {
        assert!(keeps("64 1000 2.31us", "64 1000 12us", Numbers::Any));
        assert!(keeps("1,024 B", "7 B", Numbers::Any));
        assert!(!keeps("64 us", "64 ms", Numbers::Any));
        assert!(!keeps("64 us", "nan us", Numbers::Any));
        assert!(!keeps("64 us", "65 us", Numbers::Same));
    }
}
