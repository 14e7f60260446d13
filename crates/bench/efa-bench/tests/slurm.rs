//! Ranks under Slurm: Debian's slurmctld, slurmd and munged, started here in a folder of their own
//! on ports of their own, and ended with the test. `make slurm` runs it; elsewhere it skips itself.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::PROGRAM;

/// Daemons and jobs of a busy machine take a while; nothing here takes this long if all is well.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two questions whether something has happened, in milliseconds.
const ASK_EVERY_MS: u64 = 50;

/// A cluster of one node with two processors' worth of tasks.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<(PathBuf, Child)>,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("slurm-").tempdir().expect("tempdir");
        let mut this = Self { folder, daemons: Vec::new() };
        for name in ["state", "spool"] {
            fs::create_dir(this.path(name)).expect("folder");
        }
        let key: Vec<u8> = (0..1024_u32).map(|i| (i * 167 + std::process::id()) as u8).collect();
        fs::write(this.path("munge.key"), key).expect("key");
        let only_ours = fs::Permissions::from_mode(0o400);
        fs::set_permissions(this.path("munge.key"), only_ours).expect("permissions");
        this.configure();
        let file = |name: &str| this.path(name).display().to_string();
        let munged = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            format!("--key-file={}", file("munge.key")),
            format!("--socket={}", file("munge.socket")),
            format!("--pid-file={}", file("munged.pid")),
            format!("--seed-file={}", file("munged.seed")),
            format!("--log-file={}", file("munged.log")),
        ];
        let configuration = file("slurm.conf");
        this.daemon("munged", &munged);
        let socket = this.path("munge.socket");
        this.wait("munged listens", || socket.exists());
        this.daemon("slurmctld", &["-D".to_owned(), "-f".to_owned(), configuration.clone()]);
        let slurmd = ["-D", "-f", &configuration, "-N", "node"].map(str::to_owned);
        this.daemon("slurmd", &slurmd);
        this.wait("the node is idle", || {
            let output = this.slurm("sinfo", &["--noheader", "--format=%T"]).output();
            output.is_ok_and(|output| output.stdout.starts_with(b"idle"))
        });
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self) {
        let (folder, host) = (self.folder.path().display(), hostname());
        let [control, node] = free_ports();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\nSlurmctldPort={control}\n\
             SlurmdPort={node}\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nReturnToService=2\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nMailProg=/bin/true\n\
             NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=all Nodes=node Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES:8\n"
        );
        fs::write(self.path("slurm.conf"), text).expect("configuration");
    }

    fn daemon(&mut self, program: &str, arguments: &[String]) {
        let said = self.path(&format!("{program}.said"));
        let to = fs::File::create(&said).expect("file");
        let child = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", self.path("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(to.try_clone().expect("file"))
            .stderr(to)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; `make slurm` installs it"));
        self.daemons.push((said, child));
    }

    /// Returns a command of Slurm for this cluster.
    fn slurm(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.path("slurm.conf"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn wait(&self, what: &str, mut has_come: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !has_come() {
            assert!(Instant::now() < deadline, "not yet: {what}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(ASK_EVERY_MS));
        }
    }

    fn logs(&self) -> String {
        let names = ["munged.said", "slurmctld.said", "slurmctld.log", "slurmd.said", "slurmd.log"];
        let log = |name: &str| {
            format!("== {name}\n{}", fs::read_to_string(self.path(name)).unwrap_or_default())
        };
        names.map(log).concat()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, daemon) in self.daemons.iter_mut().rev() {
            let pid = rustix::process::Pid::from_child(daemon);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let deadline = Instant::now() + Duration::from_secs(10);
            while Instant::now() < deadline && matches!(daemon.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(ASK_EVERY_MS));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned()
}

/// Returns two ports that nobody has.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("0.0.0.0:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("bound").port())
}

#[track_caller]
fn points(output: &Output, json: &[u8], logs: &str) -> Vec<serde_json::Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{logs}");
    let results: serde_json::Value = serde_json::from_slice(json).expect("JSON");
    assert_eq!(results["runs"][0]["complete"], true, "{said}");
    results["runs"][0]["points"].as_array().expect("points").clone()
}

#[test]
fn ranks_of_srun_and_of_the_batch_script_find_each_other() {
    if std::env::var_os("SOFTEFA_SLURM").is_none() {
        eprintln!("SKIPPED: `make slurm` runs this");
        return;
    }
    assert!(rustix::process::getuid().is_root(), "slurmd starts jobs of users: run as root");
    let cluster = Cluster::start();
    let measure = "run latency --fabric tcp -n 200 -s 64 --validate --no-host-checks --json -";
    let words: Vec<&str> = measure.split(' ').collect();
    let ranks = ["--mpi=pmix", "--overcommit", "-n", "2", PROGRAM];
    let output = cluster.slurm("srun", &[&ranks[..], &words].concat()).output().expect("srun");
    let found = points(&output, &output.stdout, &cluster.logs());
    assert_eq!(found[0]["validated"], 301);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rank 0 of 2 by OpenPMIx"), "{said}");

    // Without PMIx the ranks know their numbers from Slurm's variables.
    let folder = cluster.folder.path().display().to_string();
    let ranks = ["--mpi=none", "--overcommit", "-n", "2", PROGRAM];
    let rendezvous = ["--rendezvous", folder.as_str()];
    let words = [&ranks[..], &words, &rendezvous].concat();
    let output = cluster.slurm("srun", &words).output().expect("srun");
    assert_eq!(points(&output, &output.stdout, &cluster.logs())[0]["validated"], 301);

    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/cluster/slurm.sbatch");
    let script = script.canonicalize().expect("the script").display().to_string();
    let one_node = ["--wait", "--nodes=1", "--ntasks-per-node=2", "--overcommit", "--job-name=t"];
    let output = cluster
        .slurm("sbatch", &[&one_node[..], &["--output=log.txt", &script]].concat())
        .env("FABRIC", "tcp")
        .env("EFA_BENCH", PROGRAM)
        .env("OPTIONS", "-n 200 -s 64 --no-host-checks")
        .env("OUT", cluster.folder.path())
        .output()
        .expect("sbatch");
    let log = fs::read_to_string(cluster.path("log.txt")).unwrap_or_default() + &cluster.logs();
    let files = fs::read_dir(cluster.folder.path()).expect("folder").flatten();
    let mut names: Vec<String> =
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".json") || name.ends_with(".html"));
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}\n{log}");
    for name in names.iter().filter(|name| name.ends_with(".json")) {
        let json = fs::read(cluster.path(name)).expect("a result file");
        assert_eq!(points(&output, &json, &log).len(), 1, "{name}");
    }
}
