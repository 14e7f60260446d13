//! The rows of the data file.

use crate::kind::{Anomaly, Fabric, Operation, Unit};

const DATA: &str = include_str!("../data/published.csv");
const MIB: f64 = 1_048_576.0;

/// A published figure and how it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Table of the thesis' appendix: `c3.3`.
    pub table: &'static str,
    /// The fabric that was measured.
    pub fabric: Fabric,
    /// The operation that moved bytes.
    pub operation: Operation,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Number of messages under way per queue pair.
    pub depth: u32,
    /// Number of queue pairs per thread.
    pub queue_pairs: u32,
    /// Number of threads that send; in table C.8 background load.
    pub threads: u32,
    /// Wait of the generators of background load in nanoseconds; 0 where there are none.
    pub wait_ns: u32,
    /// The unit of `value`.
    pub unit: Unit,
    /// The value as printed, above 0.
    pub value: f64,
    /// The reason why it is listed apart, if it is.
    pub anomaly: Option<Anomaly>,
}

/// Returns all published figures, in the order of the tables.
///
/// # Panics
/// Never panics: the data is part of the program and a test reads all of it.
#[must_use]
pub fn rows() -> Vec<Measurement> {
    let row = |line| parse(line).unwrap_or_else(|reason| panic!("published.csv: {line}: {reason}"));
    DATA.lines().filter(|line| !line.starts_with('#')).skip(1).map(row).collect()
}

fn parse(line: &'static str) -> Result<Measurement, String> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[table, fabric, operation, size, depth, pairs, threads, wait, unit, value, anomaly] =
        cells.as_slice()
    else {
        return Err(format!("{} cells", cells.len()));
    };
    let count = |text: &str| text.parse::<u32>().map_err(|error| format!("`{text}`: {error}"));
    let anomaly = (!anomaly.is_empty()).then(|| anomaly.parse()).transpose()?;
    Ok(Measurement {
        table,
        fabric: fabric.parse()?,
        operation: operation.parse()?,
        size_bytes: count(size)?,
        depth: count(depth)?,
        queue_pairs: count(pairs)?,
        threads: count(threads)?,
        wait_ns: count(wait)?,
        unit: unit.parse()?,
        value: value.parse().map_err(|error| format!("`{value}`: {error}"))?,
        anomaly,
    })
}

impl Measurement {
    /// Returns the bytes of a message that the adapter's counters show besides the payload.
    #[must_use]
    pub const fn counted_bytes(&self) -> u32 {
        match (self.fabric, self.operation) {
            (Fabric::Efa, Operation::Write) => 32,
            (Fabric::Efa, Operation::Read) => 24,
            (Fabric::Efa, _) => 8,
            (_, _) if self.size_bytes < 1000 => 86,
            (_, _) => 24,
        }
    }

    /// Converts `mmsg_per_s` of messages of this row's size to the unit of this row; `None` where
    /// that is no rate.
    #[must_use]
    pub fn in_unit(&self, mmsg_per_s: f64) -> Option<f64> {
        Some(mmsg_per_s * self.unit_per_mmsg_per_s()?)
    }

    /// Converts `value` in this row's unit to 10^6 messages a second; `None` where that is no rate.
    #[must_use]
    pub fn mmsg_per_s(&self, value: f64) -> Option<f64> {
        Some(value / self.unit_per_mmsg_per_s()?)
    }

    /// Converts `value` in this row's unit to 10^9 bits of payload a second; `None` where that is
    /// no rate.
    #[must_use]
    pub fn gbit_per_s(&self, value: f64) -> Option<f64> {
        Some(self.mmsg_per_s(value)? * f64::from(self.size_bytes) * 8.0 / 1e3)
    }

    /// Returns the equivalent of 10^6 messages a second in this row's unit.
    fn unit_per_mmsg_per_s(&self) -> Option<f64> {
        let bytes = f64::from(self.size_bytes);
        match self.unit {
            Unit::MmsgPerS => Some(1.0),
            Unit::MibPerS => Some(bytes * 1e6 / MIB),
            Unit::WireMbPerS => Some(bytes + f64::from(self.counted_bytes())),
            Unit::LoadMbPerS => Some(bytes),
            Unit::MeanUs | Unit::MinUs | Unit::P50Us | Unit::P99Us => None,
        }
    }
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
        assert_eq!(rows.iter().filter(|row| row.anomaly.is_some()).count(), 59);
        assert!(rows.iter().all(|row| row.value > 0.0));
    }

    #[test]
    fn every_anomaly_is_explained_in_the_data_file_with_the_same_words() {
        // The file breaks long lines.
        let flat: String = DATA.lines().filter_map(|line| line.strip_prefix('#')).collect();
        let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        for row in rows() {
            let Some(anomaly) = row.anomaly else { continue };
            let words = format!("{} {}", anomaly.word(), anomaly.why());
            assert!(flat.contains(&words), "{words}");
        }
    }

    #[test]
    fn two_tables_of_one_measurement_agree() {
        // Rates are printed with two decimals, the bandwidths they come from with more digits.
        let rows = rows();
        let rates = rows.iter().filter(|row| row.unit == Unit::MmsgPerS);
        for rate in rates.filter(|row| row.table.starts_with("c3")) {
            let same = |row: &&Measurement| {
                let size = (row.size_bytes, row.depth, row.fabric);
                row.table.starts_with("c3")
                    && row.unit == Unit::MibPerS
                    && size == (rate.size_bytes, rate.depth, rate.fabric)
            };
            let bandwidth = rows.iter().find(same).expect("the other table's row");
            let derived = bandwidth.mmsg_per_s(bandwidth.value).expect("a rate");
            assert!((derived - rate.value).abs() < 0.011, "{rate:?}: {derived}");
        }
    }

    #[test]
    fn units_are_what_they_are() {
        let rows = rows();
        let find = |table: &str, depth, size| {
            let own = |r: &&Measurement| (r.table, r.depth, r.size_bytes) == (table, depth, size);
            rows.iter().find(own).expect("the row")
        };
        let best = find("c3.3", 256, 8192);
        let gbit_per_s = best.gbit_per_s(best.value).expect("a rate");
        assert!((gbit_per_s - 93.49).abs() < 0.01, "{gbit_per_s}");
        // 187.54 MB/s of 72 counted bytes are the 2.60 M/s of table C.5.2.
        let two = |r: &&Measurement| r.table == "c5.1" && r.threads == 2 && r.fabric == Fabric::Efa;
        let two = rows.iter().find(two).expect("the row");
        assert!(two.mmsg_per_s(two.value).is_some_and(|rate| (rate - 2.605).abs() < 0.001));
        assert!(two.in_unit(2.0).is_some_and(|value| (value - 144.0).abs() < 1e-9));
        let latency = find("c1", 1, 64);
        assert_eq!((latency.mmsg_per_s(1.0), latency.gbit_per_s(1.0)), (None, None));
    }
}
