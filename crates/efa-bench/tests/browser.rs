//! The report in a browser: headless Chromium loads it and a script of ours looks at it.

use std::path::Path;
use std::process::Command;

/// Runs after the page has loaded and puts what it found into the title. Any request of the page, to files too, is a
/// resource entry.
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

#[test]
fn the_report_is_whole_in_a_browser() {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(browser) = browser else {
        assert!(std::env::var_os("CI").is_none(), "no chromium here, which CI installs");
        eprintln!(
            "SKIPPED: no chromium here (apt-get install chromium), so nobody looks at the report"
        );
        return;
    };
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

/// What the probe found.
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
