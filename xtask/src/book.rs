//! Links of the book as it was rendered: into it, and from it to files of the checkout.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::markdown::resolve;

/// Output folder of mdBook, and the files in it that are made of other pages.
const FOLDER: &str = "book";
const MADE_OF_OTHERS: [&str; 3] = ["404.html", "print.html", "toc.html"];

/// Checks the links of all pages below `root/book`.
///
/// # Errors
/// Returns an error if the book is not built, or links lead nowhere; the message names them.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut pages = BTreeMap::new();
    read_pages(root, FOLDER, &mut pages)
        .with_context(|| format!("{FOLDER}/ cannot be read: build it with 'make docs'"))?;
    ensure!(
        pages.contains_key(&format!("{FOLDER}/index.html")),
        "{FOLDER}/ is no book: run 'make docs'"
    );
    let ids: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, html)| (path.as_str(), attributes(html, "id").into_iter().collect()))
        .collect();
    let (mut count, mut lost) = (0, Vec::new());
    for (path, html) in &pages {
        let links = ["href", "src"].map(|name| attributes(html, name)).concat();
        for link in links.into_iter().filter(|link| is_ours(link)) {
            count += 1;
            if !leads_somewhere(root, &ids, path, link) {
                lost.push(format!("{path}: {link}"));
            }
        }
    }
    ensure!(lost.is_empty(), "{} links of the book lead nowhere:\n{}", lost.len(), lost.join("\n"));
    println!("book: {} pages, {count} links lead somewhere: {FOLDER}/index.html", pages.len());
    Ok(())
}

fn read_pages(root: &Path, dir: &str, pages: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(root.join(dir))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{dir}/{name}");
        if entry.file_type()?.is_dir() {
            read_pages(root, &path, pages)?;
        } else if name.ends_with(".html") && !MADE_OF_OTHERS.contains(&name.as_str()) {
            let html = fs::read_to_string(entry.path())
                .with_context(|| format!("{path} cannot be read"))?;
            pages.insert(path, html);
        }
    }
    Ok(())
}

fn is_ours(link: &str) -> bool {
    !link.is_empty()
        && !link.contains("://")
        && !link.starts_with("mailto:")
        && !link.starts_with("data:")
}

fn leads_somewhere(
    root: &Path,
    ids: &BTreeMap<&str, BTreeSet<&str>>,
    page: &str,
    link: &str,
) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(target) = resolve(page, path) else { return false };
    match ids.get(target.as_str()) {
        Some(ids) => anchor.is_empty() || ids.contains(anchor),
        None => root.join(&target).exists(),
    }
}

/// Returns the values of all attributes `name`.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    let values = html.split(begin.as_str()).skip(1);
    values.filter_map(|rest| rest.split('"').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found() {
        let html = r#"<a class="x" href="a.html#b">t</a><h2 id="b"><img src="c.svg">"#;
        assert_eq!(attributes(html, "href"), ["a.html#b"]);
        assert_eq!(attributes(html, "id"), ["b"]);
    }

    #[test]
    fn lost_links_are_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("src/x.rs", "");
        write("book/a/b.html", r##"<a href="../index.html#one"> <a href="#two"> <h1 id="two">"##);
        write("book/index.html", r#"<h1 id="one"> <a href="a/b.html"> <a href="../src/x.rs">"#);
        check(root.path()).unwrap();
        write("book/index.html", r##"<a href="a/b.html#three"> <a href="../src/y.rs">"##);
        let error = check(root.path()).unwrap_err().to_string();
        for link in ["3 links", "index.html: a/b.html#three", "index.html: ../src/y.rs", "#one"] {
            assert!(error.contains(link), "{error}");
        }
    }

    #[test]
    fn a_book_that_is_not_built_is_said() {
        let root = tempfile::tempdir().unwrap();
        assert!(format!("{:#}", check(root.path()).unwrap_err()).contains("make docs"));
    }
}
