//! `cargo xtask replace-verbs DIR`: the versioned `libibverbs.so.1` and `libefa.so.1`, in
//! `DIR/replace-verbs`, for the adapter library in `DIR`.
//!
//! A Rust library cannot carry symbol versions. These two do nothing else: they are *filters*
//! (`DT_FILTER`, see ld(1) `-F`) of the adapter, so that the loader resolves their symbols there.
//! Only `dlvsym`, which insists on the version, comes to their own symbols, which are indirect
//! functions (`ifunc`) and lead to the adapter as well. What rdma-core's own libraries want from
//! libibverbs beyond that refuses.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Folder of the lists of symbols and of `forward.h`, below the root of the workspace.
pub(crate) const LISTS: &str = "crates/device/softefa-verbs/abi";
/// Name of the adapter, by which it was linked (`crates/device/softefa-verbs/build.rs`).
const ADAPTER: &str = "libsoftefa_verbs.so";
/// Numbers that private nodes have had, and may have.
const PRIVATE_NODES: RangeInclusive<u32> = 1..=99;

/// Node of ancient structures: functions that are at a later node, too, had others here before
/// 2008.
const ANCIENT: &str = "IBVERBS_1.0";

/// A library to make.
struct Library {
    /// Name of the library without `.so.1`.
    name: &'static str,
    /// Nodes in order of inheritance, each with its functions. A function is at several nodes
    /// where releases had it at different ones.
    nodes: Vec<(String, Vec<Function>)>,
    /// Functions and nodes that only rdma-core's own libraries use.
    private: BTreeSet<Function>,
    private_nodes: Vec<String>,
}

/// A function of a list.
#[derive(Debug, Clone)]
struct Function {
    name: String,
    /// Whether it returns null and `errno` when it refuses, not a code.
    returns_pointer: bool,
}

impl Function {
    /// Reads an entry of a list: the name, with a `*` in front if it returns a pointer.
    fn listed(text: &str) -> Self {
        let name = text.strip_prefix('*');
        Self { name: name.unwrap_or(text).to_owned(), returns_pointer: name.is_some() }
    }

    /// Returns the function of `forward.h` that stands in for it.
    fn refusal(&self) -> &'static str {
        if self.returns_pointer { "refuse_pointer" } else { "refuse" }
    }
}

/// Compares names only, because a library has one function of a name.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Function {}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Function {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

/// Makes both libraries, and the links under which programs may open them.
///
/// # Errors
/// Returns an error if a list is not as it should be, or the C compiler is missing or refuses.
pub(crate) fn make(root: &Path, dir: &Path) -> Result<()> {
    let lists = root.join(LISTS);
    let read = |file: &str| {
        fs::read_to_string(lists.join(file)).with_context(|| format!("cannot read {LISTS}/{file}"))
    };
    let listed = read("libibverbs.private")?;
    let mut private: BTreeSet<_> = entries(&listed).map(|entry| Function::listed(&entry)).collect();
    let numbered = PRIVATE_NODES.map(|node| format!("verbs_register_driver_{node}"));
    for name in machine_private_symbols().into_iter().chain(numbered) {
        // An entry of the list takes precedence over this one.
        private.insert(Function { name, returns_pointer: false });
    }
    let private_nodes = PRIVATE_NODES.map(|node| format!("IBVERBS_PRIVATE_{node}")).collect();
    let libraries = [
        Library {
            name: "libibverbs",
            nodes: nodes(&read("libibverbs.symbols")?)?,
            private,
            private_nodes,
        },
        Library {
            name: "libefa",
            nodes: nodes(&read("libefa.symbols")?)?,
            private: BTreeSet::new(),
            private_nodes: Vec::new(),
        },
    ];
    let dir = dir.join("replace-verbs");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    libraries.iter().try_for_each(|library| library.link(&lists, &dir))
}

/// Returns the lines that are neither empty nor comments.
fn entries(list: &str) -> impl Iterator<Item = String> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

/// Groups `NODE FUNCTION` lines.
fn nodes(list: &str) -> Result<Vec<(String, Vec<Function>)>> {
    let mut nodes: Vec<(String, Vec<Function>)> = Vec::new();
    for line in entries(list) {
        let Some((node, function)) = line.split_once(' ') else {
            bail!("'{line}' is not NODE FUNCTION");
        };
        let function = Function::listed(function);
        match nodes.last_mut() {
            Some((last, functions)) if last == node => functions.push(function),
            _ => nodes.push((node.to_owned(), vec![function])),
        }
    }
    Ok(nodes)
}

/// Returns the symbols in the private nodes of this machine's libibverbs: it may be newer than the
/// list. Empty where there is no such library.
fn machine_private_symbols() -> BTreeSet<String> {
    let stdout = |command: &mut Command| {
        let output = command.output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let path = stdout(Command::new("cc").arg("-print-file-name=libibverbs.so.1"));
    let path = path.unwrap_or_default();
    let options = ["--dynamic", "--defined-only", "--with-symbol-versions"];
    let table = stdout(Command::new("nm").args(options).arg(path.trim())).unwrap_or_default();
    let symbols = table.lines().filter_map(|line| line.split_whitespace().last());
    let private = symbols.filter_map(|symbol| symbol.split_once("@@IBVERBS_PRIVATE_"));
    private.map(|(name, _)| name.to_owned()).collect()
}

impl Library {
    fn link(&self, lists: &Path, dir: &Path) -> Result<()> {
        // Several builds may be at it at once: everything is made aside and then moved.
        let aside = tempfile::tempdir_in(dir)?;
        let at = |end: &str| aside.path().join(format!("{}{end}", self.name));
        let [source, script, library, link] = [".c", ".map", ".so.1", ".so"].map(at);
        fs::write(&source, self.source()?)?;
        fs::write(&script, self.script()?)?;
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-nostartfiles", "-O2", "-s", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .arg("-I")
            .arg(lists)
            .arg(format!("-Wl,--version-script={}", script.display()))
            .arg(format!("-Wl,-soname,{}.so.1", self.name))
            .arg(format!("-Wl,-F,{ADAPTER}"))
            .arg("-Wl,--enable-new-dtags,-rpath,$ORIGIN/..")
            .output()
            .context("cc cannot be run; install gcc")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cc refused {}.so.1:\n{said}", self.name);
        symlink(format!("{}.so.1", self.name), &link)?;
        for made in [&library, &link] {
            move_into(made, dir).with_context(|| format!("cannot write {}", dir.display()))?;
        }
        Ok(())
    }

    fn source(&self) -> Result<String> {
        let mut text = format!("#define ADAPTER \"{ADAPTER}\"\n#include \"forward.h\"\n");
        let mut public = BTreeSet::new();
        for (node, functions) in self.nodes.iter().rev() {
            for function in functions {
                let name = &function.name;
                let refusal = function.refusal();
                if public.insert(function.clone()) {
                    writeln!(text, "FORWARD({name}, {refusal})")?;
                } else if node == ANCIENT {
                    writeln!(text, "ANCIENT({name}, {refusal}, \"{node}\")")?;
                } else {
                    let number = node.replace('.', "_");
                    writeln!(text, "ALSO({name}, {name}_{number}, {refusal}, \"{node}\")")?;
                }
            }
        }
        // A function that is private to an older release may be public now.
        for Function { name, returns_pointer } in self.private.difference(&public) {
            let refuse = if *returns_pointer { "REFUSE_POINTER" } else { "REFUSE" };
            writeln!(text, "{refuse}({name})")?;
        }
        Ok(text)
    }

    /// Returns the version script. Private symbols are in no node: such a symbol satisfies a
    /// reference to any version.
    fn script(&self) -> Result<String> {
        let mut text = String::new();
        let mut parent = "";
        for (index, (node, functions)) in self.nodes.iter().enumerate() {
            write!(text, "{node} {{")?;
            // The linker takes a function at one node only: `.symver` adds the others.
            let later = || self.nodes[index + 1..].iter().flat_map(|(_, functions)| functions);
            let names =
                functions.iter().filter(|function| !later().any(|other| other == *function));
            let names: Vec<&str> = names.map(|function| function.name.as_str()).collect();
            if !names.is_empty() {
                write!(text, " global: {};", names.join("; "))?;
            }
            writeln!(text, " }} {parent};")?;
            parent = node;
        }
        for node in &self.private_nodes {
            writeln!(text, "{node} {{ }};")?;
        }
        Ok(text)
    }
}

fn move_into(made: &Path, dir: &Path) -> io::Result<()> {
    let name = made.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    fs::rename(made, dir.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_public_is_defined_once() {
        let library = Library {
            name: "lib",
            nodes: nodes("A_1 x\n").unwrap(),
            private: ["x", "*y", "z"].map(Function::listed).into(),
            private_nodes: Vec::new(),
        };
        let source = library.source().unwrap();
        assert!(source.ends_with("FORWARD(x, refuse)\nREFUSE_POINTER(y)\nREFUSE(z)\n"), "{source}");
    }

    #[test]
    fn nodes_inherit_in_the_order_of_the_list() {
        let nodes = nodes("# comment\nA_1 w\nA_1 x\nA_1 *y\nA_2 w\nA_2 z\n").unwrap();
        let library = Library {
            name: "lib",
            nodes,
            private: BTreeSet::new(),
            private_nodes: vec!["P_1".into()],
        };
        let script = library.script().unwrap();
        assert_eq!(script, "A_1 { global: x; y; } ;\nA_2 { global: w; z; } A_1;\nP_1 { };\n");
        let source = library.source().unwrap();
        assert!(source.contains("ALSO(w, w_A_1, refuse, \"A_1\")\n"), "{source}");
        assert!(super::nodes("A_1\n").is_err());
    }
}
