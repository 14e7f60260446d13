//! Unmodified benchmark programs, run as server and client on this machine.

mod c_program;
mod cmtime;
mod efa_bench;
mod mpi;
mod pair;
mod perftest;
mod pingpong;
mod places;
mod read_bw;
mod wire;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use cmtime::connections_per_s;
pub(crate) use efa_bench::{EfaBench, TCP, tcp_gbit_per_s};
pub(crate) use mpi::{mpi_gbit_per_s, mpi_half_round_trip_us};
pub(crate) use perftest::Perftest;
pub(crate) use pingpong::half_round_trip_us;
pub(crate) use places::{Places, two_cpus};
pub(crate) use read_bw::read_gbit_per_s;
pub(crate) use wire::Wire;

/// The software device that programs run on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Device {
    /// As everybody gets it: without a word.
    #[default]
    Efa,
    /// One at the loopback address, where its peer is.
    Roce,
}

impl Device {
    /// Options of `softefa run`.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Efa => &[],
            Self::Roce => &["--device", "roce0=127.0.0.1,profile=roce"],
        }
    }
}

/// The programs of this project under test.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    /// The `softefa` command.
    softefa: PathBuf,
    device: Device,
    /// What messages of the software device go over.
    wire: Wire,
    /// Where servers and clients run.
    places: Places,
}

impl Tools {
    /// Those beside the `softefa` command; they run wherever the kernel puts them, over the default
    /// wire.
    pub(crate) fn beside(softefa: &Path) -> Self {
        let (device, wire, places) = (Device::Efa, Wire::Auto, Places::default());
        Self { softefa: softefa.to_path_buf(), device, wire, places }
    }

    /// The same, but servers and clients run at `places`.
    pub(crate) fn at(&self, places: &Places) -> Self {
        Self { places: places.clone(), ..self.clone() }
    }

    /// The same over another wire.
    pub(crate) fn over(&self, wire: Wire) -> Self {
        Self { wire, ..self.clone() }
    }

    /// The same on another device.
    fn on(&self, device: Device) -> Self {
        Self { device, ..self.clone() }
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
        let mut line: Vec<OsString> = Vec::new();
        if on_device {
            line.extend([self.softefa.clone().into(), "run".into()]);
            let options = self.device.options().iter().chain(self.wire.options());
            line.extend(options.map(OsString::from));
            line.push("--".into());
        }
        line.extend(words.iter().map(OsString::from));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_over_the_wire_that_is_asked_for() {
        let tools = Tools::beside(Path::new("/bin/softefa"));
        let words = ["fi_info".to_owned()];
        let line = |tools: &Tools, on_device| {
            let line = tools.command(on_device, &words);
            line.join(std::ffi::OsStr::new(" ")).into_string().expect("UTF-8")
        };
        assert_eq!(line(&tools, true), "/bin/softefa run -- fi_info");
        let udp = tools.over(Wire::Udp);
        assert_eq!(line(&udp, true), "/bin/softefa run --wire udp -- fi_info");
        assert_eq!(line(&udp, false), "fi_info");
        let device = "/bin/softefa run --device roce0=127.0.0.1,profile=roce --wire udp -- fi_info";
        assert_eq!(line(&udp.on(Device::Roce), true), device);
        let placed = udp.at(&Places::new(Some(&[3, 5]), false));
        let words = placed.client(true, &words).join(std::ffi::OsStr::new(" "));
        assert_eq!(words, "/bin/softefa run --wire udp -- taskset -c 5 fi_info");
    }
}
