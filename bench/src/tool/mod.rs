//! Unmodified benchmark programs, run as server and client on this machine.

mod c_program;
mod efa_bench;
mod mpi;
mod pair;
mod perftest;
mod pingpong;
mod places;
mod read_bw;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use efa_bench::{EfaBench, tcp_gbit_per_s};
pub(crate) use mpi::mpi_half_round_trip_us;
pub(crate) use perftest::{latency_us, stream};
pub(crate) use pingpong::half_round_trip_us;
pub(crate) use places::{Places, two_cpus};
pub(crate) use read_bw::read_gbit_per_s;

/// The programs of this project under test.
#[derive(Debug)]
pub(crate) struct Tools {
    /// The `softefa` command.
    softefa: PathBuf,
    /// Where servers and clients run.
    places: Places,
}

impl Tools {
    /// Those beside the `softefa` command; they run wherever the kernel puts them.
    pub(crate) fn beside(softefa: &Path) -> Self {
        Self { softefa: softefa.to_path_buf(), places: Places::default() }
    }

    /// The same, but servers and clients run at `places`.
    pub(crate) fn at(&self, places: &Places) -> Self {
        Self { softefa: self.softefa.clone(), places: places.clone() }
    }

    /// `efa-bench`, built beside `softefa`.
    fn efa_bench(&self) -> String {
        let folder = self.softefa.parent().unwrap_or_else(|| Path::new("."));
        folder.join("efa-bench").to_string_lossy().into_owned()
    }

    /// `words` as a server's command line, on the software device when `on_device`.
    fn server(&self, on_device: bool, words: &[String]) -> Vec<OsString> {
        self.command(on_device, &[&self.places.server, words].concat())
    }

    /// `words` as a client's.
    fn client(&self, on_device: bool, words: &[String]) -> Vec<OsString> {
        self.command(on_device, &[&self.places.client, words].concat())
    }

    /// `words` as a command line, on the software device when `on_device`.
    fn command(&self, on_device: bool, words: &[String]) -> Vec<OsString> {
        if on_device {
            return self.command_with(&[], words);
        }
        words.iter().map(OsString::from).collect()
    }

    /// `words` as a command line, on the software device with `options`.
    fn command_with(&self, options: &[&str], words: &[String]) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec![self.softefa.clone().into(), "run".into()];
        line.extend(options.iter().map(OsString::from));
        line.push("--".into());
        line.extend(words.iter().map(OsString::from));
        line
    }
}
