//! A machine that has neither libfabric nor libibverbs: a folder with the program and the libraries
//! that it is linked with, seen as the root of all files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{PROGRAM, alone, assert_fails, softefa};
use tempfile::TempDir;

struct Machine {
    root: TempDir,
}

impl Machine {
    fn with(programs: &[&Path]) -> Self {
        let root = tempfile::tempdir().expect("tempdir");
        let this = Self { root };
        for folder in ["proc", "dev", "tmp", "bin"] {
            std::fs::create_dir(this.inside(folder)).expect("a folder");
        }
        for program in programs {
            let name = program.file_name().expect("a name").to_str().expect("text");
            std::fs::copy(program, this.inside("bin").join(name)).expect("a copy");
            this.bring_libraries_of(program);
        }
        this
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn bring_libraries_of(&self, program: &Path) {
        let output = Command::new("ldd").arg(program).output().expect("ldd starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
        for path in paths {
            let copy = self.inside(path);
            std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
            std::fs::copy(path, copy).expect("a copy");
        }
    }

    /// Runs a program there, with the processes and devices of this machine.
    fn run(&self, words: &[&str]) -> Output {
        const ENTER: &str = "mount --rbind /proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && \
                             exec chroot \"$0\" \"$@\"";
        let mut unshare = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        unshare.args(["--mount", "sh", "-c", ENTER]).arg(self.root.path()).args(words);
        unshare.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
        unshare
            .env("TMPDIR", "/tmp")
            .env("XDG_RUNTIME_DIR", "/tmp")
            .env("PATH", "/bin:/usr/bin:/usr/sbin:/sbin");
        unshare.output().expect("unshare starts")
    }
}

const SHORT: [&str; 6] = ["-s", "64", "-n", "20", "--json", "/tmp/found.json"];

fn local(fabric: &str) -> Vec<&str> {
    let words = ["/bin/efa-bench", "local", "latency", "--no-host-checks", "--fabric", fabric];
    words.into_iter().chain(SHORT).collect()
}

fn assert_done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn sockets_are_measured_and_reports_rendered_without_libfabric() {
    let machine = Machine::with(&[Path::new(PROGRAM)]);
    assert_done(&machine.run(&local("sockets:tcp")));
    let found = std::fs::read_to_string(machine.inside("/tmp/found.json")).expect("a result");
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(found["libfabric"], "", "it was not there");
    let report = ["/bin/efa-bench", "report", "/tmp/found.json", "-o", "/tmp/report.html"];
    assert_done(&machine.run(&report));
    let page = std::fs::read_to_string(machine.inside("/tmp/report.html")).expect("a page");
    assert!(page.contains("no libfabric"), "the page says what the machine had");
}

#[test]
fn a_fabric_whose_library_is_missing_is_one_line_with_its_package() {
    let machine = Machine::with(&[Path::new(PROGRAM)]);
    let words = ["libfabric.so.1", "install libfabric1"];
    assert_fails(&machine.run(&local("libfabric:tcp")), 3, &words);
    assert_fails(&machine.run(&["/bin/efa-bench", "info", "libfabric:tcp"]), 3, &words);
    let words = ["libibverbs.so.1", "install ibverbs-providers"];
    assert_fails(&machine.run(&local("verbs:rc")), 3, &words);
}

/// Neither libfabric nor libibverbs is there: the adapter that is preloaded has all functions.
#[test]
fn a_preloaded_adapter_is_measured_without_either_library() {
    let library = softefa().with_file_name("libsoftefa_verbs.so");
    let machine = Machine::with(&[Path::new(PROGRAM), softefa(), &library]);
    let mut words = vec!["/bin/softefa", "run", "--"];
    words.extend(local("verbs:srd"));
    let _alone = alone();
    assert_done(&machine.run(&words));
}
