//! The counters of Soft-EFA's device, which show whether traffic has gone through it.

use std::path::{Path, PathBuf};

use bench_record::failure::Failure;
use bench_record::{DeviceCounters, Point, Run};

/// Returns the number of messages that a run is known to have sent.
pub(super) fn messages(run: &Run) -> u64 {
    let of_point = |p: &Point| {
        p.latency.and_then(|l| l.round_trips).unwrap_or(0)
            + p.bandwidth.and_then(|b| b.messages).unwrap_or(0)
    };
    run.points.iter().map(of_point).sum()
}

/// Reads what `softefa run --counters` wrote.
pub(super) fn read(path: &Path) -> Result<DeviceCounters, Failure> {
    let failed = |reason: String| Failure::Check(format!("no device counters ({reason})"));
    let bytes = std::fs::read(path).map_err(|e| failed(bench_record::failure::plain(&e)))?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))?;
    let counters = value.get("counters").and_then(serde_json::Value::as_object);
    let counters = counters.ok_or_else(|| failed("the file has none".to_owned()))?;
    Ok(counters.iter().filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect())
}

/// Checks that the traffic went through the device, not beside it.
pub(super) fn check(side: &str, counters: &DeviceCounters, messages: u64) -> Result<(), Failure> {
    let get = |name: &str| counters.get(name).copied().unwrap_or(0);
    let (tx, rx) = (get("tx_pkts"), get("rx_pkts"));
    // Several short messages share a packet, and the target of READs and WRITEs has only packets.
    let posted = get("send_wrs") + get("rdma_read_wrs") + get("rdma_write_wrs");
    let received = get("recv_wrs");
    // Either direction counts: the client of a file or of an incast receives.
    let carried = tx.max(rx).max(posted).max(received);
    if tx == 0 || rx == 0 || carried < messages {
        return Err(Failure::Check(format!(
            "the {side}'s device sent {tx} and received {rx} packets, for {posted} work requests and \
             {received} receives, where {messages} messages were measured: the traffic did not go \
             through Soft-EFA"
        )));
    }
    Ok(())
}

/// Checks both sides of a tool, which counts for itself what it sends. A server that goes on for
/// ever is ended, and then writes nothing.
pub(super) fn check_both([server, client]: &[PathBuf; 2]) -> Result<(), Failure> {
    if server.exists() {
        check("server", &read(server)?, 0)?;
    }
    check("client", &read(client)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_beside_the_device_is_noticed() {
        let counters = |tx: u64, rx: u64| {
            DeviceCounters::from([("tx_pkts".to_owned(), tx), ("rx_pkts".to_owned(), rx)])
        };
        assert!(check("client", &counters(10, 1), 10).is_ok());
        assert!(check("client", &counters(9, 1), 10).is_err());
        assert!(check("client", &counters(10, 0), 0).is_err());
        assert!(check("client", &DeviceCounters::new(), 0).is_err());
        for name in ["send_wrs", "recv_wrs", "rdma_read_wrs", "rdma_write_wrs"] {
            let mut shared = counters(2, 1);
            shared.insert(name.to_owned(), 10);
            assert!(check("client", &shared, 10).is_ok(), "{name}: several share a packet");
            assert!(check("client", &shared, 11).is_err(), "{name}");
        }
    }
}
