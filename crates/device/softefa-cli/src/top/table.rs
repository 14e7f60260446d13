//! The table as lines of text.

use softefa::counters::Counter;

use super::history::History;
use super::sample::{DeviceRates, Rates};

/// A column of figures.
pub(super) struct Column {
    title: &'static str,
    /// The name in JSON, with the unit.
    pub(super) key: &'static str,
    pub(super) value: fn(&DeviceRates) -> f64,
}

const GIGABIT_PER_BYTE: f64 = 8e-9;

/// The figures. Bits are those above UDP, with the headers of the protocol. `BEHIND` is the largest
/// number of later messages that had overtaken one since the device was opened.
pub(super) const COLUMNS: [Column; 12] = [
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
    Column { title: "MEM %", key: "tx_memory_percent", value: memory_percent },
    Column { title: "RETX/s", key: "retransmits_per_s", value: |r| r.rate(Counter::RetransPkts) },
    Column { title: "RNR/s", key: "rnr_per_s", value: |r| r.rate(Counter::RxRnr) },
    Column { title: "DUP/s", key: "duplicates_per_s", value: |r| r.rate(Counter::RxDuplicates) },
    Column {
        title: "OOS/s",
        key: "out_of_sequence_per_s",
        value: |r| r.rate(Counter::OutOfSequence),
    },
    Column {
        title: "BEHIND",
        key: "out_of_sequence_max",
        value: |r| r.total(Counter::OutOfSequenceMax) as f64,
    },
];

/// Returns the share of the packets sent that went through memory and not over UDP.
fn memory_percent(row: &DeviceRates) -> f64 {
    let pkts = row.rate(Counter::TxPkts);
    if pkts > 0.0 { 100.0 * row.rate(Counter::TxMemoryPkts) / pkts } else { 0.0 }
}

/// The titles of the columns of text in front of the figures.
const TITLES: [&str; 5] = ["DEVICE", "KIND", "ADDRESS", "PID", "PROGRAM"];
/// The columns of them that are aligned to the left: all but the number.
const LEFT: [usize; 4] = [0, 1, 2, 4];

/// The titles of the columns of text behind the figures: the picture of recent traffic, the fault
/// in force.
const LAST_TITLES: [&str; 2] = ["TRAFFIC", "FAULT"];

/// The width of the picture of the last minute in characters.
const PICTURE: usize = 16;
/// The columns that are left out first if there is not enough room: addresses, kinds, disorder,
/// share of memory, RDMA, process ids, RNR, recent traffic, sends.
const DISPENSABLE: [usize; 12] = [2, 1, 16, 15, 14, 11, 9, 10, 3, 13, 17, 5];

/// Returns a heading and a line per device, in lines of `width`.
pub(super) fn lines(rates: &Rates, history: &History, width: usize) -> Vec<String> {
    let titles = TITLES.into_iter().chain(COLUMNS.iter().map(|column| column.title));
    let titles = titles.chain(LAST_TITLES);
    let mut table = vec![titles.map(str::to_owned).collect::<Vec<_>>()];
    table.extend(rates.rows.iter().map(|row| cells(row, history)));
    let left: Vec<usize> = LEFT.into_iter().chain(TITLES.len() + COLUMNS.len()..).take(6).collect();
    let mut lines = columns(&table, &left, &DISPENSABLE, width);
    if rates.rows.is_empty() {
        lines.push("no device is in use; start a program with: softefa run -- PROGRAM".to_owned());
    }
    lines
}

fn cells(row: &DeviceRates, history: &History) -> Vec<String> {
    let DeviceRates { device, adapter, addr, pid, program, .. } = row;
    let kind = adapter.name().to_owned();
    let texts = [device.clone(), kind, addr.to_string(), pid.to_string(), program.clone()];
    let figures = COLUMNS.iter().map(|column| figure((column.value)(row)));
    let fault = if row.fault.is_empty() { "-".to_owned() } else { row.fault.clone() };
    let picture = history.picture(row.key(), PICTURE, |activity| activity.carried);
    texts.into_iter().chain(figures).chain([picture, fault]).collect()
}

/// Formats rows of cells as lines of at most `width` characters: it leaves out dispensable columns,
/// in this order, and cuts the lines if that is not enough. Columns in `left` are aligned to the
/// left.
pub(super) fn columns(
    table: &[Vec<String>],
    left: &[usize],
    dispensable: &[usize],
    width: usize,
) -> Vec<String> {
    let widest = |at: usize| table.iter().map(|cells| cells[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table[0].len()).map(widest).collect();
    let mut shown: Vec<usize> = (0..widths.len()).collect();
    let mut dispensable = dispensable.iter();
    while shown.iter().map(|at| widths[*at] + 2).sum::<usize>() > width.saturating_add(2) {
        let Some(dropped) = dispensable.next() else { break };
        shown.retain(|at| at != dropped);
    }
    let cell = |cells: &[String], at: usize| {
        let (text, width) = (&cells[at], widths[at]);
        if left.contains(&at) { format!("{text:<width$}") } else { format!("{text:>width$}") }
    };
    let line = |cells: &Vec<String>| {
        let cells: Vec<String> = shown.iter().map(|at| cell(cells, *at)).collect();
        let line = cells.join("  ");
        line.trim_end().chars().take(width).collect()
    };
    table.iter().map(line).collect()
}

/// Formats a figure in at most seven characters up to 10^10.
pub(super) fn figure(value: f64) -> String {
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
    fn columns_go_in_their_order_and_lines_are_never_too_long() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = [row(["NAME", "A", "B"]), row(["x", "12", "345"])];
        let at = |width| columns(&table, &[0], &[2, 1], width);
        assert_eq!(at(80), ["NAME   A    B", "x     12  345"]);
        assert_eq!(at(12), ["NAME   A", "x     12"]);
        assert_eq!(at(7), ["NAME", "x"]);
        assert_eq!(at(2), ["NA", "x"]);
    }

    #[test]
    fn nothing_to_see_says_what_to_do() {
        let lines = lines(&Rates::default(), &History::default(), 80);
        assert!(lines[1].contains("softefa run"), "{lines:?}");
    }
}
