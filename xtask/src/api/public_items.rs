//! The public items of a crate, a line for each.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Fields, ImplItem, Item, ItemEnum, ItemImpl, ItemStruct, ItemTrait, Token, TraitItem,
    Type,
};

use super::names::{Definition, imports, name_of, resolve};
use super::signature::{bounds, fields, function, generics, is_public, text};
use super::sources::Sources;

/// Returns all public items of the crate `name`, sorted.
pub(super) fn of(name: &str, sources: &Sources) -> Result<Vec<String>> {
    let mut items = PublicItems { sources, shown: BTreeMap::new(), lines: BTreeSet::new() };
    items.walk(name, &[]);
    items.walk_imports(name, &[])?;
    items.add_impls();
    Ok(items.lines.into_iter().collect())
}

struct PublicItems<'a> {
    sources: &'a Sources,
    /// Names of public items.
    shown: BTreeMap<Definition, String>,
    lines: BTreeSet<String>,
}

impl PublicItems<'_> {
    fn say(&mut self, line: String) {
        self.lines.insert(line);
    }

    /// Adds the items that are defined in a public module, and in those inside.
    fn walk(&mut self, shown: &str, module: &[String]) {
        let sources = self.sources;
        for item in sources.module(module).unwrap_or_default() {
            let Some(name) = name_of(item).filter(|_| is_public_item(item)) else { continue };
            let name = name.to_string();
            let own = format!("{shown}::{name}");
            if let Item::Mod(_) = item {
                self.say(format!("mod {own}"));
                self.walk(&own, &[module, &[name]].concat());
            } else {
                let definition = Definition { module: module.to_vec(), name };
                self.add(&own, definition, item);
            }
        }
    }

    /// Adds the items that `pub use` shows in a public module, and in those inside.
    fn walk_imports(&mut self, shown: &str, module: &[String]) -> Result<()> {
        let sources = self.sources;
        let items = sources.module(module).unwrap_or_default();
        for import in imports(items).into_iter().filter(|import| import.is_public) {
            let name = import.name.as_deref().with_context(|| {
                format!("{shown} has a pub use with a star: name what it shows")
            })?;
            let own = format!("{shown}::{name}");
            let target = import.target(sources, module);
            let target = target.with_context(|| format!("{own} is not of this crate"))?;
            if let Some(first) = self.shown.get(&target) {
                let line = format!("use {first} as {own}");
                self.say(line);
                continue;
            }
            let found = sources.module(&target.module).unwrap_or_default();
            let item = found.iter().find(|item| name_of(item).is_some_and(|n| *n == target.name));
            let item = item.with_context(|| format!("{own} was not found"))?;
            self.add(&own, target, item);
        }
        for item in items {
            if let Item::Mod(inner) = item {
                if is_public(&inner.vis) {
                    let name = inner.ident.to_string();
                    self.walk_imports(&format!("{shown}::{name}"), &[module, &[name]].concat())?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, shown: &str, definition: Definition, item: &Item) {
        self.shown.insert(definition, shown.to_owned());
        match item {
            Item::Const(own) => self.say(format!("const {shown}: {}", text(&own.ty))),
            Item::Static(own) => self.say(format!("static {shown}: {}", text(&own.ty))),
            Item::Fn(own) => self.say(function(shown, &own.sig)),
            Item::Type(own) => {
                self.say(format!("type {shown}{} = {}", generics(&own.generics), text(&own.ty)));
            }
            Item::Struct(own) => self.add_struct(shown, own),
            Item::Enum(own) => self.add_enum(shown, own),
            Item::Trait(own) => self.add_trait(shown, own),
            _ => self.say(format!("other {shown}")),
        }
    }

    fn add_struct(&mut self, shown: &str, own: &ItemStruct) {
        let head = format!("struct {shown}{}", generics(&own.generics));
        let end = format!("{}{}", bounds(&own.generics), mark(&own.attrs));
        self.add_derived(shown, &own.attrs);
        let Fields::Named(named) = &own.fields else {
            self.say(format!("{head}{}{end}", fields(&own.fields, false)));
            return;
        };
        let public: Vec<_> = named.named.iter().filter(|field| is_public(&field.vis)).collect();
        let open = if public.len() < named.named.len() { " { .. }" } else { "" };
        self.say(format!("{head}{open}{end}"));
        for field in public {
            let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            self.say(format!("field {shown}.{name}: {}", text(&field.ty)));
        }
    }

    fn add_enum(&mut self, shown: &str, own: &ItemEnum) {
        let (generics, bounds) = (generics(&own.generics), bounds(&own.generics));
        self.say(format!("enum {shown}{generics}{bounds}{}", mark(&own.attrs)));
        self.add_derived(shown, &own.attrs);
        for variant in &own.variants {
            let value = variant.discriminant.as_ref();
            let value = value.map_or_else(String::new, |(_, value)| format!(" = {}", text(value)));
            let (name, fields) = (&variant.ident, fields(&variant.fields, true));
            self.say(format!("variant {shown}::{name}{fields}{value}{}", mark(&variant.attrs)));
        }
    }

    fn add_trait(&mut self, shown: &str, own: &ItemTrait) {
        let above = text(&own.supertraits);
        let above = if above.is_empty() { above } else { format!(": {above}") };
        self.say(format!("trait {shown}{}{above}", generics(&own.generics)));
        for item in &own.items {
            let line = match item {
                TraitItem::Fn(own) => {
                    let is_given = if own.default.is_some() { " { .. }" } else { "" };
                    let name = format!("{shown}::{}", own.sig.ident);
                    format!("{}{is_given}", function(&name, &own.sig))
                }
                TraitItem::Const(own) => format!("const {shown}::{}: {}", own.ident, text(&own.ty)),
                TraitItem::Type(own) => format!("type {shown}::{}", own.ident),
                other => format!("other {shown} {}", text(other)),
            };
            self.say(line);
        }
    }

    fn add_derived(&mut self, shown: &str, attributes: &[Attribute]) {
        for attribute in attributes.iter().filter(|own| own.path().is_ident("derive")) {
            let parse = Punctuated::<syn::Path, Token![,]>::parse_terminated;
            for name in attribute.parse_args_with(parse).into_iter().flatten() {
                self.say(format!("impl {} for {shown}", text(&name)));
            }
        }
    }

    /// Adds functions and traits of public types, wherever they stand.
    fn add_impls(&mut self) {
        let sources = self.sources;
        for (module, items) in sources.modules() {
            for item in items {
                if let Item::Impl(own) = item {
                    self.add_impl(module, own);
                }
            }
        }
    }

    fn add_impl(&mut self, module: &[String], own: &ItemImpl) {
        let shown = self.shown_type(module, &own.self_ty);
        let Some((path, _)) = &own.trait_ else {
            if let Some(shown) = shown {
                self.add_own(&shown, own);
            }
            return;
        };
        // A trait may be ours, or name a type of ours, where the type is not.
        let Some(shown) = shown.or_else(|| {
            let named = path.segments.last()?;
            let syn::PathArguments::AngleBracketed(arguments) = &named.arguments else {
                return None;
            };
            let is_ours = arguments.args.iter().any(|argument| match argument {
                syn::GenericArgument::Type(ty) => self.shown_type(module, ty).is_some(),
                _ => false,
            });
            is_ours.then(|| text(&own.self_ty))
        }) else {
            return;
        };
        let generics = generics(&own.generics);
        self.say(format!("impl{generics} {} for {shown}{}", text(path), bounds(&own.generics)));
        for item in &own.items {
            if let ImplItem::Type(inner) = item {
                let line = format!(
                    "type <{shown} as {}>::{} = {}",
                    text(path),
                    inner.ident,
                    text(&inner.ty)
                );
                self.say(line);
            }
        }
    }

    fn add_own(&mut self, shown: &str, own: &ItemImpl) {
        for item in &own.items {
            match item {
                ImplItem::Fn(inner) if is_public(&inner.vis) => {
                    self.say(function(&format!("{shown}::{}", inner.sig.ident), &inner.sig));
                }
                ImplItem::Const(inner) if is_public(&inner.vis) => {
                    self.say(format!("const {shown}::{}: {}", inner.ident, text(&inner.ty)));
                }
                _ => {}
            }
        }
    }

    /// Returns the name of a type, if it is public and of this crate.
    fn shown_type(&self, module: &[String], ty: &Type) -> Option<String> {
        let path = match ty {
            Type::Path(path) => path,
            Type::Reference(reference) => return self.shown_type(module, &reference.elem),
            _ => return None,
        };
        let names: Vec<String> =
            path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.shown.get(&resolve(self.sources, module, &names)?).cloned()
    }
}

/// Returns whether users may name an item.
fn is_public_item(item: &Item) -> bool {
    match item {
        Item::Const(own) => is_public(&own.vis),
        Item::Enum(own) => is_public(&own.vis),
        Item::Fn(own) => is_public(&own.vis),
        Item::Mod(own) => is_public(&own.vis),
        Item::Static(own) => is_public(&own.vis),
        Item::Struct(own) => is_public(&own.vis),
        Item::Trait(own) => is_public(&own.vis),
        Item::Type(own) => is_public(&own.vis),
        Item::Union(own) => is_public(&own.vis),
        _ => false,
    }
}

/// Returns the mark for further facts that users have to know of a type.
fn mark(attributes: &[Attribute]) -> &'static str {
    if attributes.iter().any(|own| own.path().is_ident("non_exhaustive")) {
        " (non-exhaustive)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        of("a", &Sources::of(text).unwrap()).unwrap()
    }

    #[test]
    fn what_is_public_is_shown_where_users_find_it() {
        let text = "mod inner { #[derive(Clone, Debug)] pub struct Shown { pub a: &'static [u8; 4], b: u8 }
            pub struct Hidden; pub struct Open<'a> { pub c: B<'a> } pub(crate) struct Own(pub u8);
            impl Shown { pub const fn get<T: Into<u8>>(&mut self, mut to: T) -> Option<(T, u8)>
                where T: Copy { None } fn own(&self) {} }
            impl From<Shown> for u8 { fn from(of: Shown) -> u8 { of.b } }
            impl Hidden { pub fn new() -> Self { Self } } }
            pub use inner::{Open, Shown}; pub const LEN: usize = 4;
            #[cfg(test)] mod tests { pub struct No; }";
        assert_eq!(
            lines(text),
            [
                "const a::LEN: usize",
                "const fn a::Shown::get<T: Into<u8>>(&mut self, to: T) -> Option<(T, u8)> where T: Copy",
                "field a::Open.c: B<'a>",
                "field a::Shown.a: &'static [u8; 4]",
                "impl Clone for a::Shown",
                "impl Debug for a::Shown",
                "impl From<Shown> for u8",
                "struct a::Open<'a>",
                "struct a::Shown { .. }",
            ]
        );
    }

    #[test]
    fn variants_and_other_names_are_shown() {
        let text =
            "pub mod b { mod c { pub enum E { A = 1, B { x: u8 }, C(u16) } } pub use self::c::E; }
            pub use b::E as F; #[non_exhaustive] pub struct Id(pub u32, u8);
            impl<'a> Iterator for &'a Id { type Item = u8; }";
        assert_eq!(
            lines(text),
            [
                "enum a::F",
                "impl<'a> Iterator for a::Id",
                "mod a::b",
                "struct a::Id(u32, _) (non-exhaustive)",
                "type <a::Id as Iterator>::Item = u8",
                "use a::F as a::b::E",
                "variant a::F::A = 1",
                "variant a::F::B { x: u8 }",
                "variant a::F::C(u16)",
            ]
        );
    }
}
