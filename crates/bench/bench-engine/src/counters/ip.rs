//! Counters of the kernel's IP, TCP and UDP in this network namespace (RFC 4293, RFC 4022, RFC
//! 4113; `/proc/net/snmp` and `/proc/net/netstat`).

use bench_record::counted::Counts;

/// The counters that tell something about a measurement.
const NAMES: [&str; 11] = [
    "Ip.InReceives",
    "Ip.OutRequests",
    "IpExt.InOctets",
    "IpExt.OutOctets",
    "Tcp.InSegs",
    "Tcp.OutSegs",
    "Tcp.RetransSegs",
    "TcpExt.TCPTimeouts",
    "Udp.InDatagrams",
    "Udp.OutDatagrams",
    "Udp.RcvbufErrors",
];

/// Reads all counters in [`NAMES`] that this kernel has.
pub(super) fn read() -> Counts {
    let mut counts = Counts::new();
    for table in ["/proc/self/net/snmp", "/proc/self/net/netstat"] {
        counts.extend(parse(&std::fs::read_to_string(table).unwrap_or_default()));
    }
    counts
}

/// Parses a table: each group is a line of names and a line of values, both behind the title of the
/// group.
fn parse(table: &str) -> Counts {
    let mut counts = Counts::new();
    let lines: Vec<&str> = table.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (Some((title, names)), Some((again, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        if title != again {
            continue;
        }
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            let name = format!("{title}.{name}");
            if let (true, Ok(count)) = (NAMES.contains(&name.as_str()), value.parse()) {
                counts.insert(name, count);
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_paired() {
        let table = "Ip: Forwarding DefaultTTL InReceives\nIp: 1 64 900\n\
                     Tcp: MaxConn RetransSegs\nTcp: -1 12\nUdp: InDatagrams\nOdd: 5\n";
        let wanted = [("Ip.InReceives", 900), ("Tcp.RetransSegs", 12)];
        let wanted = wanted.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(parse(table), Counts::from(wanted));
    }

    #[test]
    fn this_kernel_counts() {
        let before = read();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let _stream = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
        let after = read();
        assert!(after["Tcp.OutSegs"] > before["Tcp.OutSegs"], "{before:?} {after:?}");
        assert!(after.contains_key("IpExt.OutOctets"), "{after:?}");
    }
}
