//! Comma-separated values (RFC 4180).

/// Returns one line of CSV with its end, cells quoted where they must be.
#[must_use]
pub fn csv_line<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| quoted(cell.as_ref())).collect();
    cells.join(",") + "\n"
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_split_a_cell_is_quoted() {
        assert_eq!(csv_line(&["a", "b,c", "d\"e", "", "f\ng"]), "a,\"b,c\",\"d\"\"e\",,\"f\ng\"\n");
    }
}
