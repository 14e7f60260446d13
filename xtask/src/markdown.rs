//! The part of Markdown that the documents use: links and headings.

use std::collections::BTreeSet;

use crate::tidy::source;

/// A link to something in the checkout; a target that begins with a scheme is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Number of its line, from 1.
    pub(crate) line: usize,
    /// Path as written, empty for this very page.
    pub(crate) path: &'a str,
    /// Text behind `#`, empty for the whole page.
    pub(crate) anchor: &'a str,
}

/// Returns all links of a page, outside code.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        let code = code_spans(text);
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap_or_default();
            let in_code = code.iter().any(|span| span.contains(&at));
            if !in_code && !target.contains("://") && !target.starts_with("mailto:") {
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                links.push(Link { line, path, anchor });
            }
        }
    }
    links
}

/// Returns the anchors of all headings, as GitHub and mdBook make them, and those written as `<a
/// id="name"></a>`.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    const ANCHOR: &str = "<a id=\"";
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let named = line.match_indices(ANCHOR).map(|(at, _)| &line[at + ANCHOR.len()..]);
        anchors.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let first = anchor(title.trim());
        let mut again = (1..).map(|n| format!("{first}-{n}"));
        let free =
            if anchors.contains(&first) { again.find(|a| !anchors.contains(a)) } else { None };
        anchors.insert(free.unwrap_or(first));
    }
    anchors
}

fn anchor(title: &str) -> String {
    // Anchors have the text of a link, without its target.
    let mut shown = String::new();
    let mut rest = title;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    let kept = shown.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Resolves `target` as seen from the page at `from` to a path from the root. `None` outside the
/// checkout.
pub(crate) fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the code of a page with its lines: what prose quotes, and fenced code that is Rust or
/// names no language.
pub(crate) fn code(text: &str) -> Vec<(usize, String)> {
    let mut code = Vec::new();
    let mut fence = None;
    for (number, line) in (1..).zip(text.lines()) {
        if is_fence(line) {
            let language = line.trim_start().trim_start_matches('`').trim();
            fence = fence.is_none().then_some(language);
        } else if fence.is_none() {
            code.extend(quoted(line).map(|quoted| (number, quoted.to_owned())));
        } else if fence.is_some_and(|language| language.is_empty() || language.starts_with("rust"))
        {
            code.push((number, source::split(line).0));
        }
    }
    code
}

/// Returns the parts of a line of prose between backticks.
pub(crate) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    code_spans(line).into_iter().map(|span| &line[span.start + 1..span.end])
}

/// Returns the lines outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = is_fence(line);
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Returns whether fenced code begins or ends with the line.
pub(crate) fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Returns the ranges of bytes of the line between backticks.
fn code_spans(line: &str) -> Vec<std::ops::Range<usize>> {
    let ticks: Vec<usize> = line.match_indices('`').map(|(at, _)| at).collect();
    ticks.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let text =
            "# `softefa top`\n## A, b: c_d\n## A, b: c_d\n```\n# code\n```\n#no\n### [x](y.md) z\n";
        let expected = ["softefa-top", "a-b-c_d", "a-b-c_d-1", "x-z"];
        assert_eq!(anchors(text), expected.map(str::to_owned).into());
        let named = "* <a id=\"one\"></a>**One.** <a id=\"two\"></a>\n```\n<a id=\"code\">\n```\n";
        assert_eq!(anchors(named), ["one", "two"].map(str::to_owned).into());
    }

    #[test]
    fn links_with_their_places() {
        let text = "a\n[b](c.md#d) and [e](#f), `[g](h)`, [i](https://j/k)\n";
        let link = |path, anchor| Link { line: 2, path, anchor };
        assert_eq!(links(text), [link("c.md", "d"), link("", "f")]);
    }

    #[test]
    fn code_is_what_is_quoted_or_fenced() {
        let page = "a `b c` d `e`\n```\nf // g\n```\n```console\nh\n```\n```rust\ni\n```\n";
        let expected = [(1, "b c"), (1, "e"), (3, "f "), (9, "i")];
        assert_eq!(code(page), expected.map(|(line, code)| (line, code.to_owned())));
    }

    #[test]
    fn targets_are_seen_from_their_page() {
        let seen = |target| resolve("docs/start/a.md", target);
        assert_eq!(seen("b.md").as_deref(), Some("docs/start/b.md"));
        assert_eq!(seen("../../README.md").as_deref(), Some("README.md"));
        assert_eq!(seen("").as_deref(), Some("docs/start/a.md"));
        assert_eq!(seen("../../../x"), None);
    }
}
