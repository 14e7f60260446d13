//! The place where servers pin their addresses for rank 0: the launcher's PMIx server, or files in
//! a folder.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use bench_record::failure::{Failure, plain};

use super::address::RankAddress;
use super::{RanksArgs, Seat, environment};

/// The key of a server's address.
const KEY: &str = "efa-bench.rank_address";
/// The time that a look at the launcher's server lasts.
const LOOK: Duration = Duration::from_secs(1);
/// The time to wait before each look into a folder.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The time that leaving the launcher's server may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A place that all ranks of a job can write to and read.
pub(super) struct Rendezvous {
    seat: Seat,
    channel: Channel,
}

enum Channel {
    Pmix(Pmix),
    Folder(PathBuf),
}

impl Rendezvous {
    /// Opens the rendezvous of this job; `None` if nothing says that it has one.
    pub(super) fn open(args: &RanksArgs, deadline: Instant) -> Result<Option<Self>, Failure> {
        if let Some(folder) = &args.rendezvous {
            let variable = |name: &str| std::env::var(name).ok();
            let seat =
                environment::seat(args.rank, args.ranks, variable).map_err(Failure::Usage)?;
            return Ok(Some(Self { seat, channel: Channel::Folder(folder.clone()) }));
        }
        if !pmix::is_launched() {
            return Ok(None);
        }
        let (pmix, seat) = Pmix::start(deadline)?;
        Ok(Some(Self { seat, channel: Channel::Pmix(pmix) }))
    }

    pub(super) const fn seat(&self) -> Seat {
        self.seat
    }

    pub(super) fn name(&self) -> String {
        match &self.channel {
            Channel::Pmix(pmix) => pmix.version.clone(),
            Channel::Folder(folder) => format!("files in {}", folder.display()),
        }
    }

    /// Publishes the address of this rank.
    pub(super) fn pin(&mut self, rank_address: &RankAddress) -> Result<(), Failure> {
        let text = serde_json::to_string(rank_address)
            .map_err(|e| Failure::Check(format!("cannot encode this rank's rank_address: {e}")))?;
        match &self.channel {
            Channel::Pmix(pmix) => pmix.publish(text),
            Channel::Folder(folder) => {
                let path = file(folder, self.seat.rank);
                report::write_atomic(&path, text.as_bytes()).map_err(|e| Failure::Output {
                    path: e.path.display().to_string(),
                    reason: e.reason,
                })
            }
        }
    }

    /// Removes this rank's address from the rendezvous if it would stay there, and leaves the
    /// launcher's server.
    pub(super) fn leave(self) {
        if let Channel::Folder(folder) = &self.channel {
            // Rank 0 has none; what cannot be removed is not believed by the next job either.
            let _ = std::fs::remove_file(file(folder, self.seat.rank));
        }
    }

    /// Returns the address of `rank`, if it has been published; takes a while if not.
    pub(super) fn look(
        &mut self,
        rank: usize,
        deadline: Instant,
    ) -> Result<Option<RankAddress>, Failure> {
        let text = match &self.channel {
            Channel::Pmix(pmix) => pmix.lookup(rank, deadline)?,
            Channel::Folder(folder) => {
                std::thread::sleep(LOOK_AGAIN);
                read(&file(folder, rank))?
            }
        };
        let Some(text) = text else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|e| {
            Failure::NoRank(format!(
                "rank {rank} left something that is no rank_address ({e}): start the same efa-bench everywhere"
            ))
        })
    }
}

fn file(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("efa-bench-rank-{rank}.json"))
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Failure::Input { path: path.display().to_string(), reason: plain(&error) })
        }
    }
}

/// The launcher's server, asked by a thread of its own: a call may take as long as the launcher
/// likes, while this process waits only until its deadline.
struct Pmix {
    asks: Option<mpsc::Sender<Ask>>,
    left: mpsc::Receiver<()>,
    version: String,
    deadline: Instant,
}

enum Ask {
    Publish(String, mpsc::Sender<Result<(), pmix::Error>>),
    Lookup(u32, mpsc::Sender<Result<Option<String>, pmix::Error>>),
}

impl Pmix {
    fn start(deadline: Instant) -> Result<(Self, Seat), Failure> {
        let (asks, queue) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let (leaving, left) = mpsc::channel();
        std::thread::spawn(move || {
            let start = || {
                let client = pmix::Client::start()?;
                let seat =
                    Seat { rank: client.rank() as usize, ranks: client.job_size()? as usize };
                Ok((client, seat))
            };
            match start() {
                Err(error) => drop(ready.send(Err(error))),
                Ok((client, seat)) => {
                    let _ = ready.send(Ok((client.version(), seat)));
                    answer(client, &queue);
                    let _ = leaving.send(());
                }
            }
        });
        let (version, seat) = wait(&started, deadline)?.ok_or_else(silent)?;
        Ok((Self { asks: Some(asks), left, version, deadline }, seat))
    }

    fn ask(&self, ask: Ask) {
        // Without the thread nothing comes back, which is noticed then.
        let _ = self.asks.as_ref().map(|asks| asks.send(ask));
    }

    fn publish(&self, text: String) -> Result<(), Failure> {
        let (to, from) = mpsc::channel();
        self.ask(Ask::Publish(text, to));
        wait(&from, self.deadline)?.ok_or_else(silent)
    }

    fn lookup(&self, rank: usize, deadline: Instant) -> Result<Option<String>, Failure> {
        let (to, from) = mpsc::channel();
        self.ask(Ask::Lookup(u32::try_from(rank).unwrap_or(u32::MAX), to));
        // A server that knows no timeout is still waiting for that rank.
        Ok(wait(&from, deadline)?.flatten())
    }
}

impl Drop for Pmix {
    /// Leaves the job, as a launcher demands of a process that ends well.
    fn drop(&mut self) {
        self.asks = None;
        // A call that still waits for a rank that never came is not waited for.
        let _ = self.left.recv_timeout(LEAVE_TIMEOUT);
    }
}

/// Answers the questions of the process until it asks no more, then disconnects.
fn answer(client: pmix::Client, queue: &mpsc::Receiver<Ask>) {
    while let Ok(ask) = queue.recv() {
        // Nobody may wait for the answer any more.
        match ask {
            Ask::Publish(text, to) => drop(to.send(client.publish(KEY, &text))),
            Ask::Lookup(rank, to) => drop(to.send(client.lookup(rank, KEY, LOOK))),
        }
    }
    drop(client);
}

/// Waits for an answer of that thread; `None` if there is none until the deadline.
fn wait<T>(
    from: &mpsc::Receiver<Result<T, pmix::Error>>,
    deadline: Instant,
) -> Result<Option<T>, Failure> {
    match from.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(error)) => Err(Failure::NoRank(error.to_string())),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Failure::Check("the thread that speaks PMIx has ended".to_owned()))
        }
    }
}

fn silent() -> Failure {
    Failure::NoRank(
        "the launcher's PMIx server says nothing: look at the launcher, or raise --join-timeout"
            .to_owned(),
    )
}
