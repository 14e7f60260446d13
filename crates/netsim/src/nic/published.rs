//! Published figures, to be held against the model. The model never reads them.

use super::profile::Fabric;
use serde::Serialize;

const DATA: &str = include_str!("../../data/published.csv");

/// A published figure and how it was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Table of the thesis' appendix: `c3.3`.
    pub(super) table: &'static str,
    pub(super) fabric: Fabric,
    pub(super) operation: Operation,
    /// The operation as the data file calls it.
    pub(super) label: &'static str,
    pub(super) size_bytes: u32,
    pub(super) depth: u32,
    pub(super) queue_pairs: u32,
    pub(super) threads: u32,
    /// Wait of the generators of background load.
    pub(super) wait_ns: u32,
    pub(super) unit: Unit,
    pub(super) value: f64,
    /// Why it is listed apart, if it is.
    pub(super) apart: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    Datagram,
    Write,
    Read,
}

/// The figure's unit; the data file says what each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    MibPerS,
    WireMbPerS,
    LoadMbPerS,
    MmsgPerS,
    MeanUs,
    MinUs,
    P50Us,
    P99Us,
}

/// All published figures, in the order of the tables.
pub(super) fn rows() -> Vec<Row> {
    lines().map(|line| parse(line).unwrap_or_else(|| panic!("a row of the data: {line}"))).collect()
}

fn lines() -> impl Iterator<Item = &'static str> {
    DATA.lines().filter(|line| !line.starts_with('#')).skip(1)
}

fn parse(line: &'static str) -> Option<Row> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[table, fabric, operation, size, depth, pairs, threads, wait, unit, value, apart] =
        cells.as_slice()
    else {
        return None;
    };
    Some(Row {
        table,
        fabric: fabric_of(fabric)?,
        operation: operation_of(operation)?,
        label: operation,
        size_bytes: size.parse().ok()?,
        depth: depth.parse().ok()?,
        queue_pairs: pairs.parse().ok()?,
        threads: threads.parse().ok()?,
        wait_ns: wait.parse().ok()?,
        unit: unit_of(unit)?,
        value: value.parse().ok()?,
        apart: Some(apart).filter(|reason| !reason.is_empty()),
    })
}

impl Unit {
    /// As tables say it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MibPerS => "MiB/s",
            Self::WireMbPerS => "MB/s wire",
            Self::LoadMbPerS => "MB/s load",
            Self::MmsgPerS => "M msg/s",
            Self::MeanUs => "mean us",
            Self::MinUs => "min us",
            Self::P50Us => "p50 us",
            Self::P99Us => "p99 us",
        }
    }
}

fn fabric_of(text: &str) -> Option<Fabric> {
    Some(match text {
        "efa" => Fabric::Efa,
        "rc" => Fabric::Rc,
        "tcp" => Fabric::Tcp,
        _ => return None,
    })
}

/// Tagged and injected messages take the way of any other through the adapter.
fn operation_of(text: &str) -> Option<Operation> {
    Some(match text {
        "send" | "tagged" | "inject" | "tagged_inject" => Operation::Send,
        "datagram" => Operation::Datagram,
        "write" => Operation::Write,
        "read" => Operation::Read,
        _ => return None,
    })
}

fn unit_of(text: &str) -> Option<Unit> {
    Some(match text {
        "mib_per_s" => Unit::MibPerS,
        "wire_mb_per_s" => Unit::WireMbPerS,
        "load_mb_per_s" => Unit::LoadMbPerS,
        "mmsg_per_s" => Unit::MmsgPerS,
        "mean_us" => Unit::MeanUs,
        "min_us" => Unit::MinUs,
        "p50_us" => Unit::P50Us,
        "p99_us" => Unit::P99Us,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_whole() {
        let rows = rows();
        assert_eq!(rows.len(), 555);
        let of = |table: &str| rows.iter().filter(|row| row.table == table).count();
        assert_eq!([of("c1"), of("c3.3"), of("c8.2"), of("c9")], [30, 52, 15, 50]);
        assert_eq!(rows.iter().filter(|row| row.apart.is_some()).count(), 59);
        assert!(rows.iter().all(|row| row.value > 0.0));
    }

    #[test]
    fn two_tables_of_one_measurement_agree() {
        // Rates are printed with two decimals, the bandwidths they come from with more digits.
        let rows = rows();
        let rates = rows.iter().filter(|row| row.unit == Unit::MmsgPerS);
        for rate in rates.filter(|row| row.table.starts_with("c3")) {
            let same = |row: &&Row| {
                let size = (row.size_bytes, row.depth, row.fabric);
                row.table.starts_with("c3")
                    && row.unit == Unit::MibPerS
                    && size == (rate.size_bytes, rate.depth, rate.fabric)
            };
            let bandwidth = rows.iter().find(same).expect("the other table's row");
            let derived = bandwidth.value * 1.048_576 / f64::from(rate.size_bytes);
            assert!((derived - rate.value).abs() < 0.011, "{rate:?}: {derived}");
        }
    }
}
