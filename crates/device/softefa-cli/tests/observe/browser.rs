//! Pages in headless Chromium, which are examined by a script of ours.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Returns the browser of this machine.
pub(crate) fn browser() -> Option<&'static str> {
    let works = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(works);
    if found.is_none() {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!ci, "no chromium here, which CI installs");
        eprintln!("SKIPPED, NOT TESTED: no chromium (apt-get install chromium)");
    }
    found
}

/// Returns the result of `probe`, a script that returns a value, on the page in `file` when it has
/// loaded. An error or any message of the page fails the test.
pub(crate) fn look(browser: &str, file: &Path, width: u32, probe: &str) -> Value {
    let page = fs::read_to_string(file).unwrap();
    // From then on frames are drawn at once, because nothing waits for the next one here.
    let script = format!(
        "<script>addEventListener('load',()=>{{requestAnimationFrame=act=>{{act();return 1}};\
         document.title=JSON.stringify((()=>{{{probe}}})())}})</script>"
    );
    let probed = file.with_extension("probed.html");
    fs::write(&probed, page.replacen("</head>", &format!("{script}</head>"), 1)).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["60", browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-quic", "--enable-logging=stderr", "--dump-dom"])
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
