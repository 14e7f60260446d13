//! The environment variables by which launchers describe this process.

use super::Seat;

/// The variables with the rank and the number of ranks, by launcher: Open MPI, MPICH and others
/// that speak PMI, Slurm. Within a Slurm job, each rank of another launcher has the variables of
/// the job, too.
const VARIABLES: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];
/// The variable with the number of a pod of an indexed Kubernetes job; it does not say how many
/// pods there are.
const POD_INDEX: &str = "JOB_COMPLETION_INDEX";

/// Returns the given seat, completed by what `variable` answers.
///
/// # Errors
/// Names what is missing or impossible.
pub(super) fn seat(
    rank: Option<usize>,
    ranks: Option<usize>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Seat, String> {
    let number = |name: &str| variable(name)?.parse::<usize>().ok();
    let told = VARIABLES.iter().find_map(|(rank, ranks)| Some((number(rank)?, number(ranks)?)));
    let rank = rank.or_else(|| told.map(|t| t.0)).or_else(|| number(POD_INDEX));
    let ranks = ranks.or_else(|| told.map(|t| t.1));
    match (rank, ranks) {
        (Some(rank), Some(ranks)) if rank < ranks => Ok(Seat { rank, ranks }),
        (Some(rank), Some(ranks)) => Err(format!(
            "rank {rank} of {ranks}: ranks are numbered from 0 to {}",
            ranks.saturating_sub(1)
        )),
        (None, _) => Err("--rendezvous: which rank is this? Give --rank (0 measures)".to_owned()),
        (_, None) => Err("--rendezvous: of how many ranks? Give --ranks".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(
        rank: Option<usize>,
        ranks: Option<usize>,
        set: &[(&str, &str)],
    ) -> Result<Seat, String> {
        seat(rank, ranks, |name| {
            set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn options_come_before_launchers() {
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4")];
        assert_eq!(with(None, None, &slurm), Ok(Seat { rank: 3, ranks: 4 }));
        assert_eq!(with(Some(1), None, &slurm), Ok(Seat { rank: 1, ranks: 4 }));
        assert_eq!(with(Some(0), Some(2), &slurm), Ok(Seat { rank: 0, ranks: 2 }));
        let pod = [("JOB_COMPLETION_INDEX", "1")];
        assert_eq!(with(None, Some(2), &pod), Ok(Seat { rank: 1, ranks: 2 }));
        // A step of fewer tasks than the job.
        let step = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "2")];
        assert_eq!(with(None, None, &step), Ok(Seat { rank: 1, ranks: 2 }));
    }

    /// The ranks of Hydra are not all rank 0 of the job.
    #[test]
    fn the_launcher_comes_before_the_job_that_it_runs_in() {
        let job = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1"), ("SLURM_STEP_NUM_TASKS", "1")];
        let hydra = [&job[..], &[("PMI_RANK", "2"), ("PMI_SIZE", "4")]].concat();
        assert_eq!(with(None, None, &hydra), Ok(Seat { rank: 2, ranks: 4 }));
        let open_mpi =
            [&job[..], &[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")]].concat();
        assert_eq!(with(None, None, &open_mpi), Ok(Seat { rank: 3, ranks: 4 }));
    }

    #[test]
    fn what_is_missing_is_asked_for() {
        for (rank, ranks, words) in [
            (None, Some(2), "--rank "),
            (Some(1), None, "--ranks"),
            (Some(2), Some(2), "from 0 to 1"),
            (Some(0), Some(0), "from 0 to 0"),
        ] {
            let error = with(rank, ranks, &[]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(with(None, None, &[("PMI_RANK", "x"), ("PMI_SIZE", "2")]).is_err());
    }
}
