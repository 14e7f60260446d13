//! Ranks that a launcher started find each other: rank 0 measures, all others serve.
//!
//! Each server pins its [`RankAddress`] to a [`Rendezvous`] that all ranks can read. Rank 0 takes
//! every server on a [`Lifeline`], a connection that lasts until it is done: so it knows that they
//! can be reached, and they know when to end, whatever happens to rank 0.

mod address;
mod environment;
mod lifeline;
mod rendezvous;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bench_engine::server::Server;
use bench_engine::target::Target;
use bench_record::failure::Failure;
use clap::Args;

use address::RankAddress;
use lifeline::{Lifeline, LifelineListener};
use rendezvous::Rendezvous;

/// How ranks find each other.
#[derive(Debug, Clone, Args)]
pub(crate) struct RanksArgs {
    /// Find the other ranks by files in this folder, which all hosts share, where no launcher
    /// speaks PMIx.
    #[arg(long, value_name = "DIR")]
    pub(crate) rendezvous: Option<PathBuf>,
    /// With --rendezvous: this process's number from 0; default: what Slurm, MPI launchers or
    /// Kubernetes say.
    #[arg(long, requires = "rendezvous")]
    pub(crate) rank: Option<usize>,
    /// With --rendezvous: how many ranks there are; default: as for --rank.
    #[arg(long, requires = "rendezvous")]
    pub(crate) ranks: Option<usize>,
    /// Address at which this host's rank is reached by the others; default: the one the routing
    /// table chooses.
    #[arg(long, value_name = "IP")]
    pub(crate) address: Option<IpAddr>,
    /// Wait so many seconds for all ranks.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) join_timeout: f64,
}

/// The rank of this process, and the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    rank: usize,
    ranks: usize,
}

/// A server as rank 0 sees it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) rank: usize,
    /// The name that the server's host gives itself.
    pub(crate) host: String,
    pub(crate) target: Target,
}

/// Takes part in the job: as rank 0 runs `measure` with the servers in the order of their ranks, as
/// another rank serves until rank 0 is done.
pub(crate) fn run(
    args: &RanksArgs,
    quiet: bool,
    measure: impl FnOnce(&[Member]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let patience =
        Duration::from_millis(crate::cli::millis("--join-timeout", args.join_timeout, 0.1)?);
    let deadline = Instant::now() + patience;
    let Some(mut rendezvous) = Rendezvous::open(args, deadline)? else {
        return Err(Failure::Usage(
            "no --host: name the host a server runs on, or start two or more ranks with mpirun or \
             `srun --mpi=pmix`, or give --rendezvous DIR"
                .to_owned(),
        ));
    };
    let seat = rendezvous.seat();
    if seat.ranks < 2 {
        return Err(Failure::Usage(format!(
            "{} of its own: start two or more (rank 0 measures, the others serve)",
            rendezvous.name()
        )));
    }
    if seat.rank > 0 {
        return serve(rendezvous, args.address, deadline);
    }
    let lifelines = gather(&mut rendezvous, deadline)?;
    let members: Vec<Member> = lifelines.iter().map(|lifeline| lifeline.member.clone()).collect();
    if !quiet {
        let servers = members.iter().map(|m| format!("rank {} {}", m.rank, m.host));
        let servers: Vec<String> = servers.collect();
        report::say(format_args!(
            "rank 0 of {} by {} measures; servers: {}",
            seat.ranks,
            rendezvous.name(),
            servers.join(", ")
        ));
    }
    rendezvous.leave();
    let outcome = measure(&members);
    for lifeline in lifelines {
        lifeline.release();
    }
    outcome
}

/// Takes, as rank 0, all servers on a lifeline, in the order of their ranks.
fn gather(rendezvous: &mut Rendezvous, deadline: Instant) -> Result<Vec<Lifeline>, Failure> {
    let ranks = rendezvous.seat().ranks;
    let mut lifelines: Vec<Option<Lifeline>> = (1..ranks).map(|_| None).collect();
    let mut reasons: Vec<Option<Failure>> = (1..ranks).map(|_| None).collect();
    while lifelines.iter().any(Option::is_none) {
        if Instant::now() >= deadline {
            return Err(missing(&lifelines, reasons));
        }
        for (index, lifeline) in lifelines.iter_mut().enumerate().filter(|(_, l)| l.is_none()) {
            let Some(rank_address) = rendezvous.look(index + 1, deadline)? else { continue };
            // The address may be an old one, of a job that has ended: then the new one is still
            // to come.
            match Lifeline::take(index + 1, &rank_address, deadline) {
                Ok(taken) => *lifeline = Some(taken),
                Err(error @ Failure::OtherVersion { .. }) => return Err(error),
                Err(error) => reasons[index] = Some(error),
            }
        }
    }
    Ok(lifelines.into_iter().flatten().collect())
}

/// Returns the failure about ranks that did not come, or came and cannot be reached.
fn missing(lifelines: &[Option<Lifeline>], reasons: Vec<Option<Failure>>) -> Failure {
    let absent = |index: &usize| lifelines[*index].is_none();
    let mut known = reasons.into_iter().enumerate().filter(|(index, _)| absent(index));
    if let Some((index, reason)) = known.find_map(|(index, reason)| Some((index, reason?))) {
        let rank = index + 1;
        return Failure::NoRank(format!(
            "rank {rank} came and cannot be reached: {reason}; name an address of its host with \
             --address"
        ));
    }
    let names: Vec<String> =
        (0..lifelines.len()).filter(absent).map(|index| (index + 1).to_string()).collect();
    Failure::NoRank(format!(
        "no word from rank {} of {}: look whether it was started, or raise --join-timeout",
        names.join(", "),
        lifelines.len() + 1
    ))
}

/// Serves, as another rank, until rank 0 lets go.
fn serve(
    mut rendezvous: Rendezvous,
    address: Option<IpAddr>,
    deadline: Instant,
) -> Result<(), Failure> {
    let bind = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let server = Server::bind((bind, 0).into())?;
    let listener = LifelineListener::listen(bind)?;
    let rank_address = RankAddress::here(address, server.port(), listener.port());
    rendezvous.pin(&rank_address)?;
    let held = listener.wait(&rank_address, deadline);
    // From here on the lifeline says everything; no thread of the launcher's library runs beside.
    rendezvous.leave();
    let held = held?;
    let stopper = server.stopper();
    let watch = std::thread::spawn(move || {
        let end = held.wait();
        stopper.stop();
        end
    });
    server.serve(0, true);
    watch
        .join()
        .unwrap_or_else(|_| Err(Failure::Check("the lifeline could not be watched".to_owned())))
}
