//! The fabrics that a plan names.

use bench_record::fabric_name::{FabricName, Transport};
use bench_record::failure::Failure;
use bench_record::wire::Wire;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Reader, Value};

/// The valid path MTUs in bytes.
const MTUS_BYTES: [u32; 5] = [256, 512, 1024, 2048, 4096];
/// The keys of what `softefa` alone can do.
const SOFTEFA_KEYS: [&str; 3] = ["fault", "wire", "mtu"];

/// A fabric that a plan names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::plan) struct FabricSource {
    /// The name that readers see; empty in a plan for the usual name of the fabric.
    #[serde(default)]
    pub(in crate::plan) name: String,
    pub(in crate::plan) fabric: FabricName,
    #[serde(default)]
    pub(in crate::plan) on: Runner,
    /// The fault that is injected on the fabric; only steps that name the fabric by its name go
    /// with it.
    pub(in crate::plan) fault: Option<String>,
    /// The wire that messages go over; `None` for what `softefa` chooses.
    pub(in crate::plan) wire: Option<Wire>,
    /// The path MTU of a RoCE device in bytes; `None` for what its link allows.
    #[serde(default, deserialize_with = "mtu")]
    pub(in crate::plan) mtu: Option<u32>,
    /// Whether only steps that name the fabric by its name go with it.
    #[serde(default, rename = "only_by_name")]
    pub(in crate::plan) is_by_name: bool,
}

/// The command that starts processes on a fabric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::plan) enum Runner {
    #[default]
    #[serde(skip)]
    Nothing,
    /// `softefa run`.
    Softefa,
}

/// Reads a path MTU.
fn mtu<'de, D: Deserializer<'de>>(text: D) -> Result<Option<u32>, D::Error> {
    let all = MTUS_BYTES.map(|bytes| bytes.to_string()).join(", ");
    let wrong = || D::Error::custom(format!("write one of {all}"));
    let bytes = u32::deserialize(text).map_err(|_| wrong())?;
    if MTUS_BYTES.contains(&bytes) { Ok(Some(bytes)) } else { Err(wrong()) }
}

impl Reader<'_> {
    pub(super) fn fabric(&self, value: &Value<'_>) -> Result<FabricSource, Failure> {
        let mut own: FabricSource = self.read(value)?;
        if own.name.is_empty() {
            own.name = own.fabric.label();
        }
        let given = SOFTEFA_KEYS.iter().find(|key| value.get_ref().get(**key).is_some());
        if let Some(key) = given.filter(|_| own.on == Runner::Nothing) {
            return Err(self.wrong_at(value, key, "it is for on = \"softefa\""));
        }
        if own.mtu.is_some() && own.fabric != FabricName::Verbs(Transport::Rc) {
            return Err(self.wrong_at(value, "mtu", "it is for fabric = \"verbs:rc\""));
        }
        Ok(own)
    }
}
