//! Jobs and ports for unit tests.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bench_record::fabric_name::FabricName;
use bench_record::spec::{Arrivals, Benchmark, EndpointKind, Flow, JobSpec, Operation};
use bench_record::workload::WorkSpec;

use crate::exchange::Signals;
use crate::lane::{Command, Port};

/// Returns a port that works alone, a job of datagrams, and the other end of the control
/// connection, which must stay open.
pub(crate) fn datagrams_alone() -> (Port, JobSpec, TcpStream) {
    alone(Command::Sent(0))
}

/// Returns a port that works alone and was told one command in advance, a job of datagrams, and the
/// other end of the control connection, which must stay open.
pub(crate) fn alone(command: Command) -> (Port, JobSpec, TcpStream) {
    patient_for(Duration::from_secs(10), command)
}

/// Returns the same as `alone`, with this timeout.
pub(crate) fn patient_for(timeout: Duration, command: Command) -> (Port, JobSpec, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let ours = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
    let (theirs, _) = listener.accept().expect("accept");
    let job = JobSpec { endpoint: EndpointKind::Dgram, ..stream_job(8) };
    let signals = Signals::over(ours, timeout);
    (Port::alone(signals, &job, command), job, theirs)
}

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
