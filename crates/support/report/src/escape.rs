//! Escaping of text for HTML and Markdown, and of file names for addresses.

use std::borrow::Cow;
use std::fmt::Write;

/// Replaces control characters (but lines and tabs) by U+FFFD: they tell a terminal what to do, and
/// XML does not have them.
#[must_use]
pub fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(is_control, "\u{fffd}"))
}

fn is_control(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\r' | '\t')
}

/// Escapes text for element content and for quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other if is_control(other) => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Escapes text for Markdown, which has tags and entities of HTML between its own signs, but not in
/// code.
pub(crate) fn escape_markdown(text: &str) -> String {
    let text = &*without_controls(text);
    // A backslash may take the meaning of a backtick.
    if text.contains('\\') {
        return without_tags(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (plain, ticks) = rest.split_at(at);
        let count = ticks.len() - ticks.trim_start_matches('`').len();
        let (code, after) = ticks.split_at(code_end(ticks, count).unwrap_or(count));
        out.push_str(&without_tags(plain));
        out.push_str(code);
        rest = after;
    }
    out + &without_tags(rest)
}

fn without_tags(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Returns the end of code that begins with so many backticks: behind as many, on the same line.
fn code_end(text: &str, count: usize) -> Option<usize> {
    let mut at = count;
    while let Some(next) = text[at..].find('`') {
        let start = at + next;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        at = start + run;
        if run == count {
            return Some(at).filter(|end| !text[..*end].contains('\n'));
        }
    }
    None
}

/// Returns the address of a file beside this one, for HTML and Markdown, with percent encoding of
/// what would end or break it.
pub(crate) fn address(file: &str) -> String {
    let mut out = String::with_capacity(file.len());
    for character in file.chars() {
        // Letters of other alphabets may stand there, colons not: they would end a scheme.
        if character.is_alphanumeric() || "/-._~!$&'*+,;=@".contains(character) {
            out.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{address, escape, escape_markdown};

    /// An SVG with such a name once was no XML.
    #[test]
    fn what_tells_a_terminal_something_is_shown_as_a_sign() {
        let evil = "a\u{1b}[31mb\u{0}c\u{7}\u{9b}d\te\n";
        let plain = "a\u{fffd}[31mb\u{fffd}c\u{fffd}\u{fffd}d\te\n";
        assert_eq!((&*escape(evil), &*escape_markdown(evil)), (plain, plain));
    }

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escape("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
    }

    #[test]
    fn markdown_has_no_tags_of_others() {
        assert_eq!(escape_markdown("<script>&amp; a > b"), "&lt;script>&amp;amp; a > b");
        assert_eq!(escape_markdown("a `b <c> && d` <e>"), "a `b <c> && d` &lt;e>");
        assert_eq!(escape_markdown("``a ` <b>`` <c>"), "``a ` <b>`` &lt;c>");
        // Code that never ends is none, nor what a paragraph or a backslash ends.
        for text in ["`<b>", "```<b>`", "`\n\n<b>`", "\\`<b>`", "`a` `<b>"] {
            assert!(!escape_markdown(text).contains('<'), "{text}");
        }
    }

    #[test]
    fn names_of_files_become_addresses() {
        assert_eq!(address("a b#1?%.html"), "a%20b%231%3F%25.html");
        assert_eq!(address("plots/(x):\"<é>.svg"), "plots/%28x%29%3A%22%3Cé%3E.svg");
        assert_eq!(address("index-plots/2.svg"), "index-plots/2.svg");
    }
}
