//! The script that runs a sweep as an array of Slurm tasks.

use super::plan::Plan;
use crate::cli::SweepArgs;
use anyhow::{Context, Result};
use report::shell_word;

/// Returns a script for `sbatch`. Runs that are finished are skipped, so it may be submitted again.
pub(super) fn script(args: &SweepArgs, tasks: u32) -> Result<String> {
    let runs = Plan::new(&args.scenarios, &args.set, args.seeds.as_ref())?.units.len();
    let folder = std::env::current_dir().context("cannot tell the current folder")?;
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let program = shell_word(&program.to_string_lossy());
    let folder = shell_word(&folder.to_string_lossy());
    let tasks = (tasks as usize).min(runs);
    let sweep = arguments(args);
    let cpus = args.jobs.unwrap_or(1);
    Ok(format!(
        "#!/usr/bin/env bash\n\
         #SBATCH --job-name=netsim-sweep\n\
         #SBATCH --array=1-{tasks}\n\
         #SBATCH --cpus-per-task={cpus}\n\
         # {runs} runs in {tasks} tasks, in a folder that all machines see. What is finished is\n\
         # skipped, so submitting this again resumes. Afterwards, for the tables:\n\
         #   netsim {sweep}\n\
         set -euo pipefail\n\
         cd {folder}\n\
         exec {program} {sweep} \\\n  \
         --jobs \"${{SLURM_CPUS_PER_TASK:-1}}\" --part \"${{SLURM_ARRAY_TASK_ID:?}}/{tasks}\"\n"
    ))
}

/// Returns the arguments of the sweep itself.
fn arguments(args: &SweepArgs) -> String {
    let mut words = vec!["sweep".to_owned()];
    words.extend(args.scenarios.iter().map(|path| shell_word(&path.to_string_lossy())));
    for setting in &args.set {
        let values: Vec<&str> = setting.values.iter().map(|(word, _)| word.as_str()).collect();
        let text = format!("{}={}", setting.field, values.join(","));
        words.push(format!("--set {}", shell_word(&text)));
    }
    if let Some(seeds) = &args.seeds {
        let seeds: Vec<String> = seeds.0.iter().map(u64::to_string).collect();
        words.push(format!("--seeds {}", seeds.join(",")));
    }
    if let Some(folder) = &args.out {
        words.push(format!("--out {}", shell_word(&folder.to_string_lossy())));
    }
    words.join(" ")
}
