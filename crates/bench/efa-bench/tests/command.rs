//! The real program: what it measures, and how it ends when something is wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Server, Words, assert_fails, command, efa_bench, names_in, read_json};
use rustix::process::{Pid, Signal, kill_process};

/// Sessions of a busy machine take a while; nothing here waits this long if all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// Progress that goes to a full disk makes no panic.
#[test]
fn progress_that_cannot_be_written_ends_no_measurement() {
    let line = "local rpc --fabric tcp --keys 100 -d 4 --watch 0.1";
    let mut command = command(format!("{line} -t 0.3 -w 0 --blocks 1 --no-host-checks"));
    command.stdout(Stdio::null()).stderr(full());
    assert!(command.status().expect("efa-bench starts").success());
}

fn full() -> std::fs::File {
    std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full")
}

/// The results are written before the table is printed.
#[test]
fn results_are_whole_though_no_table_can_be_printed() {
    let folder = tempfile::tempdir().expect("tempdir");
    let json = folder.path().join("r.json");
    let line = "local latency --fabric tcp -n 10 -s 8 --no-host-checks --json";
    let mut command = command(line);
    command.arg(&json).stdout(full()).stderr(Stdio::null());
    assert_eq!(command.status().expect("efa-bench starts").code(), Some(10));
    assert_eq!(read_json(&json)["runs"][0]["complete"], true);
}

/// Standard error on a full disk makes no panic.
#[test]
fn a_limit_is_checked_though_nobody_reads_how_it_was_held() {
    let mut command = command("local latency --fabric tcp -n 10 -s 8 -q --no-host-checks");
    command.args(["--assert", "latency p50 < 1ns"]).stdout(Stdio::null()).stderr(full());
    assert_eq!(command.status().expect("efa-bench starts").code(), Some(11));
}

/// A line that cannot be written does not end the server before its first client.
#[test]
fn a_server_serves_though_it_cannot_say_that_it_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port().to_string();
    drop(listener);
    let mut command =
        command(format!("server --bind 127.0.0.1 --port {port} --until-stdin-closes"));
    command.stdin(Stdio::piped()).stdout(full()).stderr(Stdio::piped());
    let child = command.spawn().expect("server starts");
    let mut server = Server { child, port };
    // It says instead that it could not.
    let mut said = String::new();
    let errors = server.child.stderr.take().expect("piped");
    let mut errors = BufReader::new(errors);
    errors.read_line(&mut said).expect("a line");
    assert!(said.contains("cannot say that it listens"), "{said}");
    let output = server.run("latency --fabric tcp -n 10 -s 8");
    output.assert_done();
}

#[test]
fn local_latency_checks_every_message() {
    let folder = tempfile::tempdir().expect("tempdir");
    let json = folder.path().join("l.json");
    let output = efa_bench(format!(
        "local latency -n 200 --sizes 1,8,64,4096 --validate --json {}",
        json.display()
    ));
    output.assert_done();
    let table = output.text();
    assert!(table.contains("p99.9 µs") && table.contains("4096"), "{table}");
    let results = read_json(&json);
    assert_eq!(results["schema"], "efa-bench/2");
    assert!(results["host"]["kernel"].as_str().is_some_and(|k| k.starts_with("Linux")));
    let run = &results["runs"][0];
    assert_eq!(run["complete"], true);
    assert!(run["cold_start_us"].as_f64().is_some_and(|us| us > 0.0));
    assert!(run["fabric"]["text"].as_str().is_some_and(|t| t.contains("FI_EP_RDM")));
    let points = run["points"].as_array().expect("points");
    assert_eq!(points.len(), 4);
    for point in points {
        let latency = &point["latency"];
        assert_eq!(latency["round_trips"], 200);
        // 200 measured, 100 to warm up, 1 to end.
        assert_eq!(point["validated"], 301);
        let spread = &latency["distribution"];
        let value = |name: &str| spread[name].as_f64().expect("a number");
        assert!(value("min_us") > 0.0 && value("min_us") <= value("p50_us"));
        assert!(value("p50_us") <= value("p99_us") && value("p99_us") <= value("max_us"));
    }
}

#[test]
fn local_bandwidth_checks_every_message_and_counts_at_the_receiver() {
    let folder = tempfile::tempdir().expect("tempdir");
    let json = folder.path().join("b.json");
    for operation in ["send", "tagged", "inject"] {
        let output = efa_bench(format!(
            "local bandwidth -t 0.05 -w 0.02 --sizes 16,64 --depth 1,32 --validate --op \
             {operation} --json {} -q",
            json.display()
        ));
        output.assert_done();
        let results = read_json(&json);
        let points = results["runs"][0]["points"].as_array().expect("points").clone();
        assert_eq!(points.len(), 4, "{operation}");
        for point in points {
            let bandwidth = &point["bandwidth"];
            let messages = bandwidth["messages"].as_u64().expect("a count");
            assert!(messages > 0);
            assert!(point["validated"].as_u64().expect("a count") > messages, "{operation}");
            assert_eq!(point["lost"], 0);
            let size = point["size_bytes"].as_f64().expect("size");
            let ratio = bandwidth["mb_per_s"].as_f64().expect("MB/s")
                / bandwidth["mmsg_per_s"].as_f64().expect("M msg/s");
            assert!((ratio - size).abs() < 0.01 * size, "{ratio} bytes per message, not {size}");
        }
    }
}

#[test]
fn one_server_serves_many_clients_and_other_fabrics() {
    let server = Server::start();
    let fabrics = [
        ("libfabric:tcp", "tcp"),
        ("libfabric:shm", "shm"),
        ("libfabric:sockets", "sockets"),
        ("tcp", "TCP sockets"),
    ];
    for (fabric, name) in fabrics {
        let output = server.run(format!(
            "bandwidth --fabric {fabric} -n 500 --sizes 100 -d 16 --validate --csv -"
        ));
        output.assert_done();
        let csv = output.text();
        assert_eq!(csv.lines().count(), 2, "{csv}");
        assert!(csv.lines().nth(1).is_some_and(|l| l.starts_with(name)), "{csv}");
    }
}

#[test]
fn datagrams_are_measured_and_losses_counted() {
    let output = efa_bench("local bandwidth -p udp -e dgram -t 0.05 --sizes 64 -d 64 --json -");
    let results = output.json();
    let point = &results["runs"][0]["points"][0];
    assert!(point["lost"].is_u64() && point["bandwidth"]["messages"].as_u64().is_some());
}

/// Returns a frame of the control protocol.
fn frame(text: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).expect("short").to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

const OTHER_VERSION: &str = r#"{"magic":"efa-bench","protocol":99,"tool":"9.9.9"}"#;

#[test]
fn a_server_of_another_version_is_one_clear_line() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(&frame(OTHER_VERSION)).expect("greeting");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let output = efa_bench(format!("run latency -H 127.0.0.1 --port {port} -q"));
    assert_fails(&output, 5, &["protocol 99", "9.9.9", "same efa-bench"]);
    server.join().expect("server thread");
}

#[test]
fn a_client_of_another_version_or_a_stranger_does_not_stop_the_server() {
    let server = Server::start();
    let address = format!("127.0.0.1:{}", server.port);
    for greeting in [frame(OTHER_VERSION), b"GET / HTTP/1.1\r\n\r\n".to_vec(), frame("{}")] {
        let mut stream = TcpStream::connect(&address).expect("connect");
        stream.write_all(&greeting).expect("greet");
        let mut answer = [0_u8; 64];
        assert!(stream.read(&mut answer).is_ok_and(|n| n > 0), "the server greets");
    }
    let output = server.run("latency -n 10 --sizes 8");
    output.assert_done();
}

/// A socket of IPv4 cannot send to an address in the form of IPv6.
#[test]
fn a_server_of_both_ip_versions_has_clients_of_either() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED, NOT TESTED: no IPv6 here");
        return;
    }
    let server = Server::start_at("::");
    for host in ["127.0.0.1", "::1"] {
        for fabric in ["tcp", "udp"] {
            let line = format!("run latency -H {host} --port {} --fabric {fabric}", server.port);
            let output = efa_bench(format!("{line} -n 10 -s 8 -q --no-host-checks"));
            output.assert_done();
        }
    }
}

#[test]
fn what_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port().to_string();
    drop(listener);
    let output = efa_bench(format!("run latency -H 127.0.0.1 --port {port} -q"));
    assert_fails(&output, 4, &["no server at", "efa-bench server"]);
    let output = efa_bench("local jitter");
    assert_fails(&output, 2, &["jitter", "latency", "bandwidth"]);
    let output = efa_bench("local latency -p warp -q");
    assert_fails(&output, 3, &["warp", "fi_info -l"]);
    let output = efa_bench("local latency --sizes 8..4 -q");
    assert_fails(&output, 2, &["--sizes", "8..4"]);
    let output = efa_bench("local latency -t -1 -q");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_port_in_use_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port().to_string();
    let output = efa_bench(format!("server --bind 127.0.0.1 --port {port}"));
    assert_fails(&output, 6, &[&format!("port {port} is in use"), "--port"]);
}

#[test]
fn a_server_is_named_once() {
    let output = efa_bench("run matrix -H db1,db2:7,db1 --port 9");
    assert_fails(&output, 2, &["db1:9 is named twice"]);
}

#[test]
fn a_silent_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port().to_string();
    let started = Instant::now();
    let output = efa_bench(format!("run latency -H 127.0.0.1 --port {port} --timeout 0.5 -q"));
    assert_fails(&output, 4, &["said nothing for 0.5 s", "another client"]);
    assert!(started.elapsed() < PATIENCE);
}

/// Returns the option for the depth, which a ping-pong does not have.
fn depth_of(benchmark: &str) -> &'static str {
    if benchmark == "bandwidth" { "-d 4" } else { "" }
}

fn run_at(server: &Server, benchmark: &str, manner: &str) -> Command {
    let (port, depth) = (&server.port, depth_of(benchmark));
    let line = format!("run {benchmark} -H 127.0.0.1 --port {port} --sizes 8,16 {depth}");
    let mut command = command(format!("{line} {manner} --no-host-checks"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Starts a client whose first point is short and whose second one never ends by itself; kills the
/// server during the second.
fn measure_until_the_server_dies(benchmark: &str) {
    let folder = tempfile::tempdir().expect("tempdir");
    let json = folder.path().join("partial.json");
    let mut server = Server::start();
    let mut client = run_at(&server, benchmark, "-t 0.4 -w 0.1 --timeout 5 --blocks 1")
        .arg("--json")
        .arg(&json)
        .spawn()
        .expect("client starts");
    let mut lines = BufReader::new(client.stderr.take().expect("piped")).lines();
    let first = lines.next().expect("a progress line").expect("text");
    assert!(first.starts_with("[1/2]"), "{first}");
    // The second point runs now.
    server.child.kill().expect("kill the server");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let status = client.wait().expect("client ends");
    assert_eq!(status.code(), Some(7), "{rest:?}");
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains("went away") || rest[0].contains("failed"), "{rest:?}");
    let results = read_json(&json);
    assert_eq!(results["runs"][0]["complete"], false);
    assert!(results["runs"][0]["error"].is_string());
    assert_eq!(results["runs"][0]["points"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_server_that_dies_ends_the_client_which_keeps_what_it_has() {
    measure_until_the_server_dies("latency");
    measure_until_the_server_dies("bandwidth");
}

#[test]
fn a_client_that_dies_does_not_end_the_server() {
    let server = Server::start();
    for benchmark in ["latency", "bandwidth"] {
        let mut client = run_at(&server, benchmark, "-t 0.2 --timeout 5");
        let mut client = client.spawn().expect("client starts");
        let mut lines = BufReader::new(client.stderr.take().expect("piped")).lines();
        assert!(lines.next().is_some_and(|l| l.is_ok()), "a progress line");
        client.kill().expect("kill the client");
        client.wait().expect("client ends");
    }
    let output = server.run("latency -n 10 --sizes 8 --timeout 30");
    output.assert_done();
}

#[test]
fn a_server_ends_with_its_owner_whatever_its_session_waits_for() {
    let mut server = Server::start();
    let mut client = run_at(&server, "latency", "-t 0.4 --blocks 1 --timeout 600");
    let mut client = client.spawn().expect("client starts");
    let mut lines = BufReader::new(client.stderr.take().expect("piped")).lines();
    assert!(lines.next().is_some_and(|l| l.is_ok()), "a progress line");
    let pid = Pid::from_raw(client.id().try_into().expect("a pid")).expect("not zero");
    kill_process(pid, Signal::STOP).expect("the client waits");
    drop(server.child.stdin.take());
    let deadline = Instant::now() + PATIENCE;
    let ended = loop {
        match server.child.try_wait().expect("a child") {
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            ended => break ended,
        }
    };
    client.kill().expect("kill the client");
    client.wait().expect("client ends");
    assert!(ended.is_some(), "the server goes on");
}

#[test]
fn a_full_disk_is_one_clear_line_and_nothing_is_left() {
    let output = efa_bench("local latency -n 10 --sizes 8 -q --json /dev/full");
    assert_fails(&output, 10, &["/dev/full", "No space left"]);
    let folder = tempfile::tempdir().expect("tempdir");
    let json = folder.path().join("r.json");
    let json_text = json.to_str().expect("utf-8");
    let output = efa_bench(format!("local latency -n 10 --sizes 8 -q --json {json_text}"));
    output.assert_done();
    let output = efa_bench(format!("report {json_text} -o /dev/full"));
    assert_fails(&output, 10, &["/dev/full", "No space left"]);
    assert_eq!(names_in(folder.path()), ["r.json"]);
}

#[test]
fn results_are_compared_and_limits_checked() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let measure = |json: &str, limit: &str| {
        let point = format!("-p tcp -s 64 -n 200 --json {json}");
        efa_bench([&["local", "latency", "-q", "--assert", limit], &point.words()[..]].concat())
    };
    let json = file("a.json");
    let output = measure(&json, "latency/64B p50 < 1000000ms");
    output.assert_done();
    assert_eq!(measure(&file("b.json"), "latency/64B p50 < 1ns").status.code(), Some(11));
    assert!(Path::new(&file("b.json")).exists(), "the result is kept");
    let output = efa_bench(format!("compare {json} {json}"));
    output.assert_done();
    let text = output.text();
    assert!(text.contains("0 improved, 2 the same, 0 regressed"), "{text}");
    // A digit in front: many times as long.
    let mut worse = std::fs::read_to_string(&json).expect("a result");
    let name = "\"p50_us\": ";
    worse.insert(worse.find(name).expect(name) + name.len(), '9');
    std::fs::write(file("worse.json"), worse).expect("write");
    let output = efa_bench(format!("compare {json} {}", file("worse.json")));
    assert_fails(&output, 11, &["1 figures regressed"]);
    let output = efa_bench(["compare", &json, &json, "--assert", "latency p50 < 1ns"]);
    assert_eq!(output.status.code(), Some(11), "{output:?}");
    let perftest =
        format!("{}/../bench-report/tests/samples/ib_send_bw.txt", env!("CARGO_MANIFEST_DIR"));
    assert_fails(&efa_bench(format!("compare {json} {perftest}")), 2, &["no point in common"]);
    assert_fails(&efa_bench(format!("compare {json} {json} --assert x")), 2, &["no < or >"]);
}

#[test]
fn what_other_tools_printed_is_imported_and_reported() {
    let folder = tempfile::tempdir().expect("folder");
    let sample =
        |name: &str| format!("{}/../bench-report/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    let json = folder.path().join("sockets.json").display().to_string();
    let sockperf = sample("sockperf_pingpong.txt");
    let to_json = format!("--size 64 --name sockets --json {json}");
    let output = efa_bench(format!("import {sockperf} {to_json}"));
    output.assert_done();
    let page = folder.path().join("page.md").display().to_string();
    let perftest = sample("ib_send_lat.json");
    let output = efa_bench(format!("report {json} {perftest} --no-paper -o {page}"));
    output.assert_done();
    let text = std::fs::read_to_string(&page).expect("a page");
    for words in ["sockets", "perftest", "2.86", "2.36"] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert_fails(&efa_bench(format!("import {sockperf}")), 10, &["give it with --size"]);
    assert_fails(&efa_bench("import /dev/null"), 10, &["name the tool with --as"]);
}

#[test]
fn reports_are_made_of_result_files() {
    let folder = tempfile::tempdir().expect("tempdir");
    let file = |name: &str| folder.path().join(name).to_str().expect("utf-8").to_owned();
    let (json, html, markdown) = (file("r.json"), file("out/index.html"), file("out/index.md"));
    let output = efa_bench(format!("local quick -n 50 --sizes 8,16,512 -d 1..8 -q --json {json}"));
    output.assert_done();
    for out in [&html, &markdown] {
        let output = efa_bench(format!("report {json} -o {out}"));
        output.assert_done();
    }
    let html = std::fs::read_to_string(html).expect("html");
    assert!(html.contains("paper:efa-c5n") && html.matches("<svg").count() >= 3);
    let out = folder.path().join("out");
    let files = ["index-plots", "index.html", "index.md", "paper-plots", "paper.html", "paper.md"];
    assert_eq!(names_in(&out), files);
    let markdown = std::fs::read_to_string(markdown).expect("markdown");
    assert!(markdown.contains("| size B |") && markdown.contains("](paper.md)"), "{markdown}");
    let paper = std::fs::read_to_string(out.join("paper.md")).expect("markdown");
    for (text, plots) in [(markdown, "index-plots"), (paper, "paper-plots")] {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let strip = |(target, _): (&str, &str)| Some(target.strip_prefix(plots)?[1..].to_owned());
        let mut pictures: Vec<String> = targets.filter_map(strip).collect();
        pictures.sort_unstable();
        assert!(pictures.len() >= 3, "{plots}: {pictures:?}");
        assert_eq!(names_in(&out.join(plots)), pictures);
    }
    std::fs::write(file("bad.json"), "{\"schema\":\"other/2\"}").expect("write");
    let output = efa_bench(format!("report {} -o {}", file("bad.json"), file("x.html")));
    assert_fails(&output, 10, &["bad.json", "other/2"]);
    assert!(!folder.path().join("x.html").exists());
}
