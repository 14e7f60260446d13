//! `cargo xtask abi-lists CHECKOUT`: the lists in `crates/device/softefa-verbs/abi`, from the map
//! files of every release of rdma-core since 44 in a checkout (or a bare repository) on this
//! machine.
//!
//! A public list has each function at every node where any release had it, because programs are
//! linked to these. The private one has what rdma-core's own libraries take, of all releases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Number of the oldest release whose programs are served: that of Debian 12.
const OLDEST: u32 = 44;
const VERBS_MAP: &str = "libibverbs/libibverbs.map.in";
const EFA_MAP: &str = "providers/efa/libefa.map";
/// Placeholder for a number in private names.
const NUMBER: &str = "@IBVERBS_PABI_VERSION@";

/// Functions, indexed by node.
type Nodes = BTreeMap<Node, BTreeSet<String>>;

/// The kind of a function in a map file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A function that returns a pointer.
    Pointer,
    /// A function that returns something else, or a variable.
    Other,
    /// A function that programs have from the header: maps of some releases name it for nothing.
    Inline,
}

type Kinds = BTreeMap<String, Kind>;

/// A node, ordered by its numbers: `IBVERBS_1.10` is after `IBVERBS_1.9`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Node(Vec<u32>, String);

impl Node {
    fn new(name: &str) -> Self {
        let numbers = name.split(['_', '.']).filter_map(|word| word.parse().ok()).collect();
        Self(numbers, name.to_owned())
    }

    fn is_private(&self) -> bool {
        self.1.contains("PRIVATE")
    }
}

/// Writes the three lists below `lists`.
///
/// # Errors
/// Returns an error if the checkout has no releases, or one of them is not made as they are until
/// now.
pub(crate) fn write(checkout: &Path, lists: &Path) -> Result<()> {
    let checkout = Checkout(checkout);
    let releases = checkout.releases()?;
    let (mut verbs, mut efa) = (Nodes::new(), Nodes::new());
    for release in &releases {
        merge(&mut verbs, nodes_of(&checkout.file(release, VERBS_MAP)?)?);
        merge(&mut efa, nodes_of(&checkout.file(release, EFA_MAP)?)?);
    }
    let names: BTreeSet<&String> = verbs.values().chain(efa.values()).flatten().collect();
    let kinds = checkout.kinds(&releases, names)?;
    let newest = checkout.package_version()?;
    let offered = "Version node and function: what programs find in";
    let private = "What other libraries take from the private node of libibverbs.so.1";
    for (file, title, body) in [
        ("libibverbs.symbols", format!("{offered} libibverbs.so.1"), public(&verbs, &kinds)),
        ("libefa.symbols", format!("{offered} libefa.so.1"), public(&efa, &kinds)),
        ("libibverbs.private", private.to_owned(), privates(&verbs, &kinds)),
    ] {
        let text = format!(
            "# {title} of rdma-core {OLDEST} to {newest}, with a * if it returns a pointer.\n# Written by \
             `cargo xtask abi-lists`; `cargo xtask replace-verbs` makes the library from it.\n{body}"
        );
        fs::write(lists.join(file), text).with_context(|| format!("cannot write {file}"))?;
    }
    println!("lists of {} releases, the newest {newest}", releases.len());
    Ok(())
}

/// Returns the mark before a name; `None` for one that no library has.
fn pointer_mark(kinds: &Kinds, name: &str) -> Option<&'static str> {
    match kinds.get(name) {
        Some(Kind::Inline) => None,
        Some(Kind::Pointer) => Some("*"),
        Some(Kind::Other) | None => Some(""),
    }
}

/// Returns lines for the functions that programs are linked to.
fn public(nodes: &Nodes, kinds: &Kinds) -> String {
    let mut lines = String::new();
    for (node, names) in nodes.iter().filter(|(node, _)| !node.is_private()) {
        for name in names {
            if let Some(mark) = pointer_mark(kinds, name) {
                let _ = writeln!(lines, "{} {mark}{name}", node.1);
            }
        }
    }
    lines
}

/// Returns lines for the functions that are in no public node. Names with a number are for
/// `replace-verbs` to make.
fn privates(nodes: &Nodes, kinds: &Kinds) -> String {
    let of_private = nodes.iter().filter(|(node, _)| node.is_private());
    let names: BTreeSet<&String> = of_private.flat_map(|(_, names)| names).collect();
    let mut lines = String::new();
    for name in names.into_iter().filter(|name| !name.contains('@')) {
        if let Some(mark) = pointer_mark(kinds, name) {
            let _ = writeln!(lines, "{mark}{name}");
        }
    }
    lines
}

/// A repository of rdma-core.
struct Checkout<'a>(&'a Path);

impl Checkout<'_> {
    fn git(&self, args: &[&str]) -> Result<String> {
        let output = Command::new("git").arg("-C").arg(self.0).args(args).output();
        let output = output.context("git cannot be run; install git")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {} in {}: {said}", args.join(" "), self.0.display());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the tags of releases, oldest first, then what is checked out, which may be newer.
    fn releases(&self) -> Result<Vec<String>> {
        let tags = self.git(&["tag", "--list", "v*"])?;
        let tags = tags.lines().filter_map(|tag| Some((version(tag)?, tag.to_owned())));
        let tags: BTreeMap<_, _> = tags.filter(|((major, _), _)| *major >= OLDEST).collect();
        ensure!(!tags.is_empty(), "{} has no release since v{OLDEST}.0", self.0.display());
        Ok(tags.into_values().chain(["HEAD".to_owned()]).collect())
    }

    fn file(&self, release: &str, path: &str) -> Result<String> {
        self.git(&["show", &format!("{release}:{path}")])
    }

    /// Returns the headers that declare the functions, one after the other.
    fn headers(&self, release: &str) -> Result<String> {
        let listed =
            self.git(&["ls-tree", "-r", "--name-only", release, "libibverbs", "providers/efa"])?;
        let headers = listed.lines().filter(|path| path.ends_with(".h"));
        headers.map(|path| self.file(release, path)).collect()
    }

    /// Returns the kind of each function in the newest release that declares it.
    fn kinds(&self, releases: &[String], mut names: BTreeSet<&String>) -> Result<Kinds> {
        let mut kinds = Kinds::new();
        for release in releases.iter().rev() {
            names.retain(|name| !name.contains('@'));
            if names.is_empty() {
                break;
            }
            let headers = without_comments(&self.headers(release)?);
            names.retain(|name| {
                let kind = kind(&headers, name);
                kinds.extend(kind.map(|kind| ((*name).clone(), kind)));
                kind.is_none()
            });
        }
        // Variables, and functions that are left in the map only.
        println!("no release declares {names:?}");
        Ok(kinds)
    }

    /// Returns the version of the packages of what is checked out.
    fn package_version(&self) -> Result<String> {
        let file = self.file("HEAD", "CMakeLists.txt")?;
        let (_, rest) = file.split_once("set(PACKAGE_VERSION \"").context("no PACKAGE_VERSION")?;
        Ok(rest.split('"').next().unwrap_or_default().to_owned())
    }
}

/// Reads a tag of a release: `v44.1` is 44 and 1. Candidates and other tags are `None`.
fn version(tag: &str) -> Option<(u32, u32)> {
    let (major, minor) = tag.strip_prefix('v')?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn merge(all: &mut Nodes, of_release: Nodes) {
    for (node, names) in of_release {
        all.entry(node).or_default().extend(names);
    }
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once("*/").map_or("", |(_, rest)| rest))
}

/// Returns the global functions of a version script.
fn nodes_of(script: &str) -> Result<Nodes> {
    let script = without_comments(script);
    let mut nodes = Nodes::new();
    let mut rest = script.as_str();
    while let Some((head, tail)) = rest.split_once('{') {
        let Some((body, after)) = tail.split_once('}') else { bail!("a node has no end") };
        let Some(name) = head.split_whitespace().last() else { bail!("a node has no name") };
        let global = body.split("local:").next().unwrap_or_default().replace("global:", "");
        let names = global.split(';').map(str::trim).filter(|name| !name.is_empty());
        let node = Node::new(&name.replace(NUMBER, ""));
        nodes.entry(node).or_default().extend(names.map(str::to_owned));
        let Some((_, next)) = after.split_once(';') else { bail!("node {name} has no end") };
        rest = next;
    }
    ensure!(!nodes.is_empty(), "a version script without nodes");
    Ok(nodes)
}

/// Returns the kind by the first declaration of `name` in `headers`; `None` without one.
fn kind(headers: &str, name: &str) -> Option<Kind> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    headers.match_indices(name).find_map(|(at, _)| {
        let (before, after) = (&headers[..at], &headers[at + name.len()..]);
        if before.ends_with(is_word) || !after.trim_start().starts_with('(') {
            return None;
        }
        let start = before.rfind([';', '{', '}', '#', '(', ')', ',', '=']).map_or(0, |i| i + 1);
        let of_type = before[start..].trim();
        // A macro, a call or the name alone declares nothing.
        let declares =
            !of_type.is_empty() && !of_type.starts_with("define") && !of_type.starts_with("return");
        declares.then(|| match of_type {
            _ if of_type.starts_with("static") => Kind::Inline,
            _ if of_type.ends_with('*') => Kind::Pointer,
            _ => Kind::Other,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_the_order_of_their_numbers() {
        let script = "/* c; { */ A_1.9 { global: /* x */ b; a; local: *; };\nA_1.10 { c; } A_1.9;";
        let nodes = nodes_of(script).unwrap();
        let names: Vec<_> = nodes.keys().map(|node| node.1.as_str()).collect();
        assert_eq!(names, ["A_1.9", "A_1.10"]);
        assert_eq!(nodes[&Node::new("A_1.9")].iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(nodes_of("A_1 { a;").is_err());
        assert!(nodes_of("").is_err());
    }

    #[test]
    fn private_nodes_of_all_numbers_are_one() {
        let nodes = nodes_of("P_PRIVATE_@IBVERBS_PABI_VERSION@ { global: x; };").unwrap();
        assert!(nodes.keys().all(Node::is_private) && nodes.len() == 1);
    }

    #[test]
    fn declarations_tell_what_a_function_is() {
        let headers = "#define a(x) b(x)\nstruct s *a(int x);\nint xb(void);\nconst char *\nb(void);\n\
                       static int c(void) { return d(); }\nint d(void);";
        let headers = without_comments(headers);
        assert_eq!(kind(&headers, "a"), Some(Kind::Pointer));
        assert_eq!(kind(&headers, "b"), Some(Kind::Pointer));
        assert_eq!(kind(&headers, "c"), Some(Kind::Inline));
        assert_eq!(kind(&headers, "d"), Some(Kind::Other));
        assert_eq!(kind(&headers, "e"), None);
    }

    #[test]
    fn only_releases_count() {
        assert_eq!(version("v44.12"), Some((44, 12)));
        assert_eq!(version("v12-rc1"), None);
        assert_eq!(version("vtopic"), None);
    }
}
