//! The C program, compiled with MPI's own compiler.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench_record::failure::{Failure, plain};
use tempfile::TempDir;

/// The files of the program: first a header, then what is compiled.
const SOURCES: [(&str, &str); 6] = [
    ("mpi_bench.h", include_str!("../../c/mpi/mpi_bench.h")),
    ("mpi_bench.c", include_str!("../../c/mpi/mpi_bench.c")),
    ("measure.c", include_str!("../../c/mpi/measure.c")),
    ("point_to_point.c", include_str!("../../c/mpi/point_to_point.c")),
    ("collectives.c", include_str!("../../c/mpi/collectives.c")),
    ("nas.c", include_str!("../../c/mpi/nas.c")),
];

/// The compiled program in a folder of its own, which is removed with it.
pub(super) struct Built {
    folder: TempDir,
    program: PathBuf,
}

impl Built {
    /// Compiles below `work_dir`, or in the system's place for temporary files.
    pub(super) fn new(mpicc: &Path, work_dir: Option<&Path>) -> Result<Self, Failure> {
        let below = work_dir.map_or_else(std::env::temp_dir, Path::to_owned);
        let unwritable = |path: &Path, error: &std::io::Error| Failure::Output {
            path: path.display().to_string(),
            reason: plain(error),
        };
        let folder = tempfile::Builder::new().prefix("efa-bench-mpi-").tempdir_in(&below);
        let folder = folder.map_err(|error| unwritable(&below, &error))?;
        let program = folder.path().join("mpi_bench");
        for (name, text) in SOURCES {
            let source = folder.path().join(name);
            std::fs::write(&source, text).map_err(|error| unwritable(&source, &error))?;
        }
        let compiled = SOURCES[1..].iter().map(|(name, _)| folder.path().join(name));
        let output = Command::new(mpicc)
            .args(["-O2", "-std=c11", "-o"])
            .arg(&program)
            .args(compiled)
            .arg("-lm")
            .output()
            .map_err(|error| missing(mpicc, &error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let first =
                said.lines().find(|line| line.contains("error")).or_else(|| said.lines().next());
            return Err(Failure::Fabric(format!(
                "{} does not compile a program of MPI: {}",
                mpicc.display(),
                first.unwrap_or("it gave no reason").trim()
            )));
        }
        Ok(Self { folder, program })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the path of a file beside the program.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn missing(mpicc: &Path, error: &std::io::Error) -> Failure {
    let name = mpicc.display();
    Failure::Fabric(match error.kind() {
        ErrorKind::NotFound => format!(
            "no compiler {name}: install an MPI (libopenmpi-dev and openmpi-bin on Debian, Ubuntu) or \
             name its compiler with --mpicc"
        ),
        _ => format!("cannot start {name}: {}", plain(error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_names_the_package() {
        let error = Built::new(Path::new("mpicc-of-nobody"), None).err().expect("no compiler");
        let text = error.to_string();
        assert!(text.contains("mpicc-of-nobody") && text.contains("libopenmpi-dev"), "{text}");
        assert_eq!(error.exit_code(), 3);
    }

    #[test]
    fn a_compiler_that_knows_no_mpi_is_one_line() {
        let error = Built::new(Path::new("cc"), None).err().expect("no mpi.h");
        let text = error.to_string();
        assert!(text.contains("mpi.h") && text.lines().count() == 1, "{text}");
    }
}
