//! The tutorials of the book, run as they are written, in a scratch folder.
//!
//! A page is a list of blocks ([`page`]). Each command runs in a shell as a reader would run it,
//! and its output must keep what the page promises ([`promise`]).
#![expect(clippy::unwrap_used, reason = "a step that fails must fail the test")]

mod demos;
#[path = "../harness/mod.rs"]
mod harness;
mod page;
mod promise;
mod terminal;

use std::path::Path;

use harness::{efa_bench, exclusive, has, netsim};
use page::{Block, Page};
use terminal::{Server, Terminal};

/// Runs a page if the programs that it needs are installed.
fn run(page: &str, programs: &[&str], env: &[(&str, &str)]) {
    let _one = exclusive();
    if !programs.iter().all(|program| has(program)) {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(page);
    let blocks = Page::read(&path).unwrap().blocks;
    assert!(blocks.len() > 1, "{page} has no commands");
    let terminal = Terminal::new(env);
    let mut server: Option<(Server, &Block)> = None;
    for block in &blocks {
        if let Some(port) = block.server_port {
            server = Some((terminal.serve(&block.commands[0], port), block));
            continue;
        }
        for command in &block.commands {
            block.check(page, command, &terminal.run(&command.text));
        }
        if let Some((server, block)) = server.take() {
            block.check(page, &block.commands[0], &server.wait());
        }
    }
    assert!(server.is_none(), "{page}: the last server has no client");
}

#[test]
fn readme() {
    run("README.md", &["ibv_devices", "ib_send_lat"], &[]);
}

#[test]
fn first_device() {
    run(
        "docs/start/first-device.md",
        &["ibv_devinfo", "ib_send_lat", "fi_info", "fi_pingpong"],
        &[],
    );
}

#[test]
fn test_with_faults() {
    run("docs/start/test-with-faults.md", &["ib_send_lat", "fi_pingpong", "python3"], &[]);
}

#[test]
fn live_faults() {
    run("docs/start/live-faults.md", &["ib_send_bw", "python3"], &[]);
}

/// The page names what root must add; the test may run as root, on two cores.
#[test]
fn mpi_and_ucx() {
    let env = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
    run("docs/start/mpi-and-ucx.md", &["mpicc", "mpirun", "python3"], &env);
}

#[test]
fn choose_a_network() {
    efa_bench();
    netsim();
    run("docs/start/choose-a-network.md", &[], &[("SECONDS_PER_POINT", "0.02")]);
}

/// This variable makes the runs few and short, as the page says.
#[test]
fn srd_paper() {
    netsim();
    run("docs/start/srd-paper.md", &["ib_send_bw"], &[("PAPER_OPTIONS", "--quick")]);
}
