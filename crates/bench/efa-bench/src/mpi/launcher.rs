//! The command that starts the ranks, and the words by which each MPI is told what to run on.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use bench_record::fabric_name::FabricName;
use bench_record::failure::{Failure, plain};

/// The family of a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    OpenMpi,
    /// MPICH and its derivatives.
    Hydra,
    /// Slurm's srun and others: the MPI library is told by its own variables.
    Other,
}

/// A launcher that was found.
#[derive(Debug)]
pub(super) struct Launcher {
    words: Vec<String>,
    family: Family,
    /// The version, in the words of the launcher.
    pub(super) version: String,
    way: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Launcher {
    /// Asks the command for its version, which tells its family.
    pub(super) fn find(command: &str, fabric: Option<FabricName>) -> Result<Self, Failure> {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let Some(first) = words.first() else {
            return Err(Failure::Usage(
                "--mpirun is empty: name the command that starts ranks".to_owned(),
            ));
        };
        let output = Command::new(first).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| missing(first, &error))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut this = Self::of(words, &said);
        this.choose(fabric)?;
        Ok(this)
    }

    fn of(words: Vec<String>, said: &str) -> Self {
        let family = if said.contains("Open MPI") || said.contains("OpenRTE") {
            Family::OpenMpi
        } else if said.contains("HYDRA") || said.contains("Intel(R) MPI") {
            Family::Hydra
        } else {
            Family::Other
        };
        let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
        let version = lines().find(|line| line.starts_with("Version:")).or_else(|| lines().next());
        let version = match (family, version) {
            (Family::Hydra, Some(line)) => {
                format!("HYDRA {}", line.trim_start_matches("Version:").trim())
            }
            (_, Some(line)) => line.to_owned(),
            (_, None) => words.join(" "),
        };
        Self { words, family, version, way: Vec::new(), environment: Vec::new() }
    }

    /// Sets what MPI is to run on.
    fn choose(&mut self, fabric: Option<FabricName>) -> Result<(), Failure> {
        let way = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        match (self.family, fabric) {
            (_, None) => {}
            (Family::OpenMpi, Some(FabricName::Libfabric(provider))) => {
                self.way = way("--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include");
                self.way.push(provider);
            }
            (Family::OpenMpi, Some(FabricName::Ucx(transport))) => {
                self.way = way("--mca pml ucx --mca osc ucx --mca pml_ucx_tls any");
                self.way.extend(way("--mca pml_ucx_devices any -x"));
                self.way.push(format!("UCX_TLS={transport},self"));
            }
            (Family::OpenMpi, Some(FabricName::Tcp)) => {
                self.way = way("--mca pml ob1 --mca btl tcp,self");
            }
            (Family::Hydra, Some(FabricName::Libfabric(provider))) => {
                self.environment = vec![
                    ("MPIR_CVAR_CH4_NETMOD", "ofi".to_owned()),
                    // Otherwise, ranks of one machine use its memory.
                    ("MPIR_CVAR_NOLOCAL", "1".to_owned()),
                    ("FI_PROVIDER", provider),
                ];
            }
            (Family::Hydra, Some(FabricName::Ucx(transport))) => {
                self.environment = vec![
                    ("MPIR_CVAR_CH4_NETMOD", "ucx".to_owned()),
                    ("MPIR_CVAR_NOLOCAL", "1".to_owned()),
                    ("UCX_TLS", format!("{transport},self")),
                ];
            }
            (Family::OpenMpi | Family::Hydra, Some(fabric)) => {
                return Err(Failure::Usage(format!(
                    "{} does not run on {fabric}: give libfabric:PROVIDER or ucx:TRANSPORT (Open MPI: \
                     mpi:tcp, too)",
                    self.version
                )));
            }
            (Family::Other, Some(_)) => {
                return Err(Failure::Usage(format!(
                    "{} is neither Open MPI's nor MPICH's launcher: tell the library what to run on \
                     by its own variables, without --fabric",
                    self.words[0]
                )));
            }
        }
        Ok(())
    }

    pub(super) fn environment(&self) -> &[(&'static str, String)] {
        &self.environment
    }

    /// Returns the whole command line for `ranks` ranks of `program`.
    pub(super) fn words(&self, ranks: usize, more: &str, program: &Path) -> Vec<String> {
        let mut words = self.words.clone();
        if self.family == Family::OpenMpi {
            words.push("--oversubscribe".to_owned());
            if rustix::process::getuid().is_root() {
                words.push("--allow-run-as-root".to_owned());
            }
        }
        words.extend(self.way.iter().cloned());
        words.extend(more.split_whitespace().map(str::to_owned));
        words.extend(["-n".to_owned(), ranks.to_string(), program.display().to_string()]);
        words
    }
}

fn missing(command: &str, error: &std::io::Error) -> Failure {
    Failure::Fabric(match error.kind() {
        ErrorKind::NotFound => format!(
            "no {command}: install an MPI (openmpi-bin on Debian, Ubuntu) or name the command that \
             starts ranks with --mpirun"
        ),
        _ => format!("cannot start {command}: {}", plain(error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(said: &str) -> Launcher {
        Launcher::of(vec!["start".to_owned()], said)
    }

    #[test]
    fn each_family_is_told_in_its_own_words() {
        let efa = || Some(FabricName::Libfabric("efa".to_owned()));
        let mut open = launcher("mpirun (Open MPI) 4.1.4\n\nReport bugs to");
        open.choose(efa()).expect("possible");
        assert_eq!(open.version, "mpirun (Open MPI) 4.1.4");
        let words = open.words(4, "-H a,b", Path::new("/p")).join(" ");
        assert!(words.contains("mtl_ofi_provider_include efa -H a,b -n 4 /p"), "{words}");
        let mut hydra = launcher("HYDRA build details:\n    Version:   4.0.2\n");
        hydra.choose(efa()).expect("possible");
        assert_eq!(hydra.version, "HYDRA 4.0.2");
        assert_eq!(hydra.words(2, "", Path::new("/p")), ["start", "-n", "2", "/p"]);
        assert!(hydra.environment().contains(&("FI_PROVIDER", "efa".to_owned())));
        let slurm = launcher("slurm-wlm 22.05.8");
        assert_eq!(slurm.words(2, "", Path::new("/p")), ["start", "-n", "2", "/p"]);
    }

    #[test]
    fn what_an_mpi_cannot_run_on_is_refused() {
        let udp = || Some(FabricName::Udp);
        for said in ["mpirun (Open MPI) 4.1.4", "HYDRA", "slurm"] {
            assert!(launcher(said).choose(udp()).is_err(), "{said}");
        }
        let error = Launcher::find("mpirun-of-nobody", None).unwrap_err().to_string();
        assert!(error.contains("openmpi-bin"), "{error}");
    }
}
