//! Ranks that a launcher started find each other: rank 0 measures, all others serve.
//!
//! Each server pins its [`Place`] to a [`Board`] that all ranks can read. Rank 0 takes every server
//! on a [`Leash`], a connection that lasts until it is done: so it knows that they can be reached,
//! and they know when to end, whatever happens to rank 0.

mod board;
mod environment;
mod leash;
mod place;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bench_engine::server::Server;
use bench_engine::target::Target;
use bench_record::failure::Failure;
use clap::Args;

use board::Board;
use leash::{Keeper, Leash};
use place::Place;

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

/// Which rank this is, and of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    rank: usize,
    ranks: usize,
}

/// A server as rank 0 sees it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) rank: usize,
    /// What its host calls itself.
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
    let Some(mut board) = Board::open(args, deadline)? else {
        return Err(Failure::Usage(
            "no --host: name the host a server runs on, or start two or more ranks with mpirun or \
             `srun --mpi=pmix`, or give --rendezvous DIR"
                .to_owned(),
        ));
    };
    let seat = board.seat();
    if seat.ranks < 2 {
        return Err(Failure::Usage(format!(
            "{} of its own: start two or more (rank 0 measures, the others serve)",
            board.name()
        )));
    }
    if seat.rank > 0 {
        return serve(board, args.address, deadline);
    }
    let leashes = gather(&mut board, deadline)?;
    let members: Vec<Member> = leashes.iter().map(|leash| leash.member.clone()).collect();
    if !quiet {
        let servers = members.iter().map(|m| format!("rank {} {}", m.rank, m.host));
        let servers: Vec<String> = servers.collect();
        eprintln!(
            "rank 0 of {} by {} measures; servers: {}",
            seat.ranks,
            board.name(),
            servers.join(", ")
        );
    }
    board.leave();
    let outcome = measure(&members);
    for leash in leashes {
        leash.release();
    }
    outcome
}

/// Rank 0: takes all servers on a leash, in the order of their ranks.
fn gather(board: &mut Board, deadline: Instant) -> Result<Vec<Leash>, Failure> {
    let ranks = board.seat().ranks;
    let mut leashes: Vec<Option<Leash>> = (1..ranks).map(|_| None).collect();
    let mut reasons: Vec<Option<Failure>> = (1..ranks).map(|_| None).collect();
    while leashes.iter().any(Option::is_none) {
        if Instant::now() >= deadline {
            return Err(missing(&leashes, reasons));
        }
        for (index, leash) in leashes.iter_mut().enumerate().filter(|(_, l)| l.is_none()) {
            let Some(place) = board.look(index + 1, deadline)? else { continue };
            // A place may be an old one, of a job that has ended: then the new one is still to come.
            match Leash::take(index + 1, &place, deadline) {
                Ok(taken) => *leash = Some(taken),
                Err(error @ Failure::OtherVersion { .. }) => return Err(error),
                Err(error) => reasons[index] = Some(error),
            }
        }
    }
    Ok(leashes.into_iter().flatten().collect())
}

/// Who did not come, or came and cannot be reached.
fn missing(leashes: &[Option<Leash>], reasons: Vec<Option<Failure>>) -> Failure {
    let absent = |index: &usize| leashes[*index].is_none();
    let known = (0..leashes.len()).filter(absent).find(|index| reasons[*index].is_some());
    if let Some(index) = known
        && let Some(reason) = reasons.into_iter().nth(index).flatten()
    {
        let rank = index + 1;
        return Failure::NoRank(format!(
            "rank {rank} came and cannot be reached: {reason}; name an address of its host with \
             --address"
        ));
    }
    let names: Vec<String> =
        (0..leashes.len()).filter(absent).map(|index| (index + 1).to_string()).collect();
    Failure::NoRank(format!(
        "no word from rank {} of {}: look whether it was started, or raise --join-timeout",
        names.join(", "),
        leashes.len() + 1
    ))
}

/// Another rank: serves until rank 0 lets go.
fn serve(mut board: Board, address: Option<IpAddr>, deadline: Instant) -> Result<(), Failure> {
    let bind = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let server = Server::bind((bind, 0).into())?;
    let keeper = Keeper::listen(bind)?;
    let place = Place::here(address, server.port(), keeper.port());
    board.pin(&place)?;
    let held = keeper.wait(&place, deadline);
    // From here on the leash says everything; no thread of the launcher's library runs beside.
    board.leave();
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
        .unwrap_or_else(|_| Err(Failure::Check("the leash could not be watched".to_owned())))
}
