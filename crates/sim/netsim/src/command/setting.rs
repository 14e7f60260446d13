//! `--set FIELD=VALUE[,VALUE...]`: fields of a scenario, changed from the command line.

use anyhow::{Context, Result, bail, ensure};
use netsim::Scenario;
use toml::{Table, Value};

/// Units of sizes, in bytes.
const UNITS: [(&str, i64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// A field and the values it is to have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Path of the field from the top of the file, as in `transport.paths`.
    pub(crate) field: String,
    /// Values, each as it was written, and its meaning. Never empty.
    pub(crate) values: Vec<(String, Value)>,
}

/// A field and the value it has, as written.
pub(crate) type Choice = (String, String);

/// A field and one of its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) field: &'a str,
    word: &'a str,
    value: &'a Value,
}

impl Chosen<'_> {
    pub(crate) fn to_choice(self) -> Choice {
        (self.field.to_owned(), self.word.to_owned())
    }
}

impl Setting {
    /// Reads `field=value,value`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (field, values) = text.split_once('=').context("FIELD=VALUE is needed")?;
        let field = field.trim().to_owned();
        ensure!(field.split('.').all(|name| !name.is_empty()), "\"{field}\" names no field");
        let values: Result<Vec<_>> = split_list(values)
            .into_iter()
            .map(|word| match value(word) {
                Ok(value) => Ok((word.to_owned(), value)),
                // One line: the command line's reader shows no more than the last of a chain.
                Err(error) => bail!("{field}: {error:#}"),
            })
            .collect();
        Ok(Self { field, values: values? })
    }

    /// Reads `field=value`, with one value only.
    pub(crate) fn single(text: &str) -> Result<Self> {
        let setting = Self::parse(text)?;
        ensure!(setting.values.len() == 1, "one value is needed; `netsim sweep` takes several");
        Ok(setting)
    }
}

/// Refuses a field that is set twice, of which the last setting would count, and a value that is
/// there twice, whose runs would be the same.
pub(crate) fn ensure_distinct(settings: &[Setting]) -> Result<()> {
    let words = |setting: &Setting| -> String {
        let words: Vec<&str> = setting.values.iter().map(|(word, _)| word.as_str()).collect();
        words.join(",")
    };
    for (number, Setting { field, values }) in settings.iter().enumerate() {
        if let Some(other) = settings[..number].iter().find(|other| other.field == *field) {
            let (first, second) = (words(other), words(&settings[number]));
            bail!("{field} is set twice, to {first} and to {second}; leave one of them out");
        }
        for (place, (word, value)) in values.iter().enumerate() {
            match values[..place].iter().find(|(_, other)| other == value) {
                Some((other, _)) if other == word => {
                    bail!("{field}={word} is there twice; leave one of them out")
                }
                Some((other, _)) => {
                    bail!("{field}: {other} and {word} are the same value; leave one of them out")
                }
                None => {}
            }
        }
    }
    Ok(())
}

/// Refuses a field that changes nothing in any of the scenarios which it was set in.
pub(crate) fn ensure_used<'a>(
    settings: &[Setting],
    scenarios: &(impl Iterator<Item = &'a Scenario> + Clone),
) -> Result<()> {
    for Setting { field, .. } in settings {
        let reasons: Option<Vec<String>> =
            scenarios.clone().map(|s| s.idle_because(field)).collect();
        if let Some(reason) = reasons.and_then(|reasons| reasons.into_iter().next()) {
            bail!("{field} changes nothing: {reason}; leave it out");
        }
    }
    Ok(())
}

/// Returns all combinations of the settings' values, the last setting changing fastest.
pub(crate) fn combinations(settings: &[Setting]) -> Vec<Vec<Chosen<'_>>> {
    settings.iter().fold(vec![Vec::new()], |points, setting| {
        let mut longer = Vec::with_capacity(points.len() * setting.values.len());
        for point in &points {
            longer.extend(setting.values.iter().map(|(word, value)| {
                let mut point = point.clone();
                point.push(Chosen { field: &setting.field, word, value });
                point
            }));
        }
        longer
    })
}

/// Returns the scenario with the fields of a combination set. Without any it is as it was, to the
/// byte.
pub(crate) fn apply(text: &str, combination: &[Chosen<'_>]) -> Result<String> {
    if combination.is_empty() {
        return Ok(text.to_owned());
    }
    let mut file: Table = toml::from_str(text)?;
    for Chosen { field, value, .. } in combination {
        let names: Vec<&str> = field.split('.').collect();
        if set_in_table(&mut file, &names, value) == 0 {
            insert(&mut file, &names, value)?;
        }
    }
    Ok(toml::to_string(&file)?)
}

/// Sets the field wherever it is: a name that is missing on a level is looked for one level deeper,
/// so that `workload.bytes` means the bytes of all workloads. Returns how many were set.
fn set_in_table(table: &mut Table, names: &[&str], value: &Value) -> usize {
    let [name, rest @ ..] = names else { return 0 };
    match table.get_mut(*name) {
        Some(old) if rest.is_empty() => {
            *old = value.clone();
            1
        }
        Some(inner) => set_in_value(inner, rest, value),
        None => table.iter_mut().map(|(_, inner)| set_in_value(inner, names, value)).sum(),
    }
}

fn set_in_value(inner: &mut Value, names: &[&str], value: &Value) -> usize {
    match inner {
        Value::Table(table) => set_in_table(table, names, value),
        Value::Array(items) => items.iter_mut().map(|item| set_in_value(item, names, value)).sum(),
        _ => 0,
    }
}

/// Adds a field that is not there yet.
fn insert(table: &mut Table, names: &[&str], value: &Value) -> Result<()> {
    let [name, rest @ ..] = names else { return Ok(()) };
    if rest.is_empty() {
        table.insert((*name).to_owned(), value.clone());
        return Ok(());
    }
    let inner = table.entry(*name).or_insert_with(|| Value::Table(Table::new()));
    match inner {
        Value::Table(inner) => insert(inner, rest, value),
        Value::Array(items) => items.iter_mut().try_for_each(|item| match item {
            Value::Table(item) => insert(item, rest, value),
            _ => bail!("{name} is no table, so it has no field {}", rest.join(".")),
        }),
        _ => bail!("{name} is no table, so it has no field {}", rest.join(".")),
    }
}

/// Splits at commas outside of brackets and quotes.
fn split_list(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted) = (0_i32, false);
    text.split(move |c: char| {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    })
    .map(str::trim)
    .collect()
}

/// Reads a number, a size with a unit, true, false, a quoted string or an array, else a bare word.
fn value(word: &str) -> Result<Value> {
    ensure!(!word.is_empty(), "a value is missing");
    if let Some(bytes) = size(word) {
        return Ok(Value::Integer(bytes?));
    }
    let parsed = toml::from_str::<Table>(&format!("v = {word}")).ok();
    let value = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("v"));
    Ok(value.unwrap_or_else(|| Value::String(word.to_owned())))
}

/// Returns the number that a word stands for, if it does.
pub(crate) fn number(word: &str) -> Option<f64> {
    match value(word).ok()? {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    }
}

/// Returns the bytes of a size with a unit; `None` when it is none.
fn size(word: &str) -> Option<Result<i64>> {
    let (number, factor) =
        UNITS.iter().find_map(|(unit, factor)| Some((word.strip_suffix(unit)?, *factor)))?;
    let number: i64 = number.parse().ok()?;
    Some(number.checked_mul(factor).with_context(|| format!("{word} is too large")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "title = \"t\"\n[topology.leaf_spine]\nracks = 2\n\
        [[workload.incast]]\nbytes = 5\n[[workload.incast]]\nbytes = 6\n\
        [[workload.permutation]]\nbytes = 7\n";

    fn set(settings: &[&str]) -> Result<Vec<Table>> {
        let settings: Result<Vec<Setting>> = settings.iter().map(|s| Setting::parse(s)).collect();
        let settings = settings?;
        let points = combinations(&settings);
        points.iter().map(|point| Ok(toml::from_str(&apply(FILE, point)?)?)).collect()
    }

    #[test]
    fn a_field_is_set_wherever_it_is_and_added_where_it_is_not() {
        let points = set(&["workload.bytes=64KB", "topology.racks=4", "transport.kind=tcp"]);
        let point = &points.unwrap()[0];
        assert_eq!(point["workload"]["incast"][1]["bytes"].as_integer(), Some(64_000));
        assert_eq!(point["workload"]["permutation"][0]["bytes"].as_integer(), Some(64_000));
        assert_eq!(point["topology"]["leaf_spine"]["racks"].as_integer(), Some(4));
        assert_eq!(point["transport"]["kind"].as_str(), Some("tcp"));
        assert!(set(&["title.part=1"]).is_err(), "a string has no fields");
        assert_eq!(apply(FILE, &[]).unwrap(), FILE);
    }

    #[test]
    fn values_combine_in_order() {
        let points = set(&["workload.incast.bytes=1,2MiB", "flag=true,[1,2],\"a,b\""]).unwrap();
        let show = |point: &Table| {
            format!("{} {}", point["workload"]["incast"][0]["bytes"], point["flag"])
        };
        let shown: Vec<String> = points.iter().map(show).collect();
        assert_eq!(shown[..3], ["1 true", "1 [1, 2]", "1 \"a,b\""]);
        assert_eq!((shown.len(), shown[3].as_str()), (6, "2097152 true"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["paths", "=3", "a..b=1", "a=", "a=1,,2", "a=9999999999GiB"] {
            assert!(Setting::parse(text).is_err(), "{text}");
        }
        assert!(Setting::single("a=1,2").is_err());
        let numbers = ["64KB", "2.5", "srd", "true", "nan"].map(number);
        assert_eq!(numbers, [Some(64e3), Some(2.5), None, None, None]);
        assert_eq!(Setting::parse("a=").unwrap_err().to_string(), "a: a value is missing");
    }
}
