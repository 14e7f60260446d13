//! `softefa trace`: the time line of real runs, in a browser and as tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::browser::{browser, look};
use crate::harness::{LIMIT, Launcher, Outcome, exclusive, free_port, has, is_sealed};

/// A script that examines a page: what it shows, whether anything is cut off, and the effect of
/// buttons, keys and a pointer. It looks at a queue pair that sends, with faults if there is one:
/// the one with most events is on top, whichever that is, and a receiver has no open messages.
/// events is on top, whichever that is, and a receiver has no messages open.
const PROBE: &str = "\
    const shown=t=>t.getClientRects().length>0;\
    const cut=()=>[...document.querySelectorAll('#line svg text')].filter(shown).filter(t=>{\
    const own=t.getBoundingClientRect(),box=t.ownerSVGElement.getBoundingClientRect();\
    return own.left<box.left-1||own.right>box.right+1||own.top<box.top-1||own.bottom>box.bottom+1})\
    .map(t=>t.textContent);\
    const panels=[...document.querySelectorAll('.pair svg')],said=document.querySelector('.said');\
    const titlesOf=p=>[...p.querySelectorAll('.title')].map(t=>t.textContent);\
    const find=name=>panels.find(p=>[name,'Messages open'].every(n=>titlesOf(p).some(t=>t.startsWith(n))));\
    const panel=find('Faults')||find('')||panels[0];\
    const titles=titlesOf(panel),specs=[...panel.querySelectorAll('.spec')].map(t=>t.textContent);\
    const whole=said.textContent,cutWhole=cut();\
    const press=name=>document.querySelector('[aria-label=\"'+name+'\"]').click();\
    for(let i=0;i<6;i++)press('Zoom in');const near=said.textContent,cutNear=cut();press('Later');\
    const later=said.textContent;press('The whole run');const again=said.textContent;\
    const box=panel.getBoundingClientRect();let tips=new Set();\
    for(let x=2;x<box.width;x+=5)for(let y=20;y<box.height;y+=6){\
    panel.dispatchEvent(new PointerEvent('pointermove',{clientX:box.left+x,clientY:box.top+y}));\
    const tip=document.querySelector('.tip');if(!tip.hidden)tips.add(tip.textContent.split('\\n')[0])}\
    panel.dispatchEvent(new KeyboardEvent('keydown',{key:'+'}));const keyed=said.textContent;\
    panel.dispatchEvent(new MouseEvent('dblclick'));\
    const drag=(from,to)=>['pointerdown','pointermove','pointerup'].forEach((type,i)=>panel.dispatchEvent(\
    new PointerEvent(type,{button:0,pointerId:1,clientX:box.left+box.width*(i?to:from),clientY:box.top+50})));\
    drag(0.25,0.5);const dragged=said.textContent;panel.dispatchEvent(new MouseEvent('dblclick'));\
    press('Zoom in');press('Zoom in');\
    const before=said.textContent;document.querySelector('.go').click();const gone=said.textContent;\
    const rows=caption=>[...document.querySelectorAll('table')].filter(t=>t.caption.textContent===caption)\
    .flatMap(t=>[[...t.tHead.rows[0].cells],...[...t.tBodies[0].rows].map(r=>[...r.cells])].map(r=>r.map(c=>c.textContent)));\
    const wide=document.documentElement.scrollWidth>document.documentElement.clientWidth;\
    return {requests:performance.getEntriesByType('resource').length,cut:[...cutWhole,...cutNear],wide,titles,specs,\
    pairs:document.querySelectorAll('.pair').length,moved:new Set([whole,near,later]).size===3&&whole===again,\
    keyed:keyed!==whole,dragged:dragged!==whole,gone:gone!==before,tips:tips.size,\
    events:rows('Events of each queue pair'),paths:rows('Paths: what was sent, and the time until it was acknowledged'),\
    warnings:[...document.querySelectorAll('.warn p')].map(p=>p.textContent)}";

/// Counts the events of a trace, independently of the code under test.
fn count(text: &str) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut counts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for line in text.lines() {
        let columns: Vec<&str> = line.split(' ').collect();
        let of = counts.entry(columns[2].to_owned()).or_default();
        *of.entry(columns[1].to_owned()).or_default() += 1;
    }
    counts
}

/// Returns the same counts according to the page.
fn counts_on(page: &Value) -> BTreeMap<String, BTreeMap<String, u64>> {
    let rows = page["events"].as_array().unwrap();
    let cells = |row: &Value| -> Vec<String> {
        row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
    };
    let titles = cells(&rows[0]);
    let of = |row: &Value| {
        let cells = cells(row);
        let counts = titles.iter().zip(&cells).skip(1).filter(|(title, _)| *title != "not ready");
        let counts = counts.map(|(title, cell)| (title.clone(), cell.parse().unwrap()));
        (cells[0].clone(), counts.filter(|(_, count)| *count > 0).collect())
    };
    let all: BTreeMap<_, BTreeMap<_, _>> = rows[1..].iter().map(of).collect();
    all.into_iter().filter(|(name, _)| !name.starts_with("all ")).collect()
}

fn trace(launcher: &Launcher, words: &[&str]) -> Output {
    launcher.command().arg("trace").args(words).output().unwrap()
}

/// Makes the page of `files` and examines it in three widths.
fn page(launcher: &Launcher, folder: &Path, files: &[&Path], browser: &str) -> Value {
    let page = folder.join("page.html");
    let files = files.iter().map(|file| file.to_str().unwrap());
    let words: Vec<&str> =
        ["--html", "-o", page.to_str().unwrap()].into_iter().chain(files).collect();
    let output = trace(launcher, &words);
    assert!(output.status.success(), "{output:?}");
    let mut seen = Value::Null;
    for width in [1280, 768, 400] {
        seen = look(browser, &page, width, PROBE);
        assert_eq!(
            (&seen["requests"], &seen["wide"]),
            (&0.into(), &false.into()),
            "{width}: {seen}"
        );
        assert_eq!(seen["cut"], serde_json::json!([]), "{width}");
        for what in ["moved", "keyed", "dragged", "gone"] {
            assert_eq!(seen[what], true, "{width}: {what}: {seen}");
        }
        // The number of marks under the pointer depends on their times: 13 to 491 in eighteen
        // pages.
        assert!(seen["tips"].as_u64().unwrap() > 4, "{width}: {seen}");
    }
    seen
}

/// Runs a program of both sides in one run, which sets a fault, sends, clears it and sends again.
fn run_both(launcher: &Launcher, line: &str) -> Outcome {
    let softefa = crate::harness::softefa().display();
    let pair = || {
        let port = free_port();
        let up = format!(
            "until grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.01; done"
        );
        format!("{line} -p {port} & {up}; {line} -p {port} 127.0.0.1; wait $!")
    };
    let script = format!(
        "set -e; {softefa} fault set loss=5% seed=1; {}; {softefa} fault clear; {}",
        pair(),
        pair()
    );
    let outcome = launcher.start_words("both", &["sh", "-c", &script]).wait(LIMIT);
    assert_eq!(outcome.code, 0, "{outcome}");
    outcome
}

#[test]
fn the_page_of_a_trace_shows_all_that_it_has() {
    let _one = exclusive();
    let Some(browser) = browser().filter(|_| has("ib_send_bw")) else { return };
    for (options, line) in [
        ("", "ib_send_bw -c SRD -x 0 -F -s 4096 -n 300"),
        ("--roce", "ib_send_bw -c RC -d roce0 -x 0 -F -s 4096 -n 300 -Q 1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.trace");
        let launcher = Launcher::new(&format!("{options} --trace {}", file.display()));
        let outcome = run_both(&launcher, line);
        assert!(
            outcome.counter("fault_lost") > 0 && outcome.counter("retrans_pkts") > 0,
            "{outcome}"
        );
        let text = fs::read_to_string(&file).unwrap();
        let seen = page(&launcher, folder.path(), &[&file], browser);
        assert_eq!(counts_on(&seen), count(&text), "{options}");
        assert_eq!(seen["pairs"], 4, "{seen}");
        assert_eq!(seen["warnings"], serde_json::json!([]), "{seen}");
        let retransmitted: u64 =
            counts_on(&seen).values().filter_map(|of| of.get("retransmit")).sum();
        assert_eq!(retransmitted, outcome.counter("retrans_pkts"), "{outcome}");
        let is_there = |what: &str, name: &str| {
            let all = seen[what].as_array().unwrap();
            all.iter().any(|text| text.as_str().unwrap().starts_with(name))
        };
        for name in ["Messages open", "Sent above", "Connection", "Faults", "Until ack"] {
            assert!(is_there("titles", name), "{name}: {seen}");
        }
        assert!(text.contains("is=set by=command spec=loss=5%"), "the fault reached them");
    }
}

/// Captures of both sides give the same time line as traces do, as far as packets contain it.
#[test]
fn the_page_of_captures_shows_their_packets() {
    let _one = exclusive();
    let Some(browser) = browser().filter(|_| has("ib_send_bw") && !is_sealed()) else { return };
    for (options, line) in [
        ("", "ib_send_bw -c SRD -x 0 -F -s 4096 -n 300"),
        ("--roce", "ib_send_bw -c RC -d roce0 -x 0 -F -s 1024 -n 300 -Q 1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let names = ["server.pcapng", "client.pcapng"].map(|name| folder.path().join(name));
        let launcher = |file: &PathBuf| {
            Launcher::new(&format!("{options} --fault loss=5%,seed=3 --pcap {}", file.display()))
        };
        let [there, here] = names.each_ref().map(launcher);
        let port = free_port();
        let mut server = there.start("server", &format!("{line} -p {port}"));
        server.wait_until_listening(port);
        let client = here.start("client", &format!("{line} -p {port} 127.0.0.1")).wait(LIMIT);
        let server = server.wait(LIMIT);
        assert_eq!((client.code, server.code), (0, 0), "{client}{server}");
        let files: Vec<&Path> = names.iter().map(PathBuf::as_path).collect();
        let seen = page(&here, folder.path(), &files, browser);
        assert_eq!(seen["pairs"], 2, "each queue pair has its name: {seen}");
        let counts = counts_on(&seen);
        let sum = |event: &str| counts.values().filter_map(|of| of.get(event)).sum::<u64>();
        let of_both = |name: &str| client.counter(name) + server.counter(name);
        assert_eq!(sum("retransmit"), of_both("retrans_pkts"), "{options}: {counts:?}");
        assert_eq!(sum("fault"), of_both("fault_lost"), "{options}: {counts:?}");
        assert!(client.counter("fault_lost") > 0 && client.counter("retrans_pkts") > 0, "{client}");
        // Losses may leave a path, even the first one, without a packet whose answer gives its
        // time.
        let paths = seen["paths"].as_array().unwrap();
        let answered = |path: &Value| path[5].as_str().unwrap().parse::<u64>().unwrap();
        assert!(paths[1..].iter().map(answered).sum::<u64>() > 0, "{seen}");
    }
}

/// The trace has more events than a page holds. The page reports how many it left out, and a part
/// of the time has all of its own.
#[test]
fn a_long_trace_is_thinned_and_the_page_says_so() {
    let _one = exclusive();
    let Some(browser) = browser().filter(|_| has("ib_send_bw")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    let launcher = Launcher::new(&format!("--fault loss=1%,seed=1 --trace {}", file.display()));
    let (server, client) =
        launcher.run_pair("ib_send_bw -c SRD -x 0 -F -s 64 -n 20000", ["-p", "-p"]);
    assert_eq!((client.code, server.code), (0, 0), "{client}{server}");
    let text = fs::read_to_string(&file).unwrap();
    let seen = page(&launcher, folder.path(), &[&file], browser);
    assert_eq!(counts_on(&seen), count(&text));
    let warning = seen["warnings"][0].as_str().unwrap();
    let number = |at: usize| -> u64 { warning.split(' ').nth(at).unwrap().parse().unwrap() };
    let marked = ["transmit", "retransmit", "receive", "reject", "drop", "loss", "timer", "state"];
    let marked = marked.iter().chain(&["peer", "fault"]);
    let all: u64 = marked
        .map(|event| {
            text.lines().filter(|line| line.split(' ').nth(1) == Some(event)).count() as u64
        })
        .sum();
    assert!((29_000..=30_000).contains(&number(0)) && number(2) == all, "{all}: {warning}");
    assert!(warning.contains(&format!("; {} events", all - number(0))), "{warning}");
    let size = fs::metadata(folder.path().join("page.html")).unwrap().len();
    assert!(size < 12 << 20, "{size} bytes");
    // A part has all of its events.
    let mut times: Vec<u64> =
        text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    times.sort_unstable();
    let at = |place: usize| times[place] - times[0];
    let (from, to) = (at(times.len() / 2), at(times.len() / 2 + times.len() / 50));
    let inside = times.iter().filter(|time| (from..to).contains(&(*time - times[0]))).count();
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let output =
        trace(&launcher, &["--from", &seconds(from), "--to", &seconds(to), file.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!(" {inside} events in ")), "{inside}: {said}");
}

#[test]
fn what_is_no_trace_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = Launcher::new("");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let wrong = [
        (folder.path().join("missing"), "No such file"),
        (folder.path().to_owned(), "directory"),
        (file("empty", b""), "is empty"),
        (file("binary", &[0xff; 100_000]), "neither a trace nor a capture"),
        (file("text", b"To be\nor not to be\n"), "neither a trace nor a capture"),
        (file("cut.trace", b"1795259766107928497 loss rdmap0s6:21369 127.0.0"), "neither a trace"),
        (file("old.pcap", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]), "editcap"),
        (file("cut.pcapng", &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0]), "without a packet"),
    ];
    for (path, expected) in &wrong {
        for words in [&["--html"][..], &[]] {
            let words: Vec<&str> = words.iter().copied().chain([path.to_str().unwrap()]).collect();
            let output = trace(&launcher, &words);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(125), "{path:?}: {text}");
            assert!(text.lines().count() == 1 && text.contains(expected), "{path:?}: {text}");
            assert!(output.stdout.is_empty(), "{path:?}");
        }
    }
    let line = "1795259766107928497 loss a:1 127.0.0.1:2 psn=1 path=0 by=silence\n";
    let good = file("good.html", line.as_bytes());
    let good = good.to_str().unwrap();
    for (words, expected) in [
        (vec!["--html", good], "another file with -o"),
        (vec!["--html", "-o", "/dev/full", good], "No space left"),
        (vec!["--from", "5", good], "--from and --to"),
        (vec!["--from", "-1", good], "-1"),
        (vec!["--from", "1e99", good], "seconds"),
        (vec!["-o", "x.html", good], "--html"),
        (vec![], "TRACE-OR-PCAP"),
    ] {
        let output = trace(&launcher, &words);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}: {text}");
        assert!(text.lines().count() == 1 && text.contains(expected), "{words:?}: {text}");
    }
    assert_eq!(fs::read_to_string(good).unwrap(), line, "what was read is still there");
}

/// A program that was killed may leave half a line, and standard error contains lines of other
/// programs.
#[test]
fn what_is_whole_of_a_damaged_trace_is_shown() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    let launcher = Launcher::new(&format!("--trace {}", file.display()));
    let (server, client) =
        launcher.run_pair("ib_send_lat -c SRD -x 0 -F -s 64 -n 20", ["-p", "-p"]);
    assert_eq!((client.code, server.code), (0, 0), "{client}{server}");
    let text = fs::read_to_string(&file).unwrap();
    let events = text.lines().count();
    let damaged = format!("softefa: hello\n\u{0}\u{1}\n{}", &text[..text.len() - 2]);
    fs::write(&file, damaged).unwrap();
    let output = trace(&launcher, &[file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let [said, told] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(said.contains(&format!(" {} events in ", events - 1)), "{events}: {said}");
    assert!(told.contains("cut off") && told.contains("2 lines are no events"), "{told}");
    // No text in a file can become part of the page.
    let hostile =
        "1795259766107928498 loss <b>:1 127.0.0.1:2 psn=</script><script>alert(1)</script>\n";
    fs::write(&file, format!("{text}{hostile}")).unwrap();
    let output = trace(&launcher, &["--html", "-o", "-", file.to_str().unwrap()]);
    let html = String::from_utf8(output.stdout).unwrap();
    assert!(!html.contains("<script>alert") && !html.contains("<b>"), "markup of others");
}
