//! The experiments.

mod deaths;
mod dip;
mod links;
mod long;
mod middlebox;
mod shortages;
mod soak;
mod spine;
mod stopped;
mod traffic;

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use crate::output::eprint_line;
use crate::record::Record;
pub(crate) use shortages::remove_stale_groups;

/// The settings of an experiment.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) is_short: bool,
    pub(crate) seed: u64,
    pub(crate) softefa: PathBuf,
}

impl Context {
    /// Logs that a case begins.
    pub(crate) fn log_case(&self, case: &str) {
        eprint_line!("         {case} ...");
    }

    /// Returns one of two values, by the form of the run.
    pub(crate) fn pick<T>(&self, short: T, long: T) -> T {
        if self.is_short { short } else { long }
    }
}

/// The reason why an experiment did not try anything.
#[derive(Debug)]
pub(crate) struct NotTried(pub(crate) String);

impl fmt::Display for NotTried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not tried: {}", self.0)
    }
}

impl Error for NotTried {}

/// One experiment.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The method and the criterion, for the document.
    pub(crate) about: &'static str,
    /// It makes namespaces, which needs root.
    pub(crate) needs_root: bool,
    /// [`NotTried`] is among its errors.
    pub(crate) run: fn(&Context) -> Result<Vec<Record>>,
}

/// All experiments, in the order in which they run.
pub(crate) const ALL: &[Experiment] = &[
    Experiment {
        name: "spine",
        what: "a spine's link goes down under traffic; SRD beside TCP",
        about: "Eight hosts (network namespaces) stand under two leaves and four spines. The kernel routes \
                with a hash over ports (ECMP); each host has 30 Mbit/s (120 with an MTU of 9000). Four pairs \
                with real-time priority send across, over one queue pair or one TCP connection each. Then \
                the link from a spine to the receivers' leaf goes down, and the far leaf learns of it a \
                second later. A dip begins with the first 10 ms whose goodput is less than 85 % of the usual \
                goodput before the fault. It ends when the next 10 ms and the next 100 ms reach that share \
                again. A dip of SRD may last 20 ms. Time in which a processor did not run does not count; a \
                thread with a higher priority on each processor watches for such time. A try is not judged \
                if flows also stall for longer without a fault. The receivers check every byte and number.",
        needs_root: true,
        run: spine::run,
    },
    Experiment {
        name: "links",
        what: "a link loses 5 %, is 10 times slower, flaps",
        about: "The network is the same. The switch loses packets one by one. The slow link has a tenth of \
                its rate. The flapping link is down for 100 ms and up for 100 ms, and the routes do not \
                follow.",
        needs_root: true,
        run: links::run,
    },
    Experiment {
        name: "middle",
        what: "a NAT or a firewall in between",
        about: "Two hosts are connected by a box that forwards. A queue pair receives at one UDP port (16384 \
                to 65535) and sends from others (below 16384). Devices name each other by their addresses, \
                so an answer does not come from the address and port to which the request went. Therefore \
                SRD passes neither a translation of addresses nor a firewall that admits only answers: every \
                operation of the user ends with status 15 (vendor_err) after 8 s. Open UDP ports 16384 to \
                65535 in both directions.",
        needs_root: true,
        run: middlebox::run,
    },
    Experiment {
        name: "deaths",
        what: "an end is killed at a random moment under SEND, READ, WRITE",
        about: "Two processes send to each other, and one of them is killed (SIGKILL) within 150 ms. The \
                operations that the survivor had under way must end within 10 s with status 9, 13 or 15. \
                Neither process may leave anything behind: descriptors of the survivor, /dev/shm, abstract \
                sockets, files.",
        needs_root: true,
        run: deaths::run,
    },
    Experiment {
        name: "stopped",
        what: "an end is stopped for 5 and 30 s and goes on",
        about: "One end gets SIGSTOP, and later SIGCONT, under traffic in both directions. A peer is given \
                up after 8 s of silence (status 13). So a shorter stop must have no effect on either \
                program, and after a longer one the stopped end must serve a new peer.",
        needs_root: false,
        run: stopped::run,
    },
    Experiment {
        name: "shortages",
        what: "disk, descriptors, memory, processes, system calls, /tmp, /dev/shm are missing",
        about: "`softefa run -- ib_send_lat -c SRD` (unmodified) is the client of a server that lacks \
                nothing. The client works, or it ends with an exit code and a line that gives the reason. It \
                never hangs, panics or crashes.",
        needs_root: true,
        run: shortages::run,
    },
    Experiment {
        name: "soak",
        what: "full rate while objects come and go: nothing grows",
        about: "Two processes send to each other as fast as they can. Every 2 ms they make, use and destroy \
                a queue pair, a region and an address handle. After the first 45 s (a receiver remembers \
                silent peers for 30 s) resident memory may grow by 4 MiB, descriptors by 8, and threads by \
                1.",
        needs_root: false,
        run: soak::run,
    },
    Experiment {
        name: "engine",
        what: "the engine's random simulation",
        about: "Two engines run in virtual time under random operations and a random network. Oracles check \
                that every message arrives once and that everything ends. Figures add up over runs.",
        needs_root: false,
        run: long::engine,
    },
    Experiment {
        name: "fuzz",
        what: "the fuzzers",
        about: "libFuzzer runs with coverage on every parser of foreign data (datagrams, sealed datagrams, \
                rings in shared memory, scenarios, plans, output of other tools) and on two engines. Figures \
                add up over runs.",
        needs_root: false,
        run: long::fuzz,
    },
];
