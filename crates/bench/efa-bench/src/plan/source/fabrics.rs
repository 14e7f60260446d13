//! The fabrics that a plan names.

use bench_record::fabric_name::{FabricName, Transport};
use bench_record::failure::Failure;
use bench_record::wire::Wire;
use toml::Spanned;

use super::{Reader, Table};

/// The valid path MTUs in bytes.
const MTUS_BYTES: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// A fabric that a plan names.
#[derive(Debug)]
pub(in crate::plan) struct FabricSource {
    pub(in crate::plan) name: String,
    pub(in crate::plan) fabric: FabricName,
    pub(in crate::plan) on: Runner,
    /// The fault that is injected on the fabric; only steps that name the fabric by its name go
    /// with it.
    pub(in crate::plan) fault: Option<String>,
    /// The wire that messages go over; `None` for what `softefa` chooses.
    pub(in crate::plan) wire: Option<Wire>,
    /// The path MTU of a RoCE device in bytes; `None` for what its link allows.
    pub(in crate::plan) mtu: Option<u32>,
    /// Whether only steps that name the fabric by its name go with it.
    pub(in crate::plan) is_by_name: bool,
}

/// The command that starts processes on a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Runner {
    Nothing,
    /// `softefa run`.
    Softefa,
}

impl Reader<'_> {
    pub(super) fn fabric(&self, table: &Table<'_>) -> Result<FabricSource, Failure> {
        self.known(table, &["fabric", "name", "on", "fault", "wire", "mtu", "only_by_name"])?;
        let span = |key: &str| table.get(key).map_or(0..0, Spanned::span);
        let name = self.text_at(table, "fabric")?.unwrap_or_default();
        let fabric: FabricName =
            name.parse().map_err(|reason: String| self.wrong(&span("fabric"), &reason))?;
        let on = match self.text_at(table, "on")?.as_deref() {
            None => Runner::Nothing,
            Some("softefa") => Runner::Softefa,
            Some(other) => {
                let what = format!("on = \"{other}\": write softefa, or leave it out");
                return Err(self.wrong(&span("on"), &what));
            }
        };
        let name = self.text_at(table, "name")?.unwrap_or_else(|| fabric.label());
        let fault = self.text_at(table, "fault")?;
        if fault.is_some() && on == Runner::Nothing {
            return Err(self.wrong(&span("fault"), "fault: it is for on = \"softefa\""));
        }
        let wire = self.wire(table, on)?;
        let mtu = self.mtu(table, &fabric, on)?;
        let is_by_name = table.get("only_by_name").map_or(Some(false), |v| v.get_ref().as_bool());
        let is_by_name = is_by_name.ok_or_else(|| {
            self.wrong(&span("only_by_name"), "only_by_name: write true or false")
        })?;
        Ok(FabricSource { name, fabric, on, fault, wire, mtu, is_by_name })
    }

    /// Reads the path MTU of a RoCE device of the software.
    fn mtu(
        &self,
        table: &Table<'_>,
        fabric: &FabricName,
        on: Runner,
    ) -> Result<Option<u32>, Failure> {
        let Some(value) = table.get("mtu") else { return Ok(None) };
        let number = value.get_ref().as_integer().and_then(|own| own.as_str().parse().ok());
        let Some(bytes) = number.filter(|own| MTUS_BYTES.contains(own)) else {
            let all = MTUS_BYTES.map(|bytes| bytes.to_string()).join(", ");
            return Err(self.wrong(&value.span(), &format!("mtu: write one of {all}")));
        };
        if on == Runner::Nothing || *fabric != FabricName::Verbs(Transport::Rc) {
            let what = "mtu: it is for fabric = \"verbs:rc\" with on = \"softefa\"";
            return Err(self.wrong(&value.span(), what));
        }
        Ok(Some(bytes))
    }

    /// Reads the wire that messages of the software device go over.
    fn wire(&self, table: &Table<'_>, on: Runner) -> Result<Option<Wire>, Failure> {
        let Some(text) = self.text_at(table, "wire")? else { return Ok(None) };
        let span = table.get("wire").map_or(0..0, Spanned::span);
        let Some(wire) = Wire::ALL.into_iter().find(|wire| wire.name() == text) else {
            let names = Wire::ALL.map(Wire::name).join(", ");
            return Err(self.wrong(&span, &format!("wire = \"{text}\": write one of {names}")));
        };
        match on {
            Runner::Softefa => Ok(Some(wire)),
            Runner::Nothing => Err(self.wrong(&span, "wire: it is for on = \"softefa\"")),
        }
    }
}
