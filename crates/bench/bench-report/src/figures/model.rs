//! The figures of a model of a NIC, for comparison with published ones: the file that
//! `netsim nic --json` writes.

use std::path::Path;

use bench_record::failure::{Failure, plain};
use published::Measurement;
use serde::Deserialize;

const SCHEMA: &str = "netsim-nic-1";

/// Modelled figures.
#[derive(Debug, Deserialize)]
pub struct Model {
    schema: String,
    lines: Vec<Line>,
}

/// A published figure and the modelled one, in the same unit.
#[derive(Debug, Deserialize)]
struct Line {
    table: String,
    series: String,
    operation: String,
    unit: String,
    size_bytes: u32,
    depth: u32,
    queue_pairs: u32,
    threads: u32,
    wait_ns: u32,
    published: f64,
    modelled: f64,
}

impl Model {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or is not what `netsim nic --json` of this version writes.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |reason: String| Failure::Input { path: path.display().to_string(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| failed(plain(&error)))?;
        Self::parse(&text).map_err(|reason| {
            failed(format!("{reason}; make it with `netsim nic --json {}`", path.display()))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let model: Self =
            serde_json::from_str(text).map_err(|error| format!("it is no model: {error}"))?;
        if model.schema != SCHEMA {
            return Err(format!("its schema is {}, this efa-bench reads {SCHEMA}", model.schema));
        }
        let rows = published::rows();
        match model.lines.iter().find(|line| !rows.iter().any(|row| line.is_of(row))) {
            Some(line) => Err(format!(
                "table {} has no figure {} at {} B, depth {}: it is of another version",
                line.table, line.published, line.size_bytes, line.depth
            )),
            None => Ok(model),
        }
    }

    /// Returns the series and the modelled value for the published `row`.
    pub(super) fn of(&self, row: &Measurement) -> Option<(&str, f64)> {
        let line = self.lines.iter().find(|line| line.is_of(row))?;
        Some((&line.series, line.modelled))
    }
}

impl Line {
    /// Returns whether this figure belongs to `row`. A row has no name; its published figure tells
    /// it from those of other fabrics.
    fn is_of(&self, row: &Measurement) -> bool {
        let own = (self.size_bytes, self.depth, self.queue_pairs, self.threads, self.wait_ns);
        self.table == row.table
            && self.operation == row.operation.word()
            && self.unit == row.unit.word()
            && own == (row.size_bytes, row.depth, row.queue_pairs, row.threads, row.wait_ns)
            && (self.published - row.value).abs() <= row.value * 1e-9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(published: f64) -> String {
        format!(
            "{{\"table\":\"c1\",\"series\":\"model:c5n\",\"operation\":\"send\",\"unit\":\"mean_us\",\
             \"size_bytes\":64,\"depth\":1,\"queue_pairs\":1,\"threads\":1,\"wait_ns\":0,\
             \"published\":{published},\"modelled\":20.5}}"
        )
    }

    fn model(schema: &str, published: f64) -> Result<Model, String> {
        let line = line(published);
        Model::parse(&format!("{{\"schema\":\"{schema}\",\"errors\":null,\"lines\":[{line}]}}"))
    }

    #[test]
    fn figures_of_fabrics_are_told_apart() {
        let model = model(SCHEMA, 20.68).expect("a model");
        let rows = published::rows();
        let found: Vec<_> = rows.iter().filter_map(|row| Some((row, model.of(row)?))).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.value, found[0].1), (20.68, ("model:c5n", 20.5)));
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        assert!(model("netsim-nic-2", 20.68).is_err_and(|e| e.contains("netsim-nic-2")));
        assert!(model(SCHEMA, 20.69).is_err_and(|e| e.contains("another version")));
        assert!(Model::parse("{}").is_err_and(|e| e.contains("no model")));
    }
}
