//! The interface between a workload and the rest of the engine: one type for both sides of the
//! workload, the endpoints that they open, and the figures of a point.

use bench_record::Point;
use bench_record::failure::Failure;
use bench_record::spec::{Benchmark, JobSpec, Operation, PointSpec};

use crate::backend::{Backend, Wants};
use crate::bench::Outcome;
use crate::exchange::Control;
use crate::lane::{self, Part, Port, Side, Task};
use crate::lanes::Lanes;
use crate::link::Link;
use crate::server;
use crate::session::{BenchSession, Coordinates};

/// One lane of a workload, on either side, with its state between the points of a session.
///
/// All methods are called on a known type, so that the loops in `run` are compiled once for each
/// fabric.
pub(crate) trait Workload: Sized {
    /// The length of the shortest message, or of the shortest value in one, in bytes.
    const LEAST_BYTES: usize = 1;
    /// True if the depth of a point is that of the client's sends.
    const SENDS_DEPTH: bool = true;

    /// Returns the numbers of sends and of receives that may be in flight on each endpoint.
    fn depths(job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        // A reply may come before the request is known to have left, and a request before the
        // reply's receive is posted again: twice as many slots as outstanding calls are needed.
        let depth = twice(job);
        (depth, job.rx_depth.max(depth))
    }

    /// Returns the length of the longest message of a point, or of the longest part of memory that
    /// is READ, in bytes.
    fn message_bytes(_job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        size_bytes
    }

    /// Returns the length of the memory for one-sided operations of the peer in bytes. Both sides
    /// ask for some, though the client's is not used.
    fn window_bytes(_job: &JobSpec, _side: Side) -> usize {
        0
    }

    /// Returns the reason why a point is not possible, beyond the reasons that hold for all
    /// workloads; `rx_depth`: the number of receives that servers have.
    fn refusal(_size_bytes: usize, _parameter: usize, _rx_depth: usize) -> Option<String> {
        None
    }

    /// Returns true if the operations of this client's thread belong to the course of a point.
    fn has_course(_thread: usize) -> bool {
        true
    }

    /// Returns a lane's view of a point.
    fn own(_task: &Task, point: PointSpec) -> PointSpec {
        point
    }

    /// Makes a lane that has measured nothing yet.
    fn new(task: &Task) -> Result<Self, Failure>;

    /// Begins a point.
    fn begin<B: Backend>(
        &mut self,
        _links: &mut [Link<B>],
        _point: PointSpec,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs a lane's part of a point.
    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome;

    /// Runs the server's part of a point, beside its lanes.
    fn serve(lanes: &Lanes, control: &mut Control) -> Result<(), Failure> {
        server::count_stream(lanes, control, 0)
    }

    /// Concludes a point at the client, whose lanes are under way.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        session.calls(point)
    }
}

/// Returns twice the number of operations that may be outstanding.
pub(super) fn twice(job: &JobSpec) -> usize {
    job.tx_depth.max(1).saturating_mul(2)
}

/// The functions of a workload, for callers that only know its name. None of them is called while
/// something is measured.
pub(crate) struct Functions {
    pub(crate) wants: fn(&JobSpec, Side, usize) -> Wants,
    pub(crate) lane: fn(&Task, &mut Port) -> Result<(), Failure>,
    pub(crate) has_course: fn(usize) -> bool,
    pub(crate) least_bytes: usize,
    pub(crate) refusal: fn(&BenchSession, Operation, Coordinates) -> Option<String>,
    pub(crate) serve: fn(&Lanes, &mut Control) -> Result<(), Failure>,
    pub(crate) conclude: fn(&mut BenchSession, PointSpec) -> Result<Point, Failure>,
}

impl Functions {
    const fn of_type<W: Workload>() -> Self {
        Self {
            wants: lane::wants::<W>,
            lane: lane::run_on_fabric::<W>,
            has_course: W::has_course,
            least_bytes: W::LEAST_BYTES,
            refusal: BenchSession::refusal_of::<W>,
            serve: W::serve,
            conclude: W::conclude,
        }
    }
}

macro_rules! dispatch {
    ($($(#[$about:meta])* $folder:ident::$name:ident,)*) => {
        impl Functions {
            /// Returns the functions of a benchmark.
            pub(crate) const fn of(benchmark: Benchmark) -> &'static Self {
                match benchmark {
                    $(Benchmark::$name => &const { Self::of_type::<super::$folder::$name>() },)*
                }
            }
        }
    };
}

bench_record::workloads!(dispatch);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use bench_record::spec::Flow;
    use bench_record::workload::{
        Ack, Algorithm, CollectiveSpec, Commit, LogSpec, OwnSpec, Pattern, WorkSpec,
    };

    use super::*;
    use crate::stream_job::stream_job;

    macro_rules! folders {
        ($($(#[$about:meta])* $folder:ident::$name:ident,)*) => {
            /// The rooms in the list.
            const LISTED: &[&str] = &[$(stringify!($folder)),*];
        };
    }

    bench_record::workloads!(folders);

    /// Returns the names of the files and folders of a crate that hold a room.
    fn rooms(crates: &Path, place: &str, sign: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(crates.join(place)).expect("a folder").map(Result::unwrap);
        let paths = entries.map(|entry| entry.path()).filter(|path| {
            let file = if path.is_dir() { path.join("mod.rs") } else { path.clone() };
            fs::read_to_string(file).is_ok_and(|text| text.contains(sign))
        });
        paths.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_list_names_all_rooms_of_both_crates() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let listed: BTreeSet<String> = LISTED.iter().map(|&own| own.to_owned()).collect();
        assert_eq!(
            rooms(&crates, "bench-record/src/workload", "\npub(super) const ABOUT: "),
            listed
        );
        let mut engine = rooms(&crates, "bench-engine/src/workload", "\nimpl Workload for ");
        engine.extend(rooms(&crates, "bench-engine/src/bench", "\nimpl Workload for "));
        // The workload kv has the engine of rpc.
        assert!(engine.insert("kv".to_owned()));
        assert_eq!(engine, listed);
    }

    #[test]
    fn whatever_a_client_asks_for_is_opened_or_refused() {
        let log = LogSpec { group: usize::MAX, commit: Commit::All, ack: Ack::Message };
        let collective = CollectiveSpec { pattern: Pattern::Allgather, algorithm: Algorithm::Ring };
        let of = |own| WorkSpec {
            request_bytes: usize::MAX,
            parameter_max: usize::MAX,
            own,
            ..WorkSpec::NONE
        };
        let flow = Flow { complete_every: 2, ..Flow::default() };
        for benchmark in Benchmark::ALL {
            let own = match benchmark {
                Benchmark::Log => OwnSpec::Log(log),
                Benchmark::Collective => OwnSpec::Collective(collective),
                _ => OwnSpec::Nothing,
            };
            let job = JobSpec {
                benchmark: *benchmark,
                work: of(own),
                flow,
                max_size_bytes: usize::MAX,
                memory_bytes: usize::MAX,
                ..stream_job(usize::MAX)
            };
            for side in [Side::Client, Side::Server] {
                let wants = (Functions::of(*benchmark).wants)(&job, side, 0);
                let refusal = lane::affordable(&wants).expect_err(benchmark.name()).to_string();
                assert!(refusal.contains("ask for less"), "{refusal}");
            }
        }
        let usual = (Functions::of(Benchmark::Bandwidth).wants)(&stream_job(256), Side::Client, 0);
        assert!(lane::affordable(&usual).is_ok());
    }
}
