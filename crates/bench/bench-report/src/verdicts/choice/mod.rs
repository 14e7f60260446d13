//! Advice on the choice of a network: the workloads asked the other way round. Which network suits
//! a system that does this, how far does it go, and what does it cost? Nothing is said that the run
//! did not show: each figure links to its row, an uncertain difference is a tie, and a missing
//! measurement is named with its command.

mod chosen;
mod cost;
mod needs;
#[cfg(test)]
mod tests;

use bench_record::{Point, Run};
use report::{Layout, Section, Table};

pub(super) use self::chosen::choose;
use super::race::Race;
use crate::held::P99_BOUND_US;
use crate::page::{row_name, set_up_name};

/// The text of a cell, and the row that it comes from.
#[derive(Debug, Clone, Default, PartialEq)]
struct Cell {
    text: String,
    from: Option<String>,
}

impl Cell {
    const fn plain(text: String) -> Self {
        Self { text, from: None }
    }

    fn nothing() -> Self {
        Self::plain("-".to_owned())
    }

    /// Creates the cell of a point.
    fn of(runs: &[Run], point: &Point, text: String) -> Self {
        let place = runs.iter().enumerate().find_map(|(run, own)| {
            let index = own.points.iter().position(|other| std::ptr::eq(other, point))?;
            Some(row_name(run, index))
        });
        Self { text, from: place }
    }

    /// Creates the cell of the set-up of a run.
    fn of_set_up(runs: &[Run], run: &Run, text: String) -> Self {
        let number = runs.iter().position(|own| std::ptr::eq(own, run));
        Self { text, from: number.map(set_up_name) }
    }
}

/// Adds a row whose cells link to where they are from.
fn push(table: &mut Table, cells: Vec<Cell>) {
    let row = table.rows.len();
    for (column, cell) in cells.iter().enumerate() {
        table.links.extend(cell.from.iter().map(|name| (row, column, name.clone())));
    }
    table.push(cells.into_iter().map(|cell| cell.text).collect());
}

/// Returns the section of these runs; `races` are those of workloads. Returns `None` if there is
/// none.
pub(super) fn section(runs: &[Run], races: &[Race<'_>], names: &[&str]) -> Option<Section> {
    // MPI is an interface, not a network.
    let is_mpi = |run: &Run| run.fabric.as_ref().is_some_and(|fabric| fabric.provider == "mpi");
    let is_fabric = |name: &&&str| {
        let mut own = runs.iter().filter(|run| run.name == **name);
        own.any(|run| !is_mpi(run) && run.benchmark.is_workload())
    };
    let fabrics: Vec<&str> = names.iter().filter(is_fabric).copied().collect();
    let (choice, missing) = needs::table(runs, &fabrics);
    let tables: Vec<Table> = [choice, cost::table(runs, races, &fabrics)].into();
    let tables: Vec<Table> = tables.into_iter().filter(|table| !table.rows.is_empty()).collect();
    if tables.is_empty() {
        return None;
    }
    let details = match missing.len() {
        0 => Vec::new(),
        count => {
            vec![(format!("Not measured here: {count}, each with its command"), missing.join("\n"))]
        }
    };
    let text = vec![format!(
        "Each figure leads to the row that it comes from. ▲ is better than all others by more than noise and, where there are several blocks, chance, = is a near \
         tie (the difference is noise), ? is undecided: blocks differ so much that they do not tell these apart. A rate is held where 99 of 100 operations end within \
         {P99_BOUND_US} µs (or what a ramp asked for) of the moment for which they were due, at this rate and at every lower one that was measured. \
         A dash was not measured."
    )];
    let title = "For who chooses a network".to_owned();
    Some(Section { title, layout: Layout::Body, text, tables, details, ..Section::default() })
}
