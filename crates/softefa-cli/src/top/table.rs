//! The table as lines of text.

use softefa::counters::Counter;

use super::sample::{Rates, Row};

/// A column of figures.
pub(super) struct Column {
    title: &'static str,
    /// Name in JSON, with its unit.
    pub(super) key: &'static str,
    pub(super) value: fn(&Row) -> f64,
}

const GIGABIT_PER_BYTE: f64 = 8e-9;

/// The figures. Bits are those above UDP, with the headers of the protocol.
pub(super) const COLUMNS: [Column; 9] = [
    Column { title: "SEND/s", key: "sends_per_s", value: |r| r.rate(Counter::SendWrs) },
    Column { title: "RECV/s", key: "receives_per_s", value: |r| r.rate(Counter::RecvWrs) },
    Column {
        title: "TX Gb/s",
        key: "tx_gbit_per_s",
        value: |r| r.rate(Counter::TxBytes) * GIGABIT_PER_BYTE,
    },
    Column {
        title: "RX Gb/s",
        key: "rx_gbit_per_s",
        value: |r| r.rate(Counter::RxBytes) * GIGABIT_PER_BYTE,
    },
    Column {
        title: "READ Gb/s",
        key: "rdma_read_gbit_per_s",
        value: |r| r.rate(Counter::RdmaReadBytes) * GIGABIT_PER_BYTE,
    },
    Column {
        title: "WRITE Gb/s",
        key: "rdma_write_gbit_per_s",
        value: |r| r.rate(Counter::RdmaWriteBytes) * GIGABIT_PER_BYTE,
    },
    Column { title: "RETX/s", key: "retransmits_per_s", value: |r| r.rate(Counter::RetransPkts) },
    Column { title: "RNR/s", key: "rnr_per_s", value: |r| r.rate(Counter::RxRnr) },
    Column { title: "DUP/s", key: "duplicates_per_s", value: |r| r.rate(Counter::RxDuplicates) },
];

/// A heading and a line per device.
pub(super) fn lines(rates: &Rates) -> Vec<String> {
    let mut heading = format!("{:<14} {:<15} {:>7} {:<15}", "DEVICE", "ADDRESS", "PID", "PROGRAM");
    for column in COLUMNS {
        heading += &format!(" {:>10}", column.title);
    }
    let mut lines = vec![heading];
    for row in &rates.rows {
        let Row { device, addr, pid, program, .. } = row;
        let addr = addr.to_string();
        let mut line = format!("{device:<14} {addr:<15} {pid:>7} {program:<15}");
        for column in COLUMNS {
            line += &format!(" {:>10}", figure((column.value)(row)));
        }
        lines.push(line);
    }
    if rates.rows.is_empty() {
        lines.push("no device is in use; start a program with: softefa run -- PROGRAM".to_owned());
    }
    lines
}

/// At most seven characters up to 10^10.
fn figure(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 100.0 => format!("{v:.2}"),
        v if v < 1e4 => format!("{v:.0}"),
        v if v < 1e6 => format!("{:.1}k", v / 1e3),
        v => format!("{:.1}M", v / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stay_short() {
        let cases = [0.0, 0.004, 12.345, 99.999, 123.4, 9_999.0, 12_345.0, 999_999.0, 1.5e7];
        let shown = cases.map(figure);
        let wanted = ["0", "0.00", "12.35", "100.00", "123", "9999", "12.3k", "1000.0k", "15.0M"];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn nothing_to_see_says_what_to_do() {
        let lines = lines(&Rates::default());
        assert!(lines[1].contains("softefa run"), "{lines:?}");
    }
}
