//! A line of Rust, taken apart.

/// Splits a line into its code without the content of strings, and its comment from the mark on. A
/// string of several lines counts as code from its second one on, where a capital that stands alone
/// is rare.
pub(crate) fn split(line: &str) -> (String, &str) {
    let mut code = String::new();
    let (mut is_string, mut is_escaped) = (false, false);
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        // A quotation mark alone begins no string.
        if !is_string && rest.starts_with("'\"'") {
            rest = &rest[3..];
            continue;
        }
        match next {
            '"' if !is_escaped => is_string = !is_string,
            '/' if !is_string && rest.starts_with("//") => return (code, rest),
            _ if !is_string => code.push(next),
            _ => {}
        }
        is_escaped = is_string && next == '\\' && !is_escaped;
        rest = &rest[next.len_utf8()..];
    }
    (code, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_left_out_and_comments_begin_outside_them() {
        assert_eq!(split("let a = 1; // so"), ("let a = 1; ".to_owned(), "// so"));
        assert_eq!(split("f(\"a // \\\" b\", c)"), ("f(, c)".to_owned(), ""));
        assert_eq!(
            split("if a == '\"' { b } // \"c\""),
            ("if a ==  { b } ".to_owned(), "// \"c\"")
        );
        assert_eq!(split("/// One."), (String::new(), "/// One."));
    }
}
