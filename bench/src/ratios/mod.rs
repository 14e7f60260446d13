//! Soft-EFA beside what bare memory and bare UDP reach, and beside libfabric's `shm` and `tcp`.

mod quantity;
mod rows;

use anyhow::Result;
use clap::Args;

use self::quantity::Quantity;
use self::rows::Compared;
use crate::block::Block;
use crate::comparison::Comparison;
use crate::effort::Effort;
use crate::pick::Pick;
use crate::tool::{Tools, Wire};

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Choice {
    /// With ratios and floor, measure the rows of this wire only.
    #[arg(long, value_enum)]
    wire: Option<Wire>,
}

/// Rounds of all rows that were asked for; up to as many again of those that were measured with the
/// cores in other places than what they are compared with. What fails leaves its cell empty: the
/// others are still worth knowing.
///
/// # Errors
/// No row is as asked for.
pub(crate) fn measure(
    tools: &Tools,
    is_floor: bool,
    rounds: u32,
    effort: Effort,
    pick: &Pick,
    choice: &Choice,
) -> Result<Vec<Comparison>> {
    let all = if is_floor { rows::floors() } else { rows::all() };
    let mut rows = chosen(all, pick, choice)?;
    for round in 1..=2 * rounds {
        if round <= rounds {
            eprintln!("round {round} of {rounds}");
        } else if rows.iter().any(|own| own.row.is_apart()) {
            eprintln!("the cores were moved between what is compared: one round more");
        } else {
            break;
        }
        let wanted = rows.iter_mut().filter(|own| round <= rounds || own.row.is_apart());
        measure_round(tools, effort, wanted);
    }
    Ok(rows.into_iter().map(|own| own.row).collect())
}

fn chosen(mut rows: Vec<Compared>, pick: &Pick, choice: &Choice) -> Result<Vec<Compared>> {
    rows.retain(|own| choice.wire.is_none_or(|wire| wire == own.wire));
    pick.choose(rows, Compared::name)
}

/// Measures each figure once, whatever number of rows it stands in.
fn measure_round<'a>(tools: &Tools, effort: Effort, rows: impl Iterator<Item = &'a mut Compared>) {
    let mut found: Vec<(Quantity, Option<Block>)> = Vec::new();
    for Compared { row, ours, reference, .. } in rows {
        eprintln!("  {} beside {}", row.what, row.reference_name);
        let sides = [(Some(*ours), &mut row.ours), (*reference, &mut row.reference)];
        for (quantity, blocks) in sides {
            let Some(quantity) = quantity else { continue };
            let known = found.iter().find(|(own, _)| *own == quantity).map(|(_, block)| *block);
            let block = known.unwrap_or_else(|| {
                let block = measured(quantity, tools, effort);
                found.push((quantity, block));
                block
            });
            blocks.extend(block);
        }
    }
}

/// What is ours is measured once: that it failed counts. Other people's programs get a second try,
/// because without them there is nothing to compare with.
fn measured(quantity: Quantity, tools: &Tools, effort: Effort) -> Option<Block> {
    let tries = if quantity.is_ours() { 1 } else { 2 };
    (0..tries).find_map(|_| {
        let block = Block::of(|| quantity.measure(tools, effort));
        block.map_err(|error| eprintln!("bench: {error:#}")).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rows: &[&str], wire: Option<Wire>) -> Result<Vec<String>> {
        let chosen = chosen(rows::all(), &Pick::of(rows), &Choice { wire })?;
        Ok(chosen.iter().map(Compared::name).collect())
    }

    #[test]
    fn rows_are_chosen_by_a_part_of_their_name_and_by_wire() {
        let all = names(&[], None).unwrap().len();
        let of = |wire| names(&[], Some(wire)).unwrap().len();
        assert_eq!(of(Wire::Auto) + of(Wire::Udp), all);
        assert_eq!(
            names(&["read"], None).unwrap(),
            ["auto RDMA READ 1 MiB libfabric tcp", "udp RDMA READ 1 MiB libfabric tcp"]
        );
        assert_eq!(names(&["read", "gso"], Some(Wire::Udp)).unwrap().len(), 6);
        assert_eq!(names(&["udp fi_ping"], None).unwrap().len(), 1);
    }

    #[test]
    fn a_pattern_without_a_row_is_told_with_all_names() {
        for (pattern, wire) in [("warp", None), ("udp fi_ping", Some(Wire::Auto))] {
            let error = names(&[pattern], wire).unwrap_err().to_string();
            assert!(error.contains(pattern), "{error}");
            assert!(error.contains("\n  auto ib_send_lat 64 B libfabric shm\n"), "{error}");
        }
    }
}
