//! The pages in a browser: headless Chromium loads them and a script of ours looks at them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{SCENARIO, netsim, with_file};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Script that runs after the page has loaded and puts what it found into the title. A mark is
/// outside when it is not within its chart; any request of the page, to files too, is a resource
/// entry.
const PROBE: &str = "<script>addEventListener('load',()=>{\
    const plots=[...document.querySelectorAll('section svg')];\
    const box=(e)=>e.getBoundingClientRect();\
    const inside=(mark,plot)=>{const m=box(mark),p=box(plot);\
    return m.left>=p.left-1&&m.right<=p.right+1&&m.top>=p.top-1&&m.bottom<=p.bottom+1};\
    const marks=(plot)=>[...plot.querySelectorAll('circle,rect,polygon,text')];\
    document.title=JSON.stringify({requests:performance.getEntriesByType('resource').length,\
    plots:plots.length,\
    data:plots.filter(p=>p.closest('section').querySelector('details table')).length,\
    named:plots.filter(p=>p.querySelector('desc').textContent.length>1).length,\
    spreads:document.querySelectorAll('svg .spread circle').length,\
    outside:plots.flatMap(p=>marks(p).filter(m=>!inside(m,p))).map(m=>m.textContent),\
    ids:new Set([...document.querySelectorAll('[id]')].map(e=>e.id)).size===\
    document.querySelectorAll('[id]').length,\
    wide:document.documentElement.scrollWidth>document.documentElement.clientWidth})})</script>";

fn browser() -> Option<&'static str> {
    let works = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(works);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no chromium here, which CI installs");
        eprintln!("SKIPPED: no chromium here (apt-get install chromium), so nobody looks at pages");
    }
    found
}

/// Returns what the probe found in a page.
fn look(browser: &str, file: &Path, width: &str) -> serde_json::Value {
    let html = fs::read_to_string(file).unwrap();
    let probed = file.with_extension("probed.html");
    fs::write(&probed, html.replace("</head>", &format!("{PROBE}</head>"))).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["60", browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", probed.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("CONSOLE"), "{browser}: {said}");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let title = title.map(|(title, _)| title).unwrap();
    serde_json::from_str(title).unwrap_or_else(|error| panic!("{error}: {title}"))
}

/// Asserts that a page stands alone, its charts have their numbers and words, and nothing is cut
/// off.
fn assert_whole(browser: &str, file: &Path, plots: u64, spreads: u64) {
    for width in ["1000", "400"] {
        let found = look(browser, file, width);
        let counts = ["requests", "plots", "data", "named", "spreads"].map(|what| &found[what]);
        let expected = [0, plots, plots, plots, spreads].map(serde_json::Value::from);
        assert_eq!(counts, expected.each_ref(), "{width}: {found}");
        assert_eq!(found["outside"].as_array().map(Vec::len), Some(0), "{width}: {found}");
        assert_eq!((&found["ids"], &found["wide"]), (&true.into(), &false.into()), "{found}");
    }
}

#[test]
fn pages_of_sweeps_and_checks_are_whole_in_a_browser() {
    let Some(browser) = browser() else { return };
    // TCP waits for time-outs, and runs that do not end are not drawn.
    let patient = SCENARIO.replace("limit_ms = 10", "limit_ms = 10_000");
    let folder = with_file(&format!("{patient}[expect]\nmax_to_ideal = 9.0\n"));
    let path = folder.path();
    let sweep = ["sweep", "s.toml", "--set", "workload.bytes=64KB,256KB,1MB", "--seeds", "1..3"];
    let kinds = ["--set", "transport.kind=srd,tcp", "-q", "--html", "sweep.html"];
    let output = netsim(path, &[&sweep[..], &kinds].concat());
    assert!(output.status.code().is_some_and(|code| code < 2), "{output:?}");
    // Three figures over two parameters: a mark for each of 18 runs.
    assert_whole(browser, &path.join("sweep.html"), 6, 6 * 18);

    fs::write(path.join("free.toml"), SCENARIO).unwrap();
    let check = ["check", "s.toml", "free.toml", "--beside", "7,8", "-q", "--html", "check.html"];
    let output = netsim(path, &check);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_whole(browser, &path.join("check.html"), 1, 4);
    let again = netsim(path, &check);
    assert!(String::from_utf8_lossy(&again.stderr).contains("check.html exists"), "{again:?}");
}
