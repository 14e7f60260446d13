//! The modules of a crate, as its files declare them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::{Attribute, Item};

/// Names of a module, from the root of the crate on.
pub(super) type ModulePath = Vec<String>;

/// All modules that are compiled for users; modules of tests are left out.
#[derive(Default)]
pub(super) struct Sources {
    modules: BTreeMap<ModulePath, Vec<Item>>,
}

impl Sources {
    /// Reads `lib.rs` in a folder, and the files that belong to it.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut sources = Self::default();
        sources.add_file(Vec::new(), &folder.join("lib.rs"), folder)?;
        Ok(sources)
    }

    /// Reads a crate of one file.
    #[cfg(test)]
    pub(super) fn of(text: &str) -> Result<Self> {
        let mut sources = Self::default();
        sources.add(Vec::new(), syn::parse_str::<syn::File>(text)?.items, Path::new(""))?;
        Ok(sources)
    }

    /// Returns the items of a module; `None` when there is no such module.
    pub(super) fn module(&self, path: &[String]) -> Option<&[Item]> {
        self.modules.get(path).map(Vec::as_slice)
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = (&ModulePath, &[Item])> {
        self.modules.iter().map(|(path, items)| (path, items.as_slice()))
    }

    /// Adds a file whose modules lie in `folder`.
    fn add_file(&mut self, path: ModulePath, file: &Path, folder: &Path) -> Result<()> {
        let read = || -> Result<syn::File> { Ok(syn::parse_file(&fs::read_to_string(file)?)?) };
        let parsed = read().with_context(|| format!("reading {}", file.display()))?;
        self.add(path, parsed.items, folder)
    }

    fn add(&mut self, path: ModulePath, items: Vec<Item>, folder: &Path) -> Result<()> {
        let mut kept = Vec::new();
        for mut item in items {
            if attributes(&item).iter().any(is_for_tests) {
                continue;
            }
            if let Item::Mod(module) = &mut item {
                let name = module.ident.to_string();
                let inner = [&path[..], std::slice::from_ref(&name)].concat();
                match module.content.take() {
                    Some((_, items)) => self.add(inner, items, &folder.join(&name))?,
                    None => self.add_file(inner, &file_of(folder, &name)?, &folder.join(&name))?,
                }
            }
            kept.push(item);
        }
        self.modules.insert(path, kept);
        Ok(())
    }
}

fn file_of(folder: &Path, name: &str) -> Result<PathBuf> {
    let files = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
    match files.iter().find(|file| file.is_file()) {
        Some(file) => Ok(file.clone()),
        None => bail!("module {name} is not in {}", folder.display()),
    }
}

/// Returns the attributes of items that may be left out of a build.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether an attribute is `#[cfg(test)]` or `#[cfg(doctest)]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let is_tests = |ident: syn::Ident| ident == "test" || ident == "doctest";
    attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(is_tests)
}
