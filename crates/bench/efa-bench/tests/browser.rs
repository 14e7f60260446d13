//! The report in a browser: headless Chromium loads it, and a script of this test looks at it.

use std::path::Path;
use std::process::Command;

/// The script that runs after the page has loaded and puts what it found into the title. Any
/// request of the page, also for a file, is a resource entry.
const PROBE: &str = "<script>addEventListener('load',()=>{\
    const count=(what)=>document.querySelectorAll(what).length;\
    const plots=[...document.querySelectorAll('section svg')];\
    const has=(plot,what)=>plot.closest('section').querySelector(what)!==null;\
    const anchors=[...document.querySelectorAll('nav a')];\
    const wide=document.documentElement.scrollWidth>document.documentElement.clientWidth;\
    document.title=JSON.stringify({requests:performance.getEntriesByType('resource').length,\
    plots:plots.length,data:plots.filter(p=>has(p,'details table')).length,\
    named:plots.filter(p=>p.querySelector('title')&&p.querySelector('desc').textContent).length,\
    links:anchors.length,targets:anchors.filter(a=>document.querySelector(a.hash)).length,\
    ids:new Set([...document.querySelectorAll('[id]')].map(e=>e.id)).size===count('[id]'),wide})})</script>";

/// Looks at the measurements: how far down the verdicts end, how long the page is, texts of
/// pictures that are cut off, and whether a table sorts.
const MEASURED: &str = "<script>addEventListener('load',()=>{\
    const table=document.querySelector('main table');const rows=()=>[...table.tBodies[0].rows];\
    const cut=[...document.querySelectorAll('svg text')].filter(t=>{if(!t.getClientRects().length)return false;\
    const own=t.getBoundingClientRect(),box=t.ownerSVGElement.getBoundingClientRect();\
    return own.left<box.left-1||own.right>box.right+1||own.top<box.top-1||own.bottom>box.bottom+1});\
    const verdicts=table.getBoundingClientRect().bottom+scrollY;\
    const height=document.documentElement.scrollHeight;\
    const wide=document.documentElement.scrollWidth>document.documentElement.clientWidth;\
    const words=rows().map(r=>r.cells[1].textContent);const names=()=>rows().map(r=>r.cells[0].textContent);\
    const head=table.tHead.rows[0].cells[0];head.click();const up=names();head.click();\
    const sorts=JSON.stringify(up)===JSON.stringify([...up].sort())&&JSON.stringify(names())===JSON.stringify([...up].reverse());\
    document.title=JSON.stringify({verdicts,height,wide,words,sorts,cut:cut.map(t=>t.textContent),\
    panels:document.querySelectorAll('svg.dots').length,\
    panel:document.querySelector('svg.dots').getBoundingClientRect().width})})</script>";

/// Looks at the advice on the choice of a network: where it begins, whether each link leads to one
/// row, and whether a choice unfolds and shows the row that it leads to.
const CHOICE: &str = "<script>addEventListener('load',()=>{\
    const part=[...document.querySelectorAll('section')].find(s=>s.querySelector('h2')?.textContent==='For who chooses a network');\
    const links=[...part.querySelectorAll('td a')];\
    const rows=links.filter(a=>document.querySelectorAll(a.hash).length===1&&document.querySelector(a.hash).tagName==='TR');\
    const head=part.querySelector('h2').getBoundingClientRect().top+scrollY;\
    const wide=document.documentElement.scrollWidth>document.documentElement.clientWidth;\
    const captions=[...part.querySelectorAll('caption')].map(c=>c.textContent);\
    const target=document.querySelector(links[0].hash);const part_of=target.closest('details'),before=part_of.open;links[0].click();\
    dispatchEvent(new Event('hashchange'));const own=target.getBoundingClientRect();\
    const after=part_of.open&&own.height>0&&own.top>=0&&own.bottom<=innerHeight;\
    document.title=JSON.stringify({links:links.length,rows:rows.length,head,wide,captions,before,after})})</script>";

/// Finds the browser of this machine.
fn browser() -> Option<&'static str> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    if browser.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no chromium here, which CI installs");
        eprintln!(
            "SKIPPED: no chromium here (apt-get install chromium), so nobody looks at the report"
        );
    }
    browser
}

/// Measures briefly over a kind of sockets.
fn measure(folder: &Path, name: &str, benchmark: &str, more: &[&str]) -> String {
    let file = folder.join(format!("{name}-{benchmark}.json")).display().to_string();
    let mut words = vec!["local", benchmark, "--fabric", "tcp", "--name", name, "--json", &file];
    words.extend(["-n", "200", "--blocks", "3", "-q", "--no-host-checks"]);
    let output = Command::new(env!("CARGO_BIN_EXE_efa-bench"))
        .args(words)
        .args(more)
        .output()
        .expect("efa-bench runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

fn report(files: &[String], out: &Path, probe: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_efa-bench"))
        .arg("report")
        .args(files)
        .arg("-o")
        .arg(out)
        .output()
        .expect("efa-bench runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(out).expect("the report");
    std::fs::write(out, html.replace("</head>", &format!("{probe}</head>"))).expect("write");
}

#[test]
fn the_first_screen_says_what_came_of_it() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("tempdir");
    let mut files = Vec::new();
    for name in ["mine", "yours"] {
        files.push(measure(folder.path(), name, "latency", &["--sizes", "8,64,512"]));
        let places = ["--sizes", "16,64,8192", "-d", "1,16"];
        files.push(measure(folder.path(), name, "bandwidth", &places));
    }
    let file = folder.path().join("index.html");
    report(&files, &file, MEASURED);
    // As high as a screen of each width, and four of them at most where the charts stand side by
    // side.
    for (width, screen, page) in
        [("1280", 900.0, 3600.0), ("768", 1024.0, 6000.0), ("500", 1000.0, 9000.0)]
    {
        let found = look(browser, &file, width);
        let number = |name: &str| found[name].as_f64().expect("a number");
        assert!(number("verdicts") < screen, "{width}: {found}");
        assert!(number("height") <= page, "{width}: {found}");
        assert_eq!(found["panels"], 3, "{width}: {found}");
        assert_eq!(
            (&found["wide"], &found["sorts"]),
            (&false.into(), &true.into()),
            "{width}: {found}"
        );
        assert_eq!(found["cut"], serde_json::json!([]), "{width}: {found}");
        let words = found["words"].as_array().expect("verdicts");
        assert!(
            words.len() == 3 && words.iter().all(|own| own.as_str().is_some_and(|w| w.len() > 5)),
            "{found}"
        );
    }
    // One fabric, and one point of it.
    let one = measure(folder.path(), "one", "latency", &["--sizes", "64"]);
    report(&[one], &file, MEASURED);
    let found = look(browser, &file, "1280");
    assert_eq!((&found["panels"], &found["wide"]), (&1.into(), &false.into()), "{found}");
    assert!(found["panel"].as_f64().is_some_and(|width| width < 640.0), "{found}");
}

#[test]
fn who_chooses_a_network_is_led_to_each_figure() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("tempdir");
    let mut files = Vec::new();
    for name in ["mine", "yours"] {
        files.push(measure(folder.path(), name, "rpc", &["--keys", "100", "-d", "1,8"]));
        let rates = ["--keys", "100", "-d", "8", "--rate", "1000,4000"];
        files.push(measure(folder.path(), name, "kv", &rates));
    }
    let file = folder.path().join("index.html");
    report(&files, &file, CHOICE);
    for width in ["1280", "768", "390"] {
        let found = look(browser, &file, width);
        let number = |name: &str| found[name].as_f64().expect("a number");
        assert!(number("links") >= 12.0 && number("links") == number("rows"), "{width}: {found}");
        assert_eq!(found["captions"].as_array().map(Vec::len), Some(2), "{width}: {found}");
        assert_eq!((&found["wide"], &found["after"]), (&false.into(), &true.into()), "{found}");
        assert_eq!(found["before"], false, "it was folded: {found}");
        // Right after the first screen.
        assert!(number("head") < 2500.0, "{width}: {found}");
    }
}

#[test]
fn the_report_is_whole_in_a_browser() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("tempdir");
    let file = folder.path().join("index.html");
    let report = Command::new(env!("CARGO_BIN_EXE_efa-bench"))
        .args(["report", "-o"])
        .arg(&file)
        .output()
        .expect("efa-bench runs");
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let html = std::fs::read_to_string(&file).expect("the report");
    std::fs::write(&file, html.replace("</head>", &format!("{PROBE}</head>"))).expect("write");
    for width in ["1000", "400"] {
        let found = look(browser, &file, width);
        let number = |name: &str| found[name].as_u64().expect("a number");
        assert_eq!(number("requests"), 0, "{found}");
        assert!(number("plots") > 30, "{found}");
        assert_eq!(number("plots"), number("data"), "a plot without its data table: {found}");
        assert_eq!(number("plots"), number("named"), "a plot without words: {found}");
        assert!(number("links") > 30 && number("links") == number("targets"), "{found}");
        assert_eq!(
            (&found["ids"], &found["wide"]),
            (&true.into(), &false.into()),
            "{width}: {found}"
        );
    }
}

/// Returns what the probe found.
fn look(browser: &str, file: &Path, width: &str) -> serde_json::Value {
    let profile = tempfile::tempdir().expect("tempdir");
    let output = Command::new("timeout")
        .args(["60", browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{browser}: {said}");
    assert!(!said.contains("CONSOLE"), "an error in the page: {said}");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let title = title.map(|(title, _)| title).expect("a title");
    serde_json::from_str(title).unwrap_or_else(|error| panic!("{error}: {title}"))
}
