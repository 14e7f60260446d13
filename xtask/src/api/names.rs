//! Resolution of names in modules.

use syn::{Item, UseTree, Visibility};

use super::sources::{ModulePath, Sources};

/// Place where an item is defined: the module and the name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Definition {
    pub(super) module: ModulePath,
    pub(super) name: String,
}

/// A name that a `use` brings into a module.
#[derive(Debug)]
pub(super) struct Import {
    /// Name of the item; `None` for all public names of the path (`*`).
    pub(super) name: Option<String>,
    path: Vec<String>,
    pub(super) is_public: bool,
}

/// Returns the names that the `use` items of a module bring.
pub(super) fn imports(items: &[Item]) -> Vec<Import> {
    let mut found = Vec::new();
    for item in items {
        if let Item::Use(item) = item {
            add(&item.tree, &[], matches!(item.vis, Visibility::Public(_)), &mut found);
        }
    }
    found
}

fn add(tree: &UseTree, before: &[String], is_public: bool, found: &mut Vec<Import>) {
    let joined = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(own) => add(&own.tree, &joined(&own.ident), is_public, found),
        UseTree::Group(own) => own.items.iter().for_each(|t| add(t, before, is_public, found)),
        UseTree::Name(own) if own.ident == "self" => {
            found.push(Import { name: before.last().cloned(), path: before.to_vec(), is_public });
        }
        UseTree::Name(own) => {
            let (name, path) = (Some(own.ident.to_string()), joined(&own.ident));
            found.push(Import { name, path, is_public });
        }
        UseTree::Rename(own) => {
            let (name, path) = (Some(own.rename.to_string()), joined(&own.ident));
            found.push(Import { name, path, is_public });
        }
        UseTree::Glob(_) => found.push(Import { name: None, path: before.to_vec(), is_public }),
    }
}

impl Import {
    /// Resolves it in `module`; `None` when that is not of this crate.
    pub(super) fn target(&self, sources: &Sources, module: &[String]) -> Option<Definition> {
        resolve(sources, module, &self.path)
    }
}

/// Resolves a path in a module; `None` when that is not an item of this crate.
pub(super) fn resolve(sources: &Sources, module: &[String], path: &[String]) -> Option<Definition> {
    let (first, rest) = path.split_first()?;
    let start = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module.split_last()?.1.to_vec(),
        name if rest.is_empty() => return look_up(sources, module, name),
        name => {
            let inner = [module, &[name.to_owned()]].concat();
            match sources.module(&inner) {
                Some(_) => inner,
                // A module that was brought by a `use`.
                None => {
                    let found = look_up(sources, module, name)?;
                    [&found.module[..], &[found.name]].concat()
                }
            }
        }
    };
    resolve(sources, &start, rest)
}

/// Resolves a single name: an item of the module, or what a `use` brings.
fn look_up(sources: &Sources, module: &[String], name: &str) -> Option<Definition> {
    let items = sources.module(module)?;
    if items.iter().any(|item| name_of(item).is_some_and(|own| own == name)) {
        return Some(Definition { module: module.to_vec(), name: name.to_owned() });
    }
    let imports = imports(items);
    let import = imports.iter().find(|import| import.name.as_deref() == Some(name))?;
    // `use x::x` would look for itself.
    (import.path != [name]).then(|| import.target(sources, module))?
}

/// Returns the name that an item defines.
pub(super) fn name_of(item: &Item) -> Option<&syn::Ident> {
    Some(match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    })
}
