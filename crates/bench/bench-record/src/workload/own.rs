//! The part of a specification that only one workload has, in the field of a record with its name.

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Deserialize as DeriveDeserialize, Serialize, Serializer};

use super::{CollectiveSpec, IncastSpec, LogSpec, WorkSpec};

/// The part of a [`WorkSpec`] that only one workload has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnSpec {
    Nothing,
    Log(LogSpec),
    /// An operation of all ranks.
    Collective(CollectiveSpec),
    Incast(IncastSpec),
}

impl WorkSpec {
    /// Returns the specification of a log.
    pub const fn log(&self) -> Option<LogSpec> {
        if let OwnSpec::Log(spec) = self.own { Some(spec) } else { None }
    }

    /// Returns the specification of an operation of all ranks.
    pub const fn collective(&self) -> Option<CollectiveSpec> {
        if let OwnSpec::Collective(spec) = self.own { Some(spec) } else { None }
    }

    /// Returns the specification of an incast.
    pub const fn incast(&self) -> Option<IncastSpec> {
        if let OwnSpec::Incast(spec) = self.own { Some(spec) } else { None }
    }
}

/// The form of the part in records.
#[derive(Default, Serialize, DeriveDeserialize)]
#[serde(default)]
struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<LogSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collective: Option<CollectiveSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incast: Option<IncastSpec>,
}

pub(super) fn serialize<S: Serializer>(own: &OwnSpec, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = Fields::default();
    match *own {
        OwnSpec::Nothing => {}
        OwnSpec::Log(spec) => fields.log = Some(spec),
        OwnSpec::Collective(spec) => fields.collective = Some(spec),
        OwnSpec::Incast(spec) => fields.incast = Some(spec),
    }
    fields.serialize(to)
}

/// Reads the part. Unlike with an enum that serde flattens, a damaged part is refused and not left
/// out.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OwnSpec, D::Error> {
    let Fields { log, collective, incast } = Fields::deserialize(from)?;
    match (log, collective, incast) {
        (None, None, None) => Ok(OwnSpec::Nothing),
        (Some(spec), None, None) => Ok(OwnSpec::Log(spec)),
        (None, Some(spec), None) => Ok(OwnSpec::Collective(spec)),
        (None, None, Some(spec)) => Ok(OwnSpec::Incast(spec)),
        _ => Err(D::Error::custom("log, collective and incast: give one at most")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ack, Algorithm, Commit, Pattern};
    use super::*;

    #[test]
    fn records_hold_each_in_the_field_of_its_name() {
        let log = LogSpec { group: 8, commit: Commit::Majority, ack: Ack::Message };
        let sum = CollectiveSpec { pattern: Pattern::Allreduce, algorithm: Algorithm::Ring };
        let incast = IncastSpec { interval_ms: Some(100) };
        let all = [
            (OwnSpec::Nothing, None),
            (OwnSpec::Log(log), Some("log")),
            (OwnSpec::Collective(sum), Some("collective")),
            (OwnSpec::Incast(incast), Some("incast")),
        ];
        for (own, name) in all {
            let work = WorkSpec { keys: 5, own, ..WorkSpec::NONE };
            let json = serde_json::to_value(work).unwrap();
            for field in ["log", "collective", "incast"] {
                assert_eq!(json.get(field).is_some(), name == Some(field), "{json}");
            }
            assert_eq!(json.get("own"), None, "{json}");
            assert_eq!(serde_json::from_value::<WorkSpec>(json).unwrap(), work);
        }
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let with = |text: &str| {
            let plain = serde_json::to_string(&WorkSpec::NONE).unwrap();
            let all = format!("{},{text}}}", plain.trim_end_matches('}'));
            serde_json::from_str::<WorkSpec>(&all).map_err(|error| error.to_string())
        };
        assert!(with(r#""later":1"#).is_ok(), "of a later version");
        assert!(with(r#""log":{"group":1,"commit":"all"}"#).unwrap_err().contains("ack"));
        assert!(with(r#""incast":7"#).unwrap_err().contains("IncastSpec"));
        let both =
            r#""incast":{"interval_ms":null},"log":{"group":1,"commit":"all","ack":"message"}"#;
        assert!(with(both).unwrap_err().contains("one at most"));
    }
}
