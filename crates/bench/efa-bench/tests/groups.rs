//! Workloads of several nodes with real processes: nothing is lost, and a node that fails is named.

use crate::common::{
    assert_fails, efa_bench, kill_a_server_of, on_soft_efa, on_soft_efa_with, points_of,
    with_counters,
};

const RECORDS: u64 = 2_000;
/// The number of records that are made: a tenth more, for warming up.
const RECORDS_MADE: u64 = 2_200;
const CALLS_MADE: u64 = 2_200;
const DEPTH: u64 = 4;

fn number(point: &serde_json::Value, name: &str) -> f64 {
    point["work"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {point}"))
}

#[test]
fn a_log_reaches_every_replica_whatever_its_manner() {
    for (nodes, manner) in [
        ("2", "-d 16"),
        ("3", "-d 1,16 --group 8 --threads 2"),
        ("5", "-d 4 --group 7 --commit majority"),
        ("3", "-d 8 --group 64 --rate 1000000"),
        ("3", "-d 8 --post-list 4 --commit majority"),
    ] {
        let all =
            format!("log --nodes {nodes} --fabric tcp -s 8,1000 {manner} -n 2000 --validate -q");
        let found = points_of(&all);
        assert!(found.len() >= 2, "{all:?}: {found:?}");
        for point in &found {
            let made = point["validated"].as_u64().expect("a count");
            assert!(made >= RECORDS_MADE, "{all:?}: {point}");
            let calls = number(point, "calls");
            assert!(calls > 0.0 && calls <= made as f64, "{all:?}: {point}");
            assert!(number(point, "server_cpu_ns") > 0.0, "{all:?}: {point}");
            assert_eq!(point["work"]["actions"][0]["name"], "record");
            // TCP keeps the order.
            assert_eq!(point["disorder"]["overtaken"], 0, "{all:?}: {point}");
        }
    }
}

#[test]
fn each_group_is_a_message_and_an_answer_for_every_replica() {
    let log = "log --nodes 4 --fabric tcp -s 100 -d 4 -n 6400";
    let point = &points_of(format!("{log} --group 16 -q"))[0];
    let messages = number(point, "messages_per_call");
    // Three replicas; what is on its way when the window opens or closes makes a small difference.
    assert!((messages / (2.0 * 3.0 / 16.0) - 1.0).abs() < 0.1, "{point}");
    let bytes = number(point, "bytes_per_call");
    let whole = 3.0 * (12.0 + 8.0 + 1600.0 + 12.0) / 16.0;
    assert!((bytes / whole - 1.0).abs() < 0.1, "{bytes} instead of {whole}");
}

#[test]
fn logs_are_shipped_over_shared_memory_and_soft_efa() {
    let few = "-s 128 -d 4,16 -n 2000 --validate -q";
    let shm = points_of(format!("log --nodes 3 -p shm --group 8 {few}"));
    assert!(shm.iter().all(|point| point["validated"].as_u64() >= Some(RECORDS_MADE)), "{shm:?}");
    for (fabric, ack) in
        [("verbs:srd", "message"), ("verbs:srd", "completion"), ("libfabric:efa", "completion")]
    {
        let log = format!("log --nodes 3 --fabric {fabric} --ack {ack}");
        let (output, packets) = on_soft_efa(format!("{log} {few}"));
        let points = output.points();
        assert_eq!(points.len(), 2, "{fabric} {ack}");
        for point in &points {
            assert!(point["validated"].as_u64() >= Some(RECORDS_MADE), "{fabric} {ack}: {point}");
        }
        // A group of one for each of two replicas.
        assert!(packets >= 2 * 2 * RECORDS, "{fabric} {ack}: {packets} packets");
    }
}

fn calls(point: &serde_json::Value, name: &str) -> u64 {
    let actions = point["work"]["actions"].as_array().expect("actions");
    let own = actions.iter().filter(|own| own["name"] == name);
    own.filter_map(|own| own["calls"].as_u64()).sum()
}

#[test]
fn transactions_are_committed_everywhere_or_nowhere() {
    for (nodes, manner) in [
        ("2", "-d 8"),
        ("4", "-d 8 --post-list 2"),
        ("3", "-d 16 --threads 2"),
        ("3", "-d 16 --rate 1000000"),
    ] {
        let all =
            format!("2pc --nodes {nodes} --fabric tcp -s 8,64 {manner} -n 2000 --validate -q");
        let found = points_of(&all);
        assert!(found.len() >= 2, "{all:?}: {found:?}");
        for point in &found {
            // Without locks no participant votes no, and the server has checked its count of
            // commits.
            let all_calls = number(point, "calls");
            assert!(
                all_calls > 0.0 && calls(point, "commit") as f64 == all_calls,
                "{all:?}: {point}"
            );
            assert!(number(point, "server_cpu_ns") > 0.0, "{all:?}: {point}");
        }
    }
    // Four messages for each participant; what is on its way at the ends makes a small difference.
    let few = "2pc --nodes 4 --fabric tcp -s 64 -d 4 -n 4000 -q";
    let messages = number(&points_of(few)[0], "messages_per_call");
    assert!((messages / 12.0 - 1.0).abs() < 0.1, "{messages} messages for a transaction");
}

#[test]
fn transactions_that_want_the_same_rows_are_aborted() {
    let few = "2pc --nodes 3 --fabric tcp -s 64 -d 16 -n 4000 -q";
    let point = &points_of(format!("{few} --locks --keys 16 --validate"))[0];
    let (commits, aborts) = (calls(point, "commit"), calls(point, "abort"));
    assert!(commits > 0 && aborts > 0, "{point}");
    // Alone, a transaction finds no row locked.
    let few = "2pc --nodes 3 --fabric tcp -s 64 -d 1 -n 500 -q";
    let point = &points_of(format!("{few} --locks --keys 1"))[0];
    assert_eq!((calls(point, "commit") > 0, calls(point, "abort")), (true, 0), "{point}");
}

#[test]
fn transactions_run_over_shared_memory_and_soft_efa() {
    let few = "--nodes 3 -s 64 -d 4,16 -n 1000 --validate -q";
    let shm = points_of(format!("2pc -p shm --locks {few}"));
    assert!(shm.iter().all(|point| calls(point, "commit") > 0), "{shm:?}");
    let (output, packets) = on_soft_efa(format!("2pc --fabric verbs:srd --locks {few}"));
    assert_eq!(output.points().len(), 2);
    // Two participants, two points.
    assert!(packets >= 8 * 2 * 1000, "{packets} packets");
}

#[test]
fn records_that_the_fabric_damages_or_reorders_are_noticed() {
    let log = "log --nodes 3 --fabric verbs:srd -s 1000 -d 8 -q";
    let (output, _) =
        on_soft_efa_with("--fault corrupt=5%,seed=3", format!("{log} -n 5000 --validate"));
    assert_fails(&output, 9, &["damages data"]);
    let (output, _) = on_soft_efa_with("--fault reorder=10%,seed=7", format!("{log} -n 2000"));
    let disorder = &output.points()[0]["disorder"];
    assert!(disorder["overtaken"].as_u64() > Some(0), "{disorder}");
}

#[test]
fn a_node_that_dies_or_never_comes_is_named() {
    let (mut servers, hosts) = kill_a_server_of("log -s 8,16 -d 4");
    // The other servers serve on; the dead one is named.
    servers[1].child.wait().expect("killed");
    let log = "--fabric tcp -s 8 -d 4 -n 100 -q --no-host-checks";
    let all = hosts.join(",");
    let three = format!("run log -H {all} {log}");
    assert_fails(&efa_bench(&three), 4, &["no server at", &hosts[1]]);
    let others = [hosts[0].as_str(), &hosts[2]].join(",");
    let two = efa_bench(format!("run log -H {others} {log}"));
    two.assert_done();
}

#[test]
fn what_groups_cannot_do_is_refused_in_one_line() {
    for (arguments, words) in [
        ("latency --nodes 3", ["3 nodes", "between two"]),
        ("log --nodes 1", ["1 nodes", "2 to 64"]),
        ("log --nodes 65", ["65 nodes", "2 to 64"]),
        ("rpc --group 2", ["--group", "not for this"]),
        ("log --locks", ["--locks", "not for this"]),
        ("2pc --keys 5G", ["--keys", "at most"]),
        ("2pc --endpoints 2", ["2pc", "--endpoints"]),
        ("log --gets 2", ["--gets", "not for this"]),
        ("log --group 0", ["--group 0", "give 1"]),
        ("log --endpoints 2", ["log", "--endpoints"]),
        ("log --ack completion --fabric tcp", ["kernel", "--ack message"]),
        ("log --fabric udp", ["log", "reliable"]),
        ("incast --fabric udp", ["incast", "reliable"]),
        ("incast --threads 2", ["incast", "--threads"]),
        ("incast --rate 10", ["--rate", "not for this"]),
        ("incast --post-list 2", ["incast", "--post-list"]),
        ("incast --link-gbit 0", ["--link-gbit 0", "give"]),
        ("incast --persistent --interval-ms 0", ["--interval-ms 0", "give 1"]),
        ("incast --interval-ms 5", ["required", "--persistent"]),
        ("incast --persistent", ["--persistent", "--duration"]),
        ("allreduce --threads 2", ["allreduce", "--threads"]),
        ("allreduce -s 6", ["--sizes 6", "multiple"]),
        ("bcast --algorithm ring", ["--algorithm", "allreduce"]),
        ("barrier --chunk 16", ["--chunk", "not for this"]),
        ("bcast --chunk 12", ["--chunk", "multiple of 8"]),
        ("rpc --link-gbit 10", ["--link-gbit", "not for this"]),
        ("log --persistent", ["--persistent", "not for this"]),
    ] {
        let all = format!("local {arguments} -q -n 20");
        assert_fails(&efa_bench(&all), 2, &words);
    }
    let output = efa_bench("run log -H 127.0.0.1,:7 -q");
    assert_fails(&output, 2, &["--host", ":7", "HOST:PORT"]);
}

/// Calls go to every server in turn, and each is answered once.
#[test]
fn calls_are_shared_by_all_servers() {
    for (benchmark, nodes, more) in [
        ("rpc", "2", "--validate"),
        ("rpc", "5", "--validate --threads 2"),
        ("kv", "4", "--gets 50 --validate"),
        ("rpc", "4", "--rate 3000"),
    ] {
        let all = format!("{benchmark} --nodes {nodes} --fabric tcp -s 32 -d 4 -q");
        let points = points_of(format!("{all} -n 2000 --keys 500 {more}"));
        let calls = number(&points[0], "calls");
        assert!(calls > 0.0, "{all:?}: {}", points[0]);
        assert!(number(&points[0], "server_cpu_ns") > 0.0, "{all:?}: {}", points[0]);
    }
    let kv = "kv --nodes 3 --fabric verbs:srd -s 32 -d 4 -q";
    let few = "-n 2000 --keys 500 --validate --no-counters";
    let (output, counters) = with_counters("", format!("{kv} {few}"));
    assert!(number(&output.points()[0], "calls") > 0.0);
    // The client has sent all requests. How many of them a server answers depends on when it runs,
    // and each has answered more than it can have in flight.
    let processes = counters["processes"].as_array().expect("processes");
    let sent = processes.iter().filter_map(|one| one["counters"]["send_wrs"].as_u64());
    let mut sent: Vec<u64> = sent.filter(|messages| *messages > 0).collect();
    sent.sort_unstable();
    let [first, second, client] = sent[..] else { panic!("two servers and a client: {sent:?}") };
    assert!(client >= CALLS_MADE && first > 2 * DEPTH, "{sent:?}");
    assert!(first + second >= CALLS_MADE, "{sent:?}");
}
