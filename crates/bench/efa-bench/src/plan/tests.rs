use super::task::Work;
use super::*;
use crate::cli::{Cli, Command};
use bench_record::spec::Benchmark;
use bench_record::wire::Wire;
use bench_record::{Bandwidth, Distribution, Latency, Method, Point, Run};
use bench_report::figures;
use clap::Parser;

fn tasks(name: &str) -> Vec<Task> {
    let plan = library::find(name).expect(name);
    let source = source::read(name, &plan.text).expect(name);
    let fabrics = fabric::all(&source.fabrics, &PlanArgs::for_tests()).expect(name);
    task::all(&source, &fabrics, 1.0).expect(name)
}

#[test]
fn built_in_plans_keep_their_time() {
    for (name, at_most_s) in [("quick", 110.0), ("paper", 1_300.0), ("dbms", 1_400.0)] {
        let seconds = budget::total_s(tasks(name).iter());
        assert!(seconds < at_most_s, "{name}: {seconds} s");
    }
}

#[test]
fn a_small_scale_leaves_ramps_long_enough() {
    let plan = library::find("dbms").expect("dbms");
    let source = source::read("dbms", &plan.text).expect("a plan");
    let fabrics = fabric::all(&source.fabrics, &PlanArgs::for_tests()).expect("fabrics");
    let tasks = task::all(&source, &fabrics, *SCALES.start()).expect("tasks");
    let ramps = tasks.iter().filter(|task| task.command.contains("--ramp"));
    assert!(
        ramps.clone().count() >= 4
            && ramps.clone().all(|own| own.command.contains("--duration 0.02"))
    );
}

/// Returns the tasks of a text on these fabrics, without starting anything.
fn tasks_of(text: &str) -> Result<Vec<Task>, Failure> {
    let source = source::read("test", text)?;
    let fabrics = fabric::all(&source.fabrics, &PlanArgs::for_tests())?;
    task::all(&source, &fabrics, 0.5)
}

const FABRICS: &str = "[[fabric]]\nfabric = 'libfabric:efa'\nname = 'EFA'\non = 'softefa'\n\
    [[fabric]]\nfabric = 'tcp'\n[[fabric]]\nfabric = 'verbs:srd'\nname = 'lossy'\n\
    on = 'softefa'\nfault = 'loss=1%'\n[defaults]\nblocks = 3\nvalidate = true\nduration = 0.4\n";

#[test]
fn mpi_is_a_step_on_what_it_runs_on() {
    let text =
        "[[step]]\nmpi = 'bandwidth'\nsizes = [8, 64]\ndepth = 16\nfabrics = ['EFA', 'tcp']\n";
    let tasks = tasks_of(&format!("{FABRICS}{text}")).expect("tasks");
    let titles: Vec<&str> = tasks.iter().map(|task| task.title.as_str()).collect();
    assert_eq!(titles, ["MPI bandwidth on EFA", "MPI bandwidth on TCP sockets"]);
    let (efa, tcp) = (&tasks[0].command, &tasks[1].command);
    assert!(efa.starts_with("efa-bench mpi bandwidth --softefa="), "{efa}");
    assert!(efa.contains("--blocks 3 --depth 16 --duration 0.2 --sizes 8,64 --validate"), "{efa}");
    assert!(tcp.contains("--fabric mpi:tcp") && tcp.contains("'MPI on TCP sockets'"), "{tcp}");
    for (step, words) in [
        ("mpi = 'bandwith'", "write one of latency, bandwidth, bidirectional, allgather"),
        ("mpi = 'bcast'\nrate = 5\nfabrics = 'tcp'", "`rate` is no key of a step: write mpi"),
        ("mpi = 'bcast'\nsizes = 'x'\nfabrics = 'tcp'", "--sizes"),
        ("mpi = 'bcast'\nfabrics = 'lossy'", "MPI does not run on lossy"),
    ] {
        let error = tasks_of(&format!("{FABRICS}[[step]]\n{step}\n")).expect_err(step).to_string();
        assert!(error.contains("plan test:") && error.contains(words), "{error}");
    }
}

/// UCX is for MPI alone, and its reliable connections need a RoCE device.
#[test]
fn ranks_run_on_transports_of_ucx() {
    let fabric = "[[fabric]]\nfabric = 'ucx:rc_v'\nname = 'RC'\non = 'softefa'\nwire = 'udp'\n";
    let tasks = tasks_of(&format!("{fabric}[[step]]\nmpi = 'nas-is'\n")).expect("tasks");
    let command = &tasks[0].command;
    assert!(command.contains("--fabric ucx:rc_v --wire udp"), "{command}");
    let wrong = tasks_of(&format!("{fabric}[[step]]\nbenchmark = 'latency'\n"));
    let error = wrong.expect_err("no backend").to_string();
    assert!(error.contains("only an MPI runs on ucx:rc_v"), "{error}");
    let rc = "[[fabric]]\nfabric = 'verbs:rc'\non = 'softefa'\n";
    for (key, words) in [
        (format!("{rc}mtu = 1500\n"), "write one of 256, 512, 1024, 2048, 4096"),
        (format!("{rc}mtu = '1024'\n"), "write one of 256"),
        (rc.replace("on = 'softefa'", "mtu = 1024"), "it is for on = \"softefa\""),
        (rc.replace("verbs:rc", "verbs:srd") + "mtu = 1024\n", "it is for fabric = \"verbs:rc\""),
    ] {
        let error = tasks_of(&format!("{key}[[step]]\nbenchmark = 'latency'\n"));
        let error = error.expect_err(&key).to_string();
        assert!(error.contains("plan test:") && error.contains(words), "{error}");
    }
    let narrow = format!("{rc}mtu = 1024\n[[step]]\nbenchmark = 'latency'\nsizes = 8\n");
    let command = &tasks_of(&narrow).expect("tasks")[0].command;
    assert!(command.contains("profile=roce,mtu=1024"), "{command}");
}

#[test]
fn the_wire_is_named_on_every_command_line() {
    let text = "[[fabric]]\nfabric = 'libfabric:efa'\nname = 'memory'\non = 'softefa'\nwire = 'shm'\n\
        [[fabric]]\nfabric = 'libfabric:efa'\nname = 'UDP'\non = 'softefa'\nwire = 'udp'\n\
        only_by_name = true\n[[step]]\nmpi = 'barrier'\nfabrics = ['memory', 'UDP']\n\
        [[step]]\nbenchmark = 'latency'\nsizes = 8\n\
        [[step]]\ntool = 'fi_pingpong'\npackage = 'libfabric-bin'\nname = 'fi'\n\
        client = 'fi_pingpong'\niterations = 1000\nseconds = 1\nfabrics = 'UDP'\n";
    let tasks = tasks_of(text).expect("tasks");
    let titles: Vec<&str> = tasks.iter().map(|task| task.title.as_str()).collect();
    let expected =
        ["MPI barrier on memory", "MPI barrier on UDP", "latency on memory", "fi_pingpong on UDP"];
    assert_eq!(titles, expected);
    for (task, words) in tasks.iter().zip(["--wire shm", "--wire udp", "--wire shm", "--wire udp"])
    {
        assert!(task.command.contains(words), "no {words}: {}", task.command);
    }
}

/// Published figures are of adapters on a network.
#[test]
fn built_in_plans_name_the_wire_of_each_fabric_of_soft_efa() {
    for (name, text) in library::BUILT_IN {
        let source = source::read(name, text).expect(name);
        let own = source.fabrics.iter().filter(|fabric| fabric.on == source::Runner::Softefa);
        let wires: Vec<Option<Wire>> = own
            .map(|fabric| {
                let is = |word: &str| fabric.name.contains(word);
                let named = [(is("memory"), Wire::Shm), (is("UDP"), Wire::Udp)];
                let wire = named.into_iter().find(|(is_it, _)| *is_it).map(|(_, wire)| wire);
                assert!(wire.is_some() && wire == fabric.wire, "{name}: {fabric:?}");
                wire
            })
            .collect();
        // Two tools agree on one wire as on the other.
        for wire in [Wire::Shm, Wire::Udp].into_iter().filter(|_| name != "agree") {
            assert!(wires.contains(&Some(wire)), "{name} has no {wire:?}: {wires:?}");
        }
    }
}

#[test]
fn what_goes_wrong_on_purpose_is_for_steps_that_name_it() {
    let text = "[[step]]\nbenchmark = 'latency'\nsizes = 8\nfabrics = ['verbs:*', 'lossy']\n";
    let tasks = tasks_of(&format!("{FABRICS}{text}")).expect("tasks");
    let [task] = &tasks[..] else { panic!("{tasks:?}") };
    assert!(task.command.contains("run --fault loss=1% -- efa-bench local"), "{}", task.command);
    assert!(
        tasks_of(&format!("{FABRICS}[[step]]\nbenchmark = 'latency'\n")).expect("tasks").len() == 2
    );
    let same = "[[fabric]]\nfabric = 'tcp'\n".repeat(2);
    let error = tasks_of(&format!("{same}[[step]]\nbenchmark = 'latency'\n"));
    assert!(error.expect_err("refused").to_string().contains("called `TCP sockets`"));
    let error =
        tasks_of("[[fabric]]\nfabric = 'tcp'\nfault = 'loss=1%'\n[[step]]\nmpi = 'bcast'\n");
    assert!(error.expect_err("refused").to_string().contains("test:3: fault"));
}

/// Returns what a task would find, with figures that mean nothing.
fn found(task: &Task) -> Option<Run> {
    let Work::Benchmark(work) = &task.work else { return None };
    let name = work.benchmark.text();
    let mut words = vec!["efa-bench", "run", &name, "--host", "h"];
    words.extend(work.words.iter().map(String::as_str));
    let Command::Run { measure, .. } = Cli::try_parse_from(words).expect("a command").command
    else {
        panic!("another command");
    };
    let request = measure.request(work.benchmark, work.nodes).expect("a request");
    let job = request.job;
    let latency = Latency { distribution: Some(Distribution::default()), ..Latency::default() };
    let stream = Some(Bandwidth::new(1, 1, 1.0));
    let is_loaded = job.benchmark == Benchmark::SatLatency;
    let has_latency = is_loaded || job.benchmark == Benchmark::Latency;
    let point = |size_bytes, depth| Point {
        latency: has_latency.then_some(latency),
        bandwidth: stream.filter(|_| !has_latency),
        load: stream.filter(|_| is_loaded),
        ..Point::new(size_bytes, depth)
    };
    let pairs =
        request.sizes.iter().flat_map(|size| request.depths.iter().map(move |d| (*size, *d)));
    let points = pairs.map(|(size, depth)| point(size, depth)).collect();
    Some(Run {
        endpoint: job.endpoint,
        operation: job.operation,
        method: Method {
            flow: job.flow,
            threads: job.threads,
            endpoints: job.endpoints,
            memory_bytes: job.memory_bytes,
            load_size_bytes: job.load_size_bytes,
            ..Method::default()
        },
        ..Run::new(&task.title, job.benchmark, points)
    })
}

#[test]
fn the_paper_plan_has_a_point_for_every_plot_of_every_figure() {
    let runs: Vec<Run> = tasks("paper").iter().filter_map(found).collect();
    let sections = figures::sections(&runs, None);
    assert!(sections.len() > 30, "{}", sections.len());
    for section in &sections {
        assert!(!section.text[0].starts_with("Not measured"), "{}", section.title);
    }
    let without: Vec<Run> =
        runs.into_iter().filter(|run| run.benchmark != Benchmark::SatLatency).collect();
    let missing = figures::sections(&without, None);
    assert!(missing.iter().any(|section| section.text[0].starts_with("Not measured")));
}

/// Arrays multiply, so that a short text could ask for more memory than there is.
#[test]
fn a_plan_of_too_many_measurements_is_refused() {
    let fabric = "[[fabric]]\nfabric = 'tcp'\n[[step]]\nbenchmark = 'latency'\nsizes = 64\n";
    let array = |key: &str| format!("{key} = [{}]\n", "1, ".repeat(11));
    let text = format!("{fabric}{}", ["blocks", "duration", "warmup"].map(array).concat());
    let error = tasks_of(&text).map(|all| all.len()).expect_err("1331 of a step").to_string();
    assert!(error.contains("test:8") && error.contains("1331"), "{error}");
    let step = format!("[[step]]\nbenchmark = 'latency'\n{}", array("blocks"));
    let tasks = tasks_of(&format!("{fabric}{}", step.repeat(200)));
    let error = tasks.map(|all| all.len()).expect_err("2201 of all").to_string();
    assert!(error.contains("at most 2000"), "{error}");
}
