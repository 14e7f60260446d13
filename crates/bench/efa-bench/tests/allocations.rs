//! No allocation in a timed loop, neither of the program nor of the libraries below it: ten times
//! the messages take as many allocations.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Ended, alone, command};

/// The greatest difference in allocations that is no allocation per message: thousands of messages
/// more would make more. What libraries keep for messages that wait grows when a machine is busy.
const TOLERANCE: i64 = 200;

/// Compiles the counter.
fn counter(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/allocations.c");
    let library = folder.join("allocations.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .status()
        .unwrap_or_else(|e| panic!("cannot start the C compiler {compiler}: {e}"));
    assert!(status.success(), "the counter does not compile");
    library
}

/// Returns the allocations of both sides of a measurement together.
fn allocations(library: &Path, line: &str, iterations: &str) -> i64 {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("tempdir");
    let mut command = command(format!("local {line} -n {iterations} -q --no-host-checks"));
    command.env("LD_PRELOAD", library).env("ALLOCATIONS", folder.path().join("count"));
    Ended::of(&mut command).assert_done();
    let files = std::fs::read_dir(folder.path()).expect("folder");
    let counts: Vec<i64> = files
        .map(|file| std::fs::read_to_string(file.expect("entry").path()).expect("a count"))
        .map(|text| text.trim().parse().expect("a number"))
        .collect();
    assert!(counts.len() >= 2, "a client and its servers");
    counts.iter().sum()
}

#[test]
fn timed_loops_do_not_allocate() {
    let folder = tempfile::tempdir().expect("tempdir");
    let library = counter(folder.path());
    for (line, few, many) in [
        ("latency --fabric tcp -s 64", "200", "2000"),
        ("latency --fabric udp -s 64", "200", "2000"),
        ("latency -p shm -s 64 --validate", "200", "2000"),
        ("bandwidth --fabric tcp -s 64 -d 64", "1000", "30000"),
        ("bandwidth -p shm -s 64 -d 64 --order kept", "1000", "30000"),
        ("batch --fabric tcp -s 64 -d 64 --post-list 8", "1000", "30000"),
        ("batch_large_buffer -p shm -s 64 -d 64 --memory 1M", "1000", "30000"),
        ("rma_batch -p shm -s 64 -d 64", "1000", "30000"),
        ("atomics -p shm -d 64", "1000", "30000"),
        ("rpc --fabric tcp -d 16 --keys 100", "1000", "30000"),
        ("index -p shm -d 16 --way hybrid", "1000", "30000"),
        ("fileget --fabric tcp -s 100000 --chunk 800 --from sendfile", "10", "100"),
        ("piggyback --fabric tcp -d 16 --records 8 --validate", "1000", "30000"),
        ("kv -p shm -d 16 --keys 100 --zipf 0.9 --validate", "1000", "30000"),
        ("2pc --fabric tcp -d 8 -s 64 --locks --keys 64", "1000", "20000"),
        ("allreduce --fabric tcp -s 10000 --chunk 4K", "100", "3000"),
        ("incast --fabric tcp -s 64K -d 8 --chunk 4K", "40", "2000"),
        ("shuffle --fabric tcp -d 8 -s 64 --buffer 1K", "10000", "200000"),
        ("log --fabric tcp -d 8 -s 64 --group 4", "1000", "30000"),
        ("log -p shm -d 8 -s 64 --nodes 2 --validate", "1000", "30000"),
    ] {
        let (few_made, many_made) =
            (allocations(&library, line, few), allocations(&library, line, many));
        assert!(few_made > 100, "{line}: the counter counts nothing");
        let more = many_made - few_made;
        assert!(
            more < TOLERANCE,
            "{line}: {few} iterations made {few_made} allocations, {many} made {many_made}"
        );
    }
}
