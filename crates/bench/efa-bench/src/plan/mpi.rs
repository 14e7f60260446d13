//! Steps that measure MPI on a fabric, by `efa-bench mpi` in a process of its own.

use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::wire::Wire;

use super::fabric::{Fabric, Start};
use super::source::Options;
use super::task::{self, Task, Work};
use crate::cli::{Cli, Command};
use crate::mpi::{MpiArgs, Test, name_of};
use crate::softefa_device::in_path;

/// The programs that must be installed, and the Debian packages that bring them.
const PROGRAMS: [(&str, &str); 2] = [("mpicc", "libopenmpi-dev"), ("mpirun", "openmpi-bin")];
/// The estimated time to compile the program, in seconds.
const COMPILE_S: f64 = 2.0;
/// The estimated time to start ranks, in seconds.
const START_S: f64 = 1.5;

/// A measurement of MPI, for `efa-bench mpi`.
#[derive(Debug)]
pub(super) struct MpiWork {
    /// All words after `efa-bench`.
    pub(super) words: Vec<String>,
    /// The number of points times that of blocks.
    pub(super) measurements: usize,
    pub(super) points: usize,
}

/// Returns the task of a step on a fabric.
pub(super) fn task(
    test: Test,
    options: &Options,
    fabric: &Fabric,
    scale: f64,
) -> Result<Task, Failure> {
    let mut options = options.clone();
    if scale != 1.0 {
        let (duration, warmup) = understood(test, &options, fabric)?.times_s();
        task::set_times(&mut options, duration * scale, warmup * scale);
    }
    let arguments = understood(test, &options, fabric)?;
    let (measurements, starts) = arguments.measurements()?;
    let (duration, warmup) = arguments.times_s();
    let words = words(test, &options, fabric)?;
    let shown: Vec<String> = words.iter().map(|word| report::shell_word(word)).collect();
    let estimate_s = COMPILE_S
        + START_S * starts as f64
        + measurements as f64 * (duration + warmup + task::BLOCK_S);
    let points = arguments.points()?;
    let work = Work::Mpi(MpiWork { words, measurements, points });
    let title = format!("MPI {} on {}", test.name(), fabric.name);
    Ok(Task::new(work, estimate_s, format!("efa-bench {}", shown.join(" ")), title))
}

/// Returns the command line of a test on a fabric.
fn words(test: Test, options: &Options, fabric: &Fabric) -> Result<Vec<String>, Failure> {
    let on = match (&fabric.start, &fabric.fabric) {
        (Start::Softefa(softefa), FabricName::Libfabric(_) | FabricName::Ucx(_))
            if softefa.fault.is_none() && softefa.mtu.is_none() =>
        {
            let device = format!("--softefa={}", softefa.program.display());
            let on = ["--fabric".to_owned(), name_of(&fabric.fabric)];
            [vec![device], on.into(), Wire::words(softefa.wire)].concat()
        }
        (Start::Plain, FabricName::Libfabric(_) | FabricName::Ucx(_) | FabricName::Tcp) => {
            vec!["--fabric".to_owned(), name_of(&fabric.fabric)]
        }
        _ => {
            return Err(Failure::Usage(format!(
                "MPI does not run on {} as this plan starts it: name fabrics for this step, \
                 libfabric:PROVIDER, ucx:TRANSPORT or tcp",
                fabric.name
            )));
        }
    };
    let name = ["--name".to_owned(), format!("MPI on {}", fabric.name)];
    Ok([vec!["mpi".to_owned(), test.name()], on, options.words(), name.into()].concat())
}

fn understood(test: Test, options: &Options, fabric: &Fabric) -> Result<MpiArgs, Failure> {
    let words = words(test, options, fabric)?;
    let all = std::iter::once("efa-bench".into()).chain(words.into_iter().map(Into::into));
    let parsed = Cli::parse_words(all.collect());
    match parsed.map_err(|error| task::refusal(&error))?.command {
        Command::Mpi(arguments) => Ok(arguments),
        _ => Err(Failure::Check("`mpi` was taken for another command".to_owned())),
    }
}

/// Returns why MPI cannot be measured here, and what to do.
pub(super) fn missing() -> Option<String> {
    let (program, package) = PROGRAMS.iter().find(|(program, _)| in_path(program).is_none())?;
    Some(format!("{program} is not installed: apt-get install {package} brings it"))
}
