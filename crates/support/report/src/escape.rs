//! Text into HTML, and names of files into addresses.

use std::fmt::Write;

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
            other => out.push(other),
        }
    }
    out
}

/// The address of a file beside this one, for HTML and Markdown: what would end or break it is in
/// percent.
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
    use super::{address, escape};

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escape("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
    }

    #[test]
    fn names_of_files_become_addresses() {
        assert_eq!(address("a b#1?%.html"), "a%20b%231%3F%25.html");
        assert_eq!(address("plots/(x):\"<é>.svg"), "plots/%28x%29%3A%22%3Cé%3E.svg");
        assert_eq!(address("index-plots/2.svg"), "index-plots/2.svg");
    }
}
