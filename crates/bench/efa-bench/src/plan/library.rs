//! The plans that are built in, and those in files.

use std::path::Path;

use bench_record::failure::{Failure, plain};

/// The name and the text of a plan.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) text: String,
}

/// The built-in plans.
pub(super) const BUILT_IN: [(&str, &str); 8] = [
    ("quick", include_str!("../../plans/quick.toml")),
    ("paper", include_str!("../../plans/paper.toml")),
    ("dbms", include_str!("../../plans/dbms.toml")),
    ("efa-vs-rdma", include_str!("../../plans/efa-vs-rdma.toml")),
    ("rdmaoe", include_str!("../../plans/rdmaoe.toml")),
    ("ucx", include_str!("../../plans/ucx.toml")),
    ("floors", include_str!("../../plans/floors.toml")),
    ("agree", include_str!("../../plans/agree.toml")),
];

/// Finds the plan of that name, or in that file.
pub(super) fn find(wanted: &str) -> Result<Plan, Failure> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == wanted) {
        return Ok(Plan { name: (*name).to_owned(), text: (*text).to_owned() });
    }
    if !wanted.ends_with(".toml") && !Path::new(wanted).is_file() {
        let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        return Err(Failure::Usage(format!(
            "`{wanted}` is no plan: write {}, or a TOML file",
            names.join(", ")
        )));
    }
    let text = std::fs::read_to_string(wanted)
        .map_err(|e| Failure::Input { path: wanted.to_owned(), reason: plain(&e) })?;
    Ok(Plan { name: wanted.to_owned(), text })
}
