//! A session for unit tests.

use bench_record::fabric_name::FabricName;
use bench_record::spec::{Arrivals, Benchmark, EndpointKind, Flow, JobSpec, Operation};
use bench_record::workload::WorkSpec;

/// Returns the job that `efa-bench local bandwidth --fabric tcp -s 64 -d DEPTH` opens.
pub(crate) fn stream_job(depth: usize) -> JobSpec {
    JobSpec {
        benchmark: Benchmark::Bandwidth,
        nodes: 2,
        node: 0,
        crowded: false,
        fabric: FabricName::Tcp,
        domain: None,
        endpoint: EndpointKind::Rdm,
        operation: Operation::Send,
        flow: Flow::default(),
        arrivals: Arrivals::Poisson,
        load_size_bytes: 0,
        work: WorkSpec::NONE,
        max_size_bytes: 64,
        memory_bytes: 0,
        seed: 1,
        threads: 1,
        endpoints: 1,
        tx_depth: depth,
        rx_depth: depth,
        timeout_ms: 10_000,
        server_cpus: Vec::new(),
        server_numa: None,
    }
}
