//! Reading the text of a plan: values as serde takes them, and errors with their place.

use std::collections::BTreeMap;
use std::ops::Range;

use bench_record::failure::Failure;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, IntoDeserializer};
use toml::Spanned;
use toml::de::DeValue;

/// The most characters of a line that an error shows.
const SHOWN_MAX: usize = 60;

/// A value of the text, with its place.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// Reads a plan, and reports errors by their place.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Reader<'_> {
    pub(super) fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or_default();
        format!("{}:{}", self.file, before.matches('\n').count() + 1)
    }

    pub(super) fn wrong(&self, span: &Range<usize>, what: &str) -> Failure {
        Failure::Usage(format!("plan {}: {what}", self.place(span)))
    }

    /// Makes the failure of a key of a table.
    pub(super) fn wrong_at(&self, table: &Value<'_>, key: &str, what: &str) -> Failure {
        let span = table.get_ref().get(key).map_or_else(|| table.span(), Spanned::span);
        self.wrong(&span, &format!("{key}: {what}"))
    }

    /// Makes the failure of what TOML or serde refuse, with the line that they refuse: that of the
    /// value, if they name none.
    pub(super) fn refused(&self, error: &toml::de::Error, value: Range<usize>) -> Failure {
        let span = error.span().unwrap_or(value);
        let (before, after) = self.text.split_at_checked(span.start).unwrap_or_default();
        let start = before.rsplit('\n').next().unwrap_or_default();
        let line = format!("{start}{}", after.lines().next().unwrap_or_default());
        let told = error.message().replace('\n', " ");
        let shown = match shown(line.trim()) {
            line if line.is_empty() => line,
            line => format!("`{line}`: "),
        };
        self.wrong(&span, &format!("{shown}{told}"))
    }

    /// Reads a value.
    pub(super) fn read<T: for<'de> Deserialize<'de>>(&self, own: &Value<'_>) -> Result<T, Failure> {
        T::deserialize(own.clone().into_deserializer())
            .map_err(|error| self.refused(&error, own.span()))
    }
}

/// Returns the beginning of a line, without what a terminal would obey.
fn shown(line: &str) -> String {
    let mut text: String = line.chars().take(SHOWN_MAX).collect();
    if text.len() < line.len() {
        text += "...";
    }
    text.replace(char::is_control, "\u{fffd}")
}

/// Returns a table without some of its keys.
pub(super) fn without<'t>(table: &Value<'t>, keys: &[&str]) -> Value<'t> {
    let mut rest = table.clone();
    if let DeValue::Table(own) = rest.get_mut() {
        keys.iter().for_each(|key| _ = own.remove(*key));
    }
    rest
}

/// Returns the tables `[[key]]` of a table.
pub(super) fn tables<'v, 't>(
    table: &'v Value<'t>,
    key: &str,
) -> impl Iterator<Item = &'v Value<'t>> {
    let all = table.get_ref().get(key).and_then(|own| own.get_ref().as_array());
    all.into_iter().flatten()
}

/// A table whose keys are read later, with their places.
pub(super) type AnyTable = BTreeMap<String, IgnoredAny>;

/// Reads an array of tables.
pub(super) fn array<'de, D: Deserializer<'de>>(text: D) -> Result<Vec<AnyTable>, D::Error> {
    let wrong = |_| D::Error::custom("write [[...]], with two brackets, for each");
    Vec::deserialize(text).map_err(wrong)
}

/// The greatest number in a plan: seconds beyond it are no time.
const NUMBER_MAX: f64 = 1e9;

/// A number above 0.
#[derive(Debug, Clone, Copy)]
pub(in crate::plan) struct Positive(pub(in crate::plan) f64);

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(text).ok().filter(|own| *own > 0.0 && *own <= NUMBER_MAX);
        let wrong = || D::Error::custom(format!("write a number above 0, up to {NUMBER_MAX}"));
        number.map(Self).ok_or_else(wrong)
    }
}

/// A text or a number, or an array of them.
#[derive(Debug, Clone, Default)]
pub(in crate::plan) struct Words(pub(in crate::plan) Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        let word = |own: &toml::Value| match own {
            toml::Value::String(own) => Some(own.clone()),
            toml::Value::Integer(own) => Some(own.to_string()),
            toml::Value::Float(own) => Some(own.to_string()),
            _ => None,
        };
        let words = match toml::Value::deserialize(text)? {
            toml::Value::Array(all) if !all.is_empty() => all.iter().map(word).collect(),
            one => word(&one).map(|own| vec![own]),
        };
        let wrong = || D::Error::custom("write a number, a text in quotes, or an array of them");
        words.map(Self).ok_or_else(wrong)
    }
}
