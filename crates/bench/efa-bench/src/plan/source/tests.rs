//! Tests of reading plans, and of the errors in them.

use super::*;

fn words(text: &str) -> Vec<String> {
    let source = read("test", text).expect("a plan");
    let WorkSource::Benchmark(_, variants) = &source.steps[0].work else { panic!("{source:?}") };
    variants.iter().map(|v| v.words().join(" ")).collect()
}

#[test]
fn keys_are_options_and_arrays_are_runs() {
    let text = "[defaults]\nduration = 0.5\nblocks = 3\n\
        [[step]]\nbenchmark = 'batch'\nsizes = [64, 4096]\nthreads = [1, 2]\n\
        post_list = 4\nvalidate = true\nblocks = 5\n";
    assert_eq!(
        words(text),
        [
            "--blocks 5 --duration 0.5 --post-list 4 --sizes 64,4096 --threads 1 --validate",
            "--blocks 5 --duration 0.5 --post-list 4 --sizes 64,4096 --threads 2 --validate"
        ]
    );
    assert_eq!(words("[[step]]\nbenchmark = 'kv'\nsizes = '1..8'"), ["--sizes 1..8"]);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_is_allowed() {
    for (text, words) in [
        ("", &["test:1", "no step"][..]),
        ("a = ", &["test:1"]),
        ("\nsteps = 1", &["test:2", "`steps`", "`defaults`, `fabric`, `step`"]),
        ("[[step]]\nsizes = 1", &["test:1", "benchmark"]),
        ("[[step]]\nbenchmark = 'lattency'", &["test:2", "lattency", "ping_pong"]),
        ("[[step]]\nbenchmark = 'latency'\nsize = 1", &["test:3", "`size`", "sizes", "depth"]),
        ("[[step]]\nbenchmark = 'latency'\njson = 'x'", &["test:3", "`json`"]),
        ("[[step]]\nbenchmark = 'latency'\nsizes = true", &["test:3", "sizes"]),
        ("[[step]]\nbenchmark = 'latency'\nvalidate = 1", &["test:3", "validate", "boolean"]),
        ("[[step]]\nbenchmark = 'latency'\nsizes = []", &["test:3", "array"]),
        ("[[fabric]]\nfabric = 'shm'", &["test:2", "libfabric:shm"]),
        ("[[fabric]]\nfabric = 'tcp'\non = 'docker'", &["test:3", "softefa"]),
        (
            "[[fabric]]\nfabric = 'libfabric:efa'\non = 'softefa'\nwire = 'tcp'",
            &["test:4", "`tcp`", "`auto`, `udp`, `shm`"],
        ),
        ("[[fabric]]\nfabric = 'tcp'\nwire = 'udp'", &["test:3", "wire", "softefa"]),
        ("[[fabric]]\nfabric = 'tcp'\nonly_by_name = 'x'", &["test:3", "only_by_name", "boolean"]),
        ("[defaults]\nthreads = [1, 2]\n[[step]]", &["test:1", "defaults"]),
        ("step = 1", &["test:1", "step = 1"]),
        ("[step]\nbenchmark = 'latency'", &["test:1", "`[step]`", "two brackets"]),
        ("\n[[step]]\ntool = 'x'", &["test:2", "missing field `package`"]),
        ("[[step]]\nmpi = 'bcast'\nbenchmark = 'latency'", &["test:3", "`benchmark`", "ranks"]),
        ("x = '\u{1b}[2J'", &["test:1", "`x = '\u{fffd}[2J'`"]),
        ("rounds = 0", &["test:1", "rounds", "1 to 100"]),
    ] {
        let error = read("test", text).expect_err(text).to_string();
        for word in words {
            assert!(error.contains(word), "no {word:?} in {error:?}");
        }
    }
}

#[test]
fn a_long_line_is_shown_in_part_and_controls_nothing() {
    let long = format!("[[step]]\nbenchmark = 'latency'\nsizes = {}", "\u{9b}é".repeat(9000));
    let error = read("test", &long).expect_err("no value").to_string();
    assert!(error.contains("`sizes = ") && error.contains("...`: "), "{error}");
    assert!(error.len() < 400 && !error.contains(char::is_control), "{error:?}");
}
