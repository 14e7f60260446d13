//! The files of `examples/cluster`: they parse, they ask for EFA if they say so, their commands are
//! those of `efa-bench`, and the one that needs no service is run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{Ended, PROGRAM, efa_bench, read_json};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/cluster").join(name)
}

/// Reads a YAML file as JSON; `None` without PyYAML, which CI does not allow.
fn yaml(name: &str) -> Option<Value> {
    let program =
        "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let output = Ended::of(Command::new("python3").args(["-c", program]).arg(example(name)));
    if output.errors().contains("No module named") && std::env::var_os("CI").is_none() {
        eprintln!("SKIPPED: no PyYAML here (python3-yaml)");
        return None;
    }
    Some(output.json())
}

/// Checks that what follows `efa-bench` in a container's command is a valid command: a rank that
/// finds no other one ends with the code for that.
#[track_caller]
fn assert_is_ours(command: &Value, more: &[&str]) {
    let words: Vec<&str> =
        command.as_array().expect("a command").iter().filter_map(Value::as_str).collect();
    let at = words.iter().position(|word| *word == "efa-bench").expect("efa-bench in it");
    let folder = tempfile::tempdir().expect("tempdir");
    let folder = folder.path().to_str().expect("utf-8");
    let words = words[at + 1..].iter().map(|word| if *word == "/shared" { folder } else { word });
    let words: Vec<&str> = words.chain(more.iter().copied()).collect();
    let mut all = words.clone();
    if !words.contains(&"--rendezvous") {
        all.extend(["--rendezvous", folder, "--ranks", "2"]);
    }
    let output = efa_bench([&all[..], &["--rank", "0", "--join-timeout", "0.2"]].concat());
    let said = output.errors();
    assert_eq!(output.status.code(), Some(4), "{all:?}: {said}");
    assert!(said.contains("no word from rank 1 of 2"), "{said}");
}

/// Checks that each interface is a whole one, and that registered memory may be locked.
#[track_caller]
fn assert_has_efa(container: &Value) {
    assert_eq!(container["resources"]["limits"]["vpc.amazonaws.com/efa"], 1, "{container}");
    assert_eq!(container["securityContext"]["capabilities"]["add"][0], "IPC_LOCK", "{container}");
}

#[test]
fn the_mpi_job_starts_one_rank_in_each_pod_with_efa() {
    let Some(job) = yaml("mpijob.yaml") else { return };
    assert_eq!(
        (&job["apiVersion"], &job["kind"]),
        (&"kubeflow.org/v2beta1".into(), &"MPIJob".into())
    );
    let replicas = &job["spec"]["mpiReplicaSpecs"];
    let containers = |of: &str| &replicas[of]["template"]["spec"]["containers"];
    assert_is_ours(&containers("Launcher")[0]["command"], &[]);
    assert_has_efa(&containers("Worker")[0]);
    assert_eq!(replicas["Worker"]["replicas"], 2);
    let image = |of: &str| containers(of)[0]["image"].clone();
    assert_eq!(image("Launcher"), image("Worker"));
}

#[test]
fn the_indexed_job_has_a_number_for_each_pod_and_a_common_volume() {
    let Some(job) = yaml("indexed-job.yaml") else { return };
    assert_eq!((&job["apiVersion"], &job["kind"]), (&"batch/v1".into(), &"Job".into()));
    let spec = &job["spec"];
    assert_eq!(spec["completionMode"], "Indexed");
    assert_eq!(spec["completions"], spec["parallelism"], "all pods at once");
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    assert_has_efa(container);
    assert_is_ours(&container["command"], &[]);
    assert_eq!(container["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
}

#[test]
fn the_aws_cluster_has_efa_in_a_placement_group() {
    let Some(cluster) = yaml("pcluster.yaml") else { return };
    let scheduling = &cluster["Scheduling"];
    assert_eq!(scheduling["Scheduler"], "slurm");
    let queue = &scheduling["SlurmQueues"][0];
    assert_eq!(queue["ComputeResources"][0]["Efa"]["Enabled"], true);
    assert_eq!(queue["Networking"]["PlacementGroup"]["Enabled"], true);
    assert_eq!(cluster["SharedStorage"][0]["MountDir"], "/shared");
}

#[test]
fn the_shell_scripts_are_sound() {
    let found = Command::new("shellcheck").args(["ssh.sh", "slurm.sbatch"].map(example)).output();
    match found {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        Err(_) if std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED: no shellcheck here (shellcheck)");
        }
        Err(error) => panic!("shellcheck: {error}"),
    }
}

#[test]
fn the_loop_over_hosts_measures_between_them() {
    let folder = tempfile::tempdir().expect("tempdir");
    // The remote host is this one.
    let remote = folder.path().join("remote");
    std::fs::write(&remote, "#!/bin/sh\nshift\nexec \"$@\"\n").expect("written");
    std::fs::set_permissions(&remote, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let json = folder.path().join("l.json");
    let benchmark = format!(
        "latency --fabric tcp -n 200 -s 64 --validate --no-host-checks --json {}",
        json.display()
    );
    let mut script = Command::new(example("ssh.sh"));
    script.arg(folder.path()).args(["here", "there"]).env("REMOTE", &remote);
    Ended::of(script.env("EFA_BENCH", PROGRAM).env("BENCHMARK", benchmark)).assert_done();
    assert_eq!(read_json(&json)["runs"][0]["points"][0]["validated"], 301);
}
