//! The shortages and their degrees.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use report::shell_word;

use super::group::Cgroup;
use crate::experiments::Context;
use crate::tool;

/// The directory of the command in the mount namespace of the script.
const ELSEWHERE: &str = "/mnt";

/// A resource that is missing.
pub(super) struct Shortage {
    pub(super) name: &'static str,
    pub(super) variants: Vec<Variant>,
    /// The kernel may kill a process for lack of it.
    pub(super) kernel_kills: bool,
}

impl Shortage {
    pub(super) fn new(name: &'static str, variants: Vec<Variant>) -> Self {
        Self { name, variants, kernel_kills: false }
    }
}

/// A degree of a shortage.
pub(super) struct Variant {
    pub(super) name: String,
    /// A shell script that runs in a mount namespace of its program before the program.
    script: Option<String>,
    nofile: Option<u64>,
    seccomp: bool,
    cgroup: Option<Cgroup>,
}

impl Variant {
    fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), script: None, nofile: None, seccomp: false, cgroup: None }
    }

    /// Returns a command that writes to `mark` as it starts `softefa`; the arguments are to be
    /// added.
    pub(super) fn command(&self, mark: &str, softefa: &Path) -> Result<Command> {
        let program = tool::this_program();
        let mut command = match &self.script {
            None => Command::new(&program),
            Some(script) => {
                let mut command = Command::new("unshare");
                let script = match hidden_by(script, softefa) {
                    Some(dir) => format!("mount --bind {dir} {ELSEWHERE}; {script}; exec \"$@\""),
                    None => format!("{script}; exec \"$@\""),
                };
                command.args([
                    "--mount",
                    "--propagation",
                    "private",
                    "sh",
                    "-ec",
                    &script,
                    "sh",
                    &program,
                ]);
                command
            }
        };
        command.args(["confine", "--mark", mark]).args(self.seccomp.then_some("--seccomp"));
        command.args(self.nofile.map(|most| format!("--nofile={most}")));
        if let Some(cgroup) = &self.cgroup {
            command.arg("--cgroup").arg(&cgroup.dir);
        }
        // Keeps only what the script sets: the runtime directory of a login would serve as well as
        // /tmp.
        command.env_remove("XDG_RUNTIME_DIR").arg("--");
        let is_hidden = self.script.as_deref().and_then(|script| hidden_by(script, softefa));
        match (is_hidden, softefa.file_name()) {
            (Some(_), Some(name)) => command.arg(Path::new(ELSEWHERE).join(name)),
            _ => command.arg(softefa),
        };
        Ok(command)
    }
}

/// Returns the folder of `softefa`, quoted for the shell, if a script mounts something over it: a
/// checkout may lie in /tmp.
fn hidden_by(script: &str, softefa: &Path) -> Option<String> {
    let dir = softefa.parent().filter(|_| script.ends_with("none /tmp"))?;
    dir.starts_with("/tmp").then(|| shell_word(&dir.to_string_lossy()))
}

/// Returns all shortages.
pub(super) fn all(context: &Context) -> Vec<Shortage> {
    let mut all = vec![
        Shortage::new(super::CONTROL, vec![Variant::new("as it is")]),
        disk(context),
        descriptors(context),
        Shortage::new(
            "read-only /tmp, no XDG_RUNTIME_DIR",
            vec![Variant {
                script: Some("mount -t tmpfs -o ro none /tmp".to_owned()),
                ..Variant::new("read-only /tmp")
            }],
        ),
        Shortage::new(
            "no /dev/shm",
            vec![
                Variant {
                    script: Some(
                        "umount -l /dev/shm; rmdir /dev/shm 2>/dev/null || true".to_owned(),
                    ),
                    ..Variant::new("not mounted")
                },
                Variant {
                    script: Some("mount -t tmpfs -o ro none /dev/shm".to_owned()),
                    ..Variant::new("read-only")
                },
            ],
        ),
        Shortage::new(
            "system calls refused (process_vm_*, memfd_create, io_uring, unshare, perf, bpf, ...)",
            vec![Variant { seccomp: true, ..Variant::new("refused with EPERM") }],
        ),
    ];
    all.extend(groups(context));
    all
}

fn disk(context: &Context) -> Shortage {
    let sizes: &[u32] = context.pick(&[4, 128], &[4, 8, 16, 32, 64, 96, 128, 192, 256, 512]);
    let variant = |size: &u32| Variant {
        script: Some(format!("mount -t tmpfs -o size={size}k none /tmp")),
        ..Variant::new(format!("{size} KiB of disk"))
    };
    Shortage::new("disk full (a small /tmp)", sizes.iter().map(variant).collect())
}

fn descriptors(context: &Context) -> Shortage {
    let limits: Vec<u64> = context.pick(vec![4, 12, 24], (3..=48).collect());
    let variant =
        |most: u64| Variant { nofile: Some(most), ..Variant::new(format!("{most} descriptors")) };
    Shortage::new("descriptors short (RLIMIT_NOFILE)", limits.into_iter().map(variant).collect())
}

/// The list is without variants where this machine has no such controller.
fn groups(context: &Context) -> [Shortage; 2] {
    let memory_kib: &[u64] =
        context.pick(&[512, 8192], &[128, 256, 512, 768, 1024, 1280, 1536, 2048, 4096, 8192]);
    let pids: &[u64] = context.pick(&[1, 4], &[1, 2, 3, 4, 5, 6, 8, 16]);
    let memory = memory_kib.iter().filter_map(|kib| {
        let bytes = (kib << 10).to_string();
        let files = ["memory.limit_in_bytes", "memory.max"];
        let cgroup = Some(Cgroup::with("memory", files, &bytes)?);
        Some(Variant { cgroup, ..Variant::new(format!("{kib} KiB")) })
    });
    let pids = pids.iter().filter_map(|most| {
        let cgroup = Some(Cgroup::with("pids", ["pids.max", "pids.max"], &most.to_string())?);
        Some(Variant { cgroup, ..Variant::new(format!("{most} tasks")) })
    });
    [
        Shortage { kernel_kills: true, ..Shortage::new("memory limit (cgroup)", memory.collect()) },
        Shortage::new("pids limit (cgroup)", pids.collect()),
    ]
}
