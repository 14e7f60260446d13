//! Files that the tools wrote (OSU's, which Debian does not have, as its manual shows them).

use super::*;

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../../tests/samples/", $name))
    };
}

fn run(text: &str) -> Run {
    read(text, None, None).expect("it is understood")
}

#[test]
fn perftest_latency_in_text_and_json() {
    for (text, mean_us, p50_us, p999_us) in [
        (sample!("ib_send_lat.txt"), 1987.01, 1963.84, 44072.86),
        (sample!("ib_send_lat.json"), 649.07, 2.86, 43943.64),
    ] {
        let run = run(text);
        assert_eq!((run.name.as_str(), run.source.as_str()), ("perftest", "imported"));
        assert_eq!(run.citation.as_deref(), Some("Send Latency Test, SRD"));
        let [point] = &run.points[..] else { panic!("one row") };
        assert_eq!((point.size_bytes, point.depth), (64, 1));
        let latency = point.latency.expect("a latency");
        assert_eq!((latency.mean_us, latency.round_trips), (mean_us, Some(1000)));
        let spread = latency.distribution.expect("percentiles");
        assert_eq!((spread.p50_us, spread.p90_us, spread.p999_us), (p50_us, None, Some(p999_us)));
    }
}

#[test]
fn perftest_by_duration_has_a_mean_only() {
    let latency = run(sample!("ib_send_lat_duration.txt")).points[0].latency.expect("a latency");
    assert_eq!(latency.mean_us, 194.29);
    assert!(latency.distribution.is_none());
}

#[test]
fn perftest_bandwidth_does_not_depend_on_its_unit() {
    // MB/sec (which are MiB), Gb/sec, and JSON, which does not say.
    for (text, depth, mmsg_per_s) in [
        (sample!("ib_send_bw.txt"), 64, 0.009624),
        (sample!("ib_send_bw_gbit.txt"), 128, 0.006525),
        (sample!("ib_send_bw.json"), 64, 0.007249),
    ] {
        let run = run(text);
        let point = &run.points[0];
        assert_eq!((point.size_bytes, point.depth), (4096, depth));
        let bandwidth = point.bandwidth.expect("a bandwidth");
        assert!((bandwidth.mmsg_per_s - mmsg_per_s).abs() < 1e-9, "{bandwidth:?}");
        assert!((bandwidth.mb_per_s - mmsg_per_s * 4096.0).abs() < 1e-3, "{bandwidth:?}");
    }
    // As printed: 37.59 MiB/s.
    let bandwidth = run(sample!("ib_send_bw.txt")).points[0].bandwidth.expect("a bandwidth");
    assert!((bandwidth.mb_per_s - 37.59 * 1.048_576).abs() < 0.01, "{bandwidth:?}");
}

/// Returns the goodput in Gbit/s of the one row of a file.
fn gbit_per_s(text: &str) -> f64 {
    run(text).points[0].bandwidth.expect("a bandwidth").gbit_per_s
}

/// The rate of long messages has one digit: it would give 25.8 Gbit/s instead of 25.0, and 0 for
/// messages of 2 s.
#[test]
fn perftest_of_long_messages_is_read_by_its_bandwidth() {
    let text = sample!("ib_send_bw.txt");
    let own = text.lines().find(|line| line.starts_with(" 4096")).expect("its row");
    let long = |unit: &str, average: &str, rate: &str| {
        let row = format!(" 1073741824 5 {average} {average} {rate}");
        gbit_per_s(&text.replace("MB/sec", unit).replace(own, &row))
    };
    for (unit, average) in [("MB/sec", "2980.23"), ("MiB/sec", "2980.23"), ("Gb/sec", "25.00")] {
        for rate in ["0.000003", "0.000000"] {
            let found = long(unit, average, rate);
            assert!((found / 25.0 - 1.0).abs() < 1e-3, "{unit}, {rate}: {found}");
        }
    }
}

/// The JSON does not name the unit, but the rate tells it.
#[test]
fn perftest_json_of_long_messages_is_read_by_its_bandwidth() {
    let long = |average: &str, rate: &str| {
        let text = sample!("ib_send_bw.json").replace("MsgSize: 4096", "MsgSize: 1073741824");
        let text = text.replace("BW_average: 28.32", &format!("BW_average: {average}"));
        text.replace("MsgRate: 0.007249", &format!("MsgRate: {rate}"))
    };
    for average in ["2980.23", "25.00"] {
        let found = gbit_per_s(&long(average, "0.000003"));
        assert!((found / 25.0 - 1.0).abs() < 1e-3, "{average}: {found}");
    }
    // Neither unit comes to it, but the rate has one of its own.
    let found = gbit_per_s(&long("2.00", "0.000003"));
    assert!((found / (3.0 * 8.0 * 1.073_741_824) - 1.0).abs() < 1e-9, "{found}");
    let error = read(&long("1.00", "0.000000"), None, None).expect_err("either unit fits");
    assert!(error.contains("unit of `BW_average`"), "{error}");
}

#[test]
fn ucx_of_long_messages_is_read_by_its_bandwidth() {
    let text = sample!("ucx_tag_bw.txt").replace("size: 4096", "size: 1073741824");
    let (head, _) = text.split_once("Final:").expect("its row");
    let row = "Final: 20 1.000 343597.384 343597.384 2980.23 2980.23 3 3\n";
    let found = gbit_per_s(&format!("{head}{row}"));
    assert!((found / 25.0 - 1.0).abs() < 1e-3, "{found}");
}

#[test]
fn osu_latency_bandwidth_and_rate() {
    let run_of = |text| {
        let run = run(text);
        (run.points.len(), run.points)
    };
    let (rows, points) = run_of(sample!("osu_latency.txt"));
    assert_eq!((rows, points[2].size_bytes), (3, 4));
    assert_eq!(points[2].latency.expect("a latency").mean_us, 18.19);
    let (_, points) = run_of(sample!("osu_latency_percentiles.txt"));
    assert_eq!(points[1].latency.expect("a latency").mean_us, 23.5);
    let (_, points) = run_of(sample!("osu_bw.txt"));
    let bandwidth = points[1].bandwidth.expect("a bandwidth");
    assert_eq!((points[1].depth, bandwidth.mb_per_s, bandwidth.gbit_per_s), (0, 6481.0, 51.848));
    let (_, points) = run_of(sample!("osu_mbw_mr.txt"));
    assert_eq!(points[0].depth, 64);
    assert_eq!(points[0].bandwidth.expect("a bandwidth").mmsg_per_s, 1.92);
}

#[test]
fn sockperf_needs_the_size() {
    let text = sample!("sockperf_pingpong.txt");
    let error = read(text, None, None).expect_err("no size");
    assert!(error.contains("--size"), "{error}");
    let sized = read(text, None, Some(64)).expect("it is understood");
    let latency = sized.points[0].latency.expect("a latency");
    assert_eq!((latency.mean_us, latency.round_trips), (2.396, Some(114_202)));
    let spread = latency.distribution.expect("percentiles");
    assert_eq!((spread.min_us, spread.p50_us, spread.p90_us), (2.139, 2.362, Some(2.51)));
    assert_eq!((spread.p999_us, spread.max_us), (Some(14.016), 185.715));
    let run = run(sample!("sockperf_throughput.txt"));
    assert_eq!(run.points[0].size_bytes, 1024);
    let bandwidth = run.points[0].bandwidth.expect("a bandwidth");
    // As printed: 1366.821 "MBps", which are MiB/s.
    assert!((bandwidth.mb_per_s - 1366.821 * 1.048_576).abs() < 0.01, "{bandwidth:?}");
}

/// Debian's sockperf writes colours into files, which hide neither its title nor its losses.
#[test]
fn sockperf_is_read_with_its_colours() {
    let text = sample!("sockperf_pingpong_colours.txt");
    assert!(text.contains("\x1b[2;35m== version") && detect(text) == Some(Format::Sockperf));
    let run = read(text, None, Some(64)).expect("it is understood");
    let latency = run.points[0].latency.expect("a latency");
    assert_eq!((latency.mean_us, latency.round_trips), (3.693, Some(74_360)));
    assert_eq!(run.points[0].lost, Some(0));
}

/// A test under load is not read as a ping-pong without losses.
#[test]
fn sockperf_under_load_is_no_ping_pong() {
    let error = read(sample!("sockperf_under_load.txt"), None, Some(64)).expect_err("no rate");
    assert!(error.contains("of 5591 messages 467 came back, so it is under-load"), "{error}");
}

#[test]
fn iperf3_counts_at_the_receiver() {
    let run = run(sample!("iperf3.json"));
    assert_eq!(run.points[0].size_bytes, 131_072);
    let bandwidth = run.points[0].bandwidth.expect("a bandwidth");
    assert!((bandwidth.gbit_per_s - 22.124_462).abs() < 1e-5, "{bandwidth:?}");
}

/// The bytes of both directions count, not only half of them.
#[test]
fn iperf3_in_both_directions_is_their_sum() {
    let sum = |gbit: u64, lost: u64| {
        let (seconds, bytes) = (2.0, gbit * 250_000_000);
        serde_json::json!({ "seconds": seconds, "bytes": bytes, "lost_packets": lost })
    };
    for (protocol, name) in [("TCP", "sum_received"), ("UDP", "sum")] {
        let mut all: serde_json::Value =
            serde_json::from_str(sample!("iperf3.json")).expect("JSON");
        all["start"]["test_start"]["protocol"] = protocol.into();
        all["end"][name] = sum(10, 1);
        assert_eq!(run(&all.to_string()).method.directions, 1, "{protocol}");
        all["end"][format!("{name}_bidir_reverse")] = sum(6, 2);
        let run = run(&all.to_string());
        let bandwidth = run.points[0].bandwidth.expect("a bandwidth");
        assert!((bandwidth.gbit_per_s - 16.0).abs() < 1e-9, "{protocol}: {bandwidth:?}");
        assert_eq!((run.method.directions, bandwidth.seconds), (2, Some(2.0)), "{protocol}");
        assert_eq!(run.points[0].lost, Some(3), "{protocol}");
    }
}

/// The bytes of the sender and the receiver's share of losses would give 0.4 Gbit/s instead of
/// 0.08.
#[test]
fn iperf3_over_udp_in_both_directions_counts_what_arrived() {
    let text = sample!("iperf3_udp_both.json");
    let run = run(text);
    assert_eq!((run.method.directions, run.points[0].lost), (2, Some(92_737 + 81_441)));
    let arrived = f64::from(5_280_000 + 5_032_000) * 8.0 / 1.027_847 / 1e9;
    let bandwidth = run.points[0].bandwidth.expect("a bandwidth");
    assert!((bandwidth.gbit_per_s / arrived - 1.0).abs() < 1e-9, "{bandwidth:?}");
    // Releases before 3.10 do not print what the receiver counted.
    let old = text.replace("\"sum_received", "\"no_sum");
    let known = f64::from(95_250 - 92_737 + 85_270 - 81_441) * 8_000.0 * 8.0 / 1.027_847 / 1e9;
    assert!((gbit_per_s(&old) / known - 1.0).abs() < 1e-9, "{}", gbit_per_s(&old));
}

#[test]
fn fi_pingpong_sizes_have_suffixes() {
    let run = run(sample!("fi_pingpong.txt"));
    let sizes: Vec<usize> = run.points.iter().map(|point| point.size_bytes).collect();
    assert_eq!(sizes, [64, 256, 1024, 4096, 65_536, 1 << 20]);
    assert_eq!(
        run.points[5].latency.map(|l| (l.mean_us, l.round_trips)),
        Some((19_490.55, Some(10)))
    );
}

/// Returns rows as `fi_pingpong` prints them.
fn fi_pingpong(rows: &[(&str, &str)]) -> String {
    let head = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n";
    let row = |(size, sent): &(&str, &str)| {
        format!("{size:<8}{sent:<8}={sent:<8}1m          0.27s      0.00       4.50       0.00\n")
    };
    head.to_owned() + &rows.iter().map(row).collect::<String>()
}

/// The count is 100,000 round trips, not 102,400.
#[test]
fn fi_pingpong_counts_are_decimal() {
    let text = fi_pingpong(&[("64", "999"), ("1k", "100k"), ("4k", "1m"), ("8k", "2b")]);
    let trips = |point: &Point| point.latency.and_then(|latency| latency.round_trips);
    let found: Vec<Option<u64>> = run(&text).points.iter().map(trips).collect();
    assert_eq!(found, [999, 100_000, 1_000_000, 2_000_000_000].map(Some));
}

/// The size is 1500 bytes, not 1433.
#[test]
fn fi_pingpong_sizes_whose_digits_are_cut_off_have_to_be_given() {
    let of_size = |printed: &str, given: Option<usize>| {
        let read = read(&fi_pingpong(&[(printed, "10")]), None, given);
        read.map(|run| run.points[0].size_bytes)
    };
    for (printed, given) in [("1.4k", 1500), ("97k", 100_000), ("9.5m", 10_000_000), ("100", 100)] {
        assert_eq!(of_size(printed, Some(given)), Ok(given), "{printed}");
    }
    // Nothing is cut off of 1536.
    assert_eq!(of_size("1.5k", None), Ok(1536));
    let error = of_size("1.4k", None).expect_err("no size");
    assert!(error.contains("line 2: `1.4k`") && error.contains("--size"), "{error}");
    assert!(of_size("1.4k", Some(1400)).is_err(), "1400 is written 1.3k");
    assert!(of_size("1k", Some(2048)).is_err_and(|error| error.contains("leave --size out")));
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    for (text, format, words) in [
        ("hello", None, "name the tool with --as"),
        ("hello", Some(Format::Osu), "no title"),
        (
            "# OSU MPI Latency Test\n# Size  Latency (us)\n1 x\n",
            None,
            "line 3: `x` is not a number",
        ),
        ("# OSU MPI Latency Test\n# Size  Latency (us)\n", None, "no row of figures"),
        (
            "# OSU MPI Reduce Latency Test v7.4\n",
            None,
            "`MPI Reduce Latency Test v7.4` cannot be read",
        ),
        ("{\"version\": \"iperf 3\", \"error\": \"refused\"}", None, "refused"),
        ("{\"version\": \"iperf 3", None, "only the JSON"),
    ] {
        let error = read(text, format, None).expect_err(text);
        assert!(error.contains(words), "`{error}` should say `{words}`");
    }
}

/// Otherwise MB/s would be read as µs, and the second test would be dropped.
#[test]
fn several_tests_in_one_file_are_refused() {
    let osu = [sample!("osu_latency.txt"), sample!("osu_bw.txt")].concat();
    let perftest = [sample!("ib_send_lat.txt"), sample!("ib_write_lat.txt")].concat();
    let json = [sample!("ib_send_bw.json"), sample!("ib_write_bw_both_4_qps.json")].concat();
    let deeper = sample!("ib_send_bw.txt").replace("TX depth        : 64", "TX depth : 128");
    let ucx = [sample!("ucx_tag_lat.txt"), sample!("ucx_put_bw.txt")].concat();
    let sockperf = sample!("sockperf_throughput.txt");
    let nccl = sample!("nccl_all_reduce.txt");
    let row = nccl.lines().find(|line| line.contains(" 1024 ")).expect("a row");
    let types = [nccl, &row.replace("float", "  int"), "\n"].concat();
    for (text, words) in [
        (osu, "it holds 2 tests (title: MPI Latency Test v7.4; MPI Bandwidth Test v7.4): split it"),
        (perftest, "(title: Send Latency Test; RDMA_Write Latency Test): split it"),
        (json, "(title: Send BW Test; RDMA_Write Bidirectional BW Test): split it"),
        ([sample!("ib_send_bw.txt"), &deeper].concat(), "(TX depth: 64; 128): split it"),
        (ucx, "(Test: tag match latency; put bandwidth"),
        (sample!("ucx_tag_lat.txt").repeat(2), "it holds 2 tests (table at line"),
        (sockperf.repeat(2), "it holds 2 tests (summary at line"),
        ([nccl, &nccl.replace("all_reduce", "all_gather")].concat(), "split it"),
        (types, "line 22: it holds several tests (float sum -1; int sum -1): split it"),
    ] {
        let error = read(&text, None, None).expect_err(words);
        assert!(error.contains(words), "`{error}` should say `{words}`");
    }
    // The same of one adapter once more is one measurement more.
    assert_eq!(run(&sample!("ib_send_bw.txt").repeat(2)).points.len(), 2);
    assert_eq!(run(&nccl.repeat(2)).points.len(), 6);
}

/// A file that was cut off may lack a size, or end a rate within its digits.
#[test]
fn rows_that_are_cut_off_are_refused_with_their_line() {
    let osu = sample!("osu_mbw_mr.txt");
    let (cut, _) = osu.rsplit_once("791137").expect("the last rate");
    let error = read(cut, None, None).expect_err("no rate");
    assert!(error.contains(": 2 figures for 3 titles"), "{error}");
    let nccl = sample!("nccl_all_reduce.txt");
    let (cut, _) = nccl.split_once("57.77").expect("the last row");
    let error = read(cut, None, None).expect_err("half a row");
    assert!(error.contains("line 17: 7 figures for 13 titles"), "{error}");
}

/// JSON has no such figures: a result file with one could not be read again.
#[test]
fn figures_that_are_no_numbers_are_refused() {
    let osu = "# OSU MPI Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n1       1.92\n";
    for (row, words) in [
        ("0       2.92\n", ["0 bytes", "no number"]),
        ("8      inf\n", ["line 4", "`inf` is not a number"]),
        ("8      NaN\n", ["line 4", "`NaN` is not a number"]),
    ] {
        let error = read(&format!("{osu}{row}"), None, None).expect_err(row);
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert_eq!(run(osu).points.len(), 1);
}

/// Such figures are a mean of -13521.90, 8.7 bytes, and a count of 99999999999999999999999.
#[test]
fn figures_that_cannot_be_are_refused() {
    let osu = |row: &str| format!("# OSU MPI Latency Test v7.4\n# Size      Latency (us)\n{row}\n");
    let pingpong = |row: &str| {
        format!(
            "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n{row}"
        )
    };
    let perftest = |row: &str| {
        let text = sample!("ib_send_bw.txt");
        let own = text.lines().find(|line| line.starts_with(" 4096")).expect("its row");
        text.replace(own, row)
    };
    let huge = "99999999999999999999999";
    for (text, words) in [
        (pingpong("64 10 =10 1.2k 0.27s 0.00 -13521.90 0.00\n"), "a mean of -13521.9"),
        (pingpong("64 10 =10 1.2k 0.27s 0.00 0.00 0.00\n"), "a mean of 0 at 64 bytes"),
        (pingpong(&format!("{huge} 10 =10 1.2k 0.27s 0.00 1.00 0.00\n")), "no whole number"),
        (pingpong(&format!("64 {huge} =10 1.2k 0.27s 0.00 1.00 0.00\n")), "is not a number"),
        (osu("8.7   1.50"), "line 3: 8.7 is no whole number"),
        (osu("8     -1.50"), "a mean of -1.5"),
        (perftest(" 4096 1000 -37.59 -37.59 -0.009624"), "of -"),
        (perftest(&format!(" 4096 {huge} 37.59 37.59 0.009624")), "no whole number"),
    ] {
        let error = read(&text, None, None).expect_err(words);
        assert!(error.contains(words), "`{error}` should say `{words}`");
    }
}

/// The time is shorter than its two decimals can say, so it is not published as zero.
#[test]
fn a_time_that_osu_rounded_to_nothing_is_not_known() {
    let text = "# OSU MPI Latency Test v7.4\n# Size      Latency (us)\n1   0.00\n2   0.01\n";
    let run = run(text);
    assert_eq!((run.points.len(), run.points[0].latency), (2, None));
    assert_eq!(run.points[1].latency.map(|latency| latency.mean_us), Some(0.01));
}

/// The error calls the file a result of efa-bench.
#[test]
fn a_result_file_is_called_one() {
    let run = Run::new("iperf 3", Benchmark::Latency, Vec::new());
    let text = output::json(&bench_record::Results::of(vec![run], Vec::new())).expect("JSON");
    let error = read(&text, None, None).expect_err("nothing to import");
    assert!(error.contains("a result file already: `efa-bench report`"), "{error}");
}

/// Two adapters are not one measurement with the figures of both.
#[test]
fn several_machines_in_one_file_are_refused() {
    let own = sample!("ib_send_bw.txt");
    let of_other = |what: &str, value: &str| {
        let line = own.lines().find(|line| line.contains(what)).expect(what);
        let (before, _) = line.split_once(what).expect(what);
        let other = own.replace(line, &format!("{before}{what} : {value}"));
        read(&[own, &other].concat(), None, None).expect_err(what)
    };
    for (what, value) in [("Device", "mlx5_1"), ("Mtu", "512[B]"), ("Link type", "Ethernet2")] {
        let error = of_other(what, value);
        assert!(error.contains("it holds 2 tests") && error.contains(what), "{error}");
    }
    // These tools do not say where.
    for (text, words) in [
        (sample!("osu_latency.txt").repeat(2), "1 bytes twice"),
        (sample!("fi_pingpong.txt").repeat(2), "64 bytes twice"),
    ] {
        let error = read(&text, None, None).expect_err(words);
        assert!(error.contains(words) && error.contains("split it"), "{error}");
    }
}

/// Half of a file is not read as a whole one.
#[test]
fn perftest_json_that_was_cut_off_is_refused() {
    for text in [sample!("ib_send_bw.json"), sample!("ib_send_lat.json")] {
        let (cut, _) = text.trim_end().rsplit_once('}').expect("a brace");
        let (cut, _) = cut.trim_end().rsplit_once('\n').expect("lines");
        let error = read(cut, None, None).expect_err("cut off");
        assert!(error.contains("cut off"), "{error}");
    }
    let text = sample!("ib_send_bw.json");
    let (before, row) = text.split_once("MsgSize").expect("a row");
    let (figures, _) = row.split_once("MsgRate").expect("its rate");
    let error = read(&format!("{before}MsgSize{row}\nMsgSize{figures}}}"), None, None);
    let error = error.expect_err("half a row");
    assert!(error.contains("row 2 has other figures"), "{error}");
}

/// A transport that may lose messages is not called reliable.
#[test]
fn perftest_on_uc_and_raw_ethernet_is_unreliable() {
    for (transport, endpoint) in [
        ("UC", EndpointKind::Dgram),
        ("UD", EndpointKind::Dgram),
        ("RawEth", EndpointKind::Dgram),
        ("RC", EndpointKind::Rdm),
    ] {
        let text = sample!("ib_send_bw.txt");
        let line = text.lines().find(|line| line.contains("Connection type")).expect("a line");
        let (before, behind) = line.split_once("SRD").expect("its transport");
        let text = text.replace(line, &format!("{before}{transport}{behind}"));
        assert_eq!(run(&text).endpoint, endpoint, "{transport}");
    }
}

/// OSU waits for its whole window, which is not a sliding one; cmtime has no first answer.
#[test]
fn captions_say_what_tools_do() {
    let caption = |text: &str| output::table(&Run { name: "mine".to_owned(), ..run(text) }).caption;
    for (text, expected) in [
        (sample!("osu_bw.txt"), "mine: as the tool counts it (send)"),
        (sample!("iperf3.json"), "mine: as the tool counts it (send)"),
        (sample!("ucx_tag_bw.txt"), "mine: as the tool counts it (tagged)"),
        (sample!("ib_send_bw.txt"), "mine: as the tool counts it, sliding window (send)"),
        (sample!("cmtime.txt"), "mine: connections, from an id to a connected queue pair"),
    ] {
        assert_eq!(caption(text), expected);
    }
    let both = caption(sample!("ib_send_bw_both.txt"));
    assert!(both.contains("sliding window") && both.contains("both directions"), "{both}");
}
