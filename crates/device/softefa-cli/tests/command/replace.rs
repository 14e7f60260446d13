//! `--replace-verbs`: programs that the system's libibverbs cannot serve.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{LIMIT, Launcher, Outcome, has, is_root, softefa};

/// A program that needs version nodes that are newer than those of most systems' libraries.
const NEWER: &str = r#"
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>

int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
int efadv_query_cq(struct ibv_cq *cq, void *attr, uint32_t inlen);

int main(void)
{
	int count = 0;
	uint64_t speed = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	if (!list || count != 1)
		return 1;
	struct ibv_context *context = ibv_open_device(list[0]);
	if (!context || ibv_query_port_speed(context, 1, &speed) != 0 || speed != 1000)
		return 2;
	if (efadv_query_cq(0, 0, 0) != EOPNOTSUPP)
		return 3;
	ibv_free_device_list(list);
	return ibv_close_device(context) ? 4 : 0;
}
"#;

fn replacements() -> PathBuf {
    softefa().with_file_name("replace-verbs")
}

/// Compiles [`NEWER`] in `dir` against the versioned libraries, which take the place of those of a
/// newer rdma-core.
fn build_newer(dir: &Path) -> String {
    let [source, program] = ["newer.c", "newer"].map(|name| dir.join(name));
    std::fs::write(&source, NEWER).unwrap();
    let search = format!("-L{}", replacements().display());
    let status = Command::new("cc")
        .args([&source, Path::new("-o"), &program])
        .args([&search, "-lefa", "-libverbs", "-Wl,--allow-shlib-undefined"])
        .status()
        .unwrap();
    assert!(status.success(), "cc refused the program");
    program.to_str().unwrap().to_owned()
}

fn run(options: &str) -> Outcome {
    let launcher = Launcher::new(options);
    let program = build_newer(launcher.runtime_dir());
    launcher.start_words("newer", &[&program]).wait(LIMIT)
}

#[test]
fn program_built_against_a_newer_libibverbs_runs() {
    run("").assert_clean();
    run("--replace-verbs").assert_clean();
    let refused = run("--replace-verbs=no");
    assert_ne!(refused.code, 0, "{refused}");
    assert!(refused.stderr.contains("IBVERBS_1.16"), "{refused}");
}

#[test]
fn search_path_is_changed_only_for_who_wants_it() {
    let path = |options: &str| {
        let outcome = Launcher::new(options).run("env");
        let line = outcome.stdout.lines().find(|line| line.starts_with("LD_LIBRARY_PATH="));
        line.map(str::to_owned).unwrap_or_default()
    };
    let ours = replacements().canonicalize().unwrap();
    assert!(path("").contains(ours.to_str().unwrap()));
    assert!(!path("--replace-verbs=no").contains(ours.to_str().unwrap()));
}

#[test]
fn missing_replacements_are_told_to_who_asked_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libsoftefa_verbs.so");
    std::fs::copy(softefa().with_file_name("libsoftefa_verbs.so"), &library).unwrap();
    let library = format!("--library {}", library.display());
    Launcher::new(&library).run("true").assert_clean();
    let outcome = Launcher::new(&format!("{library} --replace-verbs")).run("true");
    assert_eq!(outcome.code, 125, "{outcome}");
    assert!(outcome.stderr.contains("replace-verbs"), "{outcome}");
}

/// Hides the files named behind it (in a mount namespace of its own) and lists the device.
const HIDE_AND_LIST: &str =
    "for file; do mount --bind /dev/null \"$file\" || exit 9; done; exec fi_info -p efa";

/// Returns the library that `cc` links for a name.
fn system_library(name: &str) -> String {
    let option = format!("-print-file-name={name}");
    let output = Command::new("cc").arg(option).output().unwrap();
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn machine_without_rdma_core_has_the_device() {
    if !has("fi_info") || !has("unshare") || !is_root("mount namespaces") {
        return;
    }
    let hidden = ["libibverbs.so.1", "libefa.so.1"].map(system_library);
    let words = ["unshare", "--mount", "sh", "-c", HIDE_AND_LIST, "sh", &hidden[0], &hidden[1]];
    let run = |options| Launcher::new(options).start_words("fi_info", &words).wait(LIMIT);
    let outcome = run("");
    outcome.assert_clean();
    assert!(outcome.stdout.contains("rdmap0s6-rdm"), "{outcome}");
    let outcome = run("--replace-verbs=no");
    assert_eq!(outcome.code, 127, "the loader does not find the libraries\n{outcome}");
}
