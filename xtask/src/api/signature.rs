//! Declarations as a line of text.

use quote::ToTokens;
use syn::{Field, Fields, FnArg, Generics, Pat, ReturnType, Safety, Signature, Visibility};

/// Formats tokens with the spaces that people put between them.
pub(super) fn text(tokens: &impl ToTokens) -> String {
    let all = tokens.to_token_stream().to_string();
    let all: Vec<char> = all.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let mut out = String::new();
    for (at, &c) in all.iter().enumerate() {
        let (before, after) = (out.chars().next_back(), all.get(at + 1).copied());
        if c == ' ' {
            let ends_word = before.is_some_and(|b| is_word(b) || matches!(b, '>' | ')' | ']'));
            if ends_word && needs_space(&out, after) {
                out.push(' ');
            }
            continue;
        }
        out.push(c);
        if matches!(c, ',' | ';') && after.is_some() {
            out.push(' ');
        }
    }
    spaced(&out)
}

/// Returns whether a space belongs between two words, or between a type and a lifetime or a word
/// that stands before it.
fn needs_space(text: &str, after: Option<char>) -> bool {
    if after.is_some_and(is_word) {
        return true;
    }
    if !after.is_some_and(|c| matches!(c, '[' | '(' | '&' | '*')) {
        return false;
    }
    let word = text.rsplit(|c| !is_word(c)).next();
    word.is_some_and(|own| own.starts_with('\'') || matches!(own, "mut" | "dyn" | "impl" | "where"))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '\''
}

/// Puts spaces around signs between types.
fn spaced(text: &str) -> String {
    let text = text.replace("->", " -> ").replace("::", "\u{1}").replace(':', ": ");
    let text = text.replace('\u{1}', "::").replace('+', " + ").replace('=', " = ");
    let text = text.replace(" = >", " =>").replace(", )", ")");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats a function that is called `name`.
pub(super) fn function(name: &str, signature: &Signature) -> String {
    let words = [
        signature.constness.is_some().then_some("const "),
        signature.asyncness.is_some().then_some("async "),
        matches!(signature.safety, Safety::Unsafe(_)).then_some("unsafe "),
    ];
    let words: String = words.into_iter().flatten().collect();
    let inputs: Vec<String> = signature.inputs.iter().map(input).collect();
    let output = match &signature.output {
        ReturnType::Default => String::new(),
        ReturnType::Type(_, output) => format!(" -> {}", text(output)),
    };
    let (generics, bounds) = (generics(&signature.generics), bounds(&signature.generics));
    format!("{words}fn {name}{generics}({}){output}{bounds}", inputs.join(", "))
}

fn input(input: &FnArg) -> String {
    match input {
        FnArg::Receiver(own) => text(own).trim_start_matches("mut ").to_owned(),
        FnArg::Typed(own) => match &*own.pat {
            Pat::Ident(pattern) => format!("{}: {}", pattern.ident, text(&own.ty)),
            _ => format!("_: {}", text(&own.ty)),
        },
    }
}

/// Formats parameters in angle brackets; empty when there are none.
pub(super) fn generics(generics: &Generics) -> String {
    let inner = text(&generics.params);
    if inner.is_empty() { inner } else { format!("<{inner}>") }
}

/// Formats the `where` clause, with a space before it.
pub(super) fn bounds(generics: &Generics) -> String {
    generics.where_clause.as_ref().map_or_else(String::new, |own| format!(" {}", text(own)))
}

/// Formats fields as a user may write them; private ones are left open.
pub(super) fn fields(fields: &Fields, all_are_public: bool) -> String {
    let is_public = |field: &&Field| all_are_public || is_public(&field.vis);
    match fields {
        Fields::Unit => String::new(),
        Fields::Unnamed(own) => {
            let shown =
                |field: &Field| if is_public(&field) { text(&field.ty) } else { "_".to_owned() };
            format!("({})", own.unnamed.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Fields::Named(own) => {
            let name = |field: &Field| field.ident.as_ref().map(ToString::to_string);
            let shown = |field| Some(format!("{}: {}", name(field)?, text(&field.ty)));
            let mut all: Vec<String> =
                own.named.iter().filter(is_public).filter_map(shown).collect();
            if !own.named.iter().all(|field| is_public(&field)) {
                all.push("..".to_owned());
            }
            format!(" {{ {} }}", all.join(", "))
        }
    }
}

pub(super) const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}
