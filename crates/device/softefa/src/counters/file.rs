//! The file with the counters: `RUN_DIR/counters/DEVICE.PID`, 64-bit words in the byte order of the
//! machine.
//!
//! ```text
//! magic | number of values | address (2 words) | start of the process in ticks |
//! 2 words of captures | 16 words of faults | 64 links through memory (3 words each) |
//! slots of 32 queue pairs | values ...
//! ```
//! The values are plain memory of the process that counts, so that counting costs the same with and
//! without a reader, and the values outlive the process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Counter;
use super::fault::{self, FaultStatus, FaultWords};
use super::gauges::{Gauges, QueuePairGauge};
use super::links::{Link, Links};
use super::request::Request;
use crate::mapped::{self, Mapped, Words};
use crate::{address, process};

const MAGIC: u64 = u64::from_ne_bytes(*b"SEFACNT7");
/// Positions of the words in front of the values.
mod place {
    pub(super) const MAGIC: usize = 0;
    pub(super) const COUNT: usize = 1;
    pub(super) const ADDR: usize = 2;
    pub(super) const START: usize = ADDR + crate::address::WORDS;
    pub(super) const REQUEST: usize = START + 1;
    pub(super) const FAULTS: usize = REQUEST + super::super::request::WORDS;
    pub(super) const LINKS: usize = FAULTS + super::super::fault::WORDS;
    pub(super) const GAUGES: usize = LINKS + super::super::links::WORDS;
    pub(super) const VALUES: usize = GAUGES + super::super::gauges::WORDS;
}
const WORDS: usize = place::VALUES + Counter::ALL.len();
const WORD_BYTES: usize = size_of::<u64>();

fn path(run_dir: &Path, device: &str, pid: u32) -> PathBuf {
    run_dir.join("counters").join(format!("{device}.{pid}"))
}

/// The contents of the file of a process.
pub(super) struct Opened {
    pub(super) values: Words,
    pub(super) links: Links,
    pub(super) gauges: Gauges,
    pub(super) faults: FaultWords,
    pub(super) request: Request,
}

/// Makes the file of this process, or opens it again.
pub(super) fn create(run_dir: &Path, device: &str, addr: IpAddr) -> io::Result<Opened> {
    fs::create_dir_all(run_dir.join("counters"))?;
    let pid = std::process::id();
    // A device that is opened again in the same process continues counting.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path(run_dir, device, pid))?;
    mapped::reserve(&file, 0, (WORDS * WORD_BYTES) as u64)?;
    let words = Arc::new(Mapped::new(&file, WORDS)?);
    let start = process::start_ticks(pid).unwrap_or_default();
    if words[place::START].load(Ordering::Relaxed) != start {
        // The file is of an earlier process with this id, whose peers and queue pairs are gone.
        for word in &words[place::LINKS..place::VALUES] {
            word.store(0, Ordering::Relaxed);
        }
    }
    words[place::COUNT].store(Counter::ALL.len() as u64, Ordering::Relaxed);
    for (word, value) in words[place::ADDR..].iter().zip(address::to_words(addr)) {
        word.store(value, Ordering::Relaxed);
    }
    words[place::START].store(start, Ordering::Relaxed);
    // The magic is stored last, because it says that the rest is there.
    words[place::MAGIC].store(MAGIC, Ordering::Release);
    Ok(Opened {
        values: Words::shared(&words, place::VALUES..WORDS),
        links: Links::at(Words::shared(&words, place::LINKS..place::GAUGES)),
        gauges: Gauges::at(Words::shared(&words, place::GAUGES..place::VALUES)),
        faults: FaultWords::at(Words::shared(&words, place::FAULTS..place::LINKS)),
        request: Request::at(Words::shared(&words, place::REQUEST..place::FAULTS)),
    })
}

/// Maps the file of a device of another process.
///
/// # Errors
/// The file is gone, or another process has its name now.
pub(crate) fn map(run_dir: &Path, device: &ProcessCounters) -> io::Result<Mapped> {
    let path = path(run_dir, &device.device, device.pid);
    let mut options = OpenOptions::new();
    // The file is written to, so it must not be another one.
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let words = Mapped::new(&options.open(path)?, WORDS)?;
    let word = |at: usize| words[at].load(Ordering::Relaxed);
    if word(place::MAGIC) != MAGIC || word(place::START) != device.start_ticks {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(words)
}

/// Returns the words of captures in such a file.
pub(crate) fn request_words(file: &Mapped) -> &[AtomicU64] {
    &file[place::REQUEST..place::FAULTS]
}

/// Tells a device of another process that its requested faults have changed.
///
/// # Errors
/// The errors of [`map`].
pub(crate) fn announce_faults(run_dir: &Path, device: &ProcessCounters) -> io::Result<()> {
    let words = map(run_dir, device)?;
    fault::announce(&words[place::FAULTS..place::LINKS]);
    Ok(())
}

/// Counters of one device in one process, as read from a run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCounters {
    /// Device name.
    pub device: String,
    /// The local address of the device.
    pub addr: IpAddr,
    /// The id of the process that counted.
    pub pid: u32,
    /// The time at which that process started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The queue pairs that the process reaches through memory, at most the first 64.
    pub links: Vec<Link>,
    /// The gauges of its queue pairs, at most 32.
    pub queue_pairs: Vec<QueuePairGauge>,
    /// The faults in force.
    pub faults: FaultStatus,
    /// Names and values, in the order of [`Counter::ALL`].
    pub values: Vec<(&'static str, u64)>,
}

impl ProcessCounters {
    /// Returns one value.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values.get(counter as usize).map_or(0, |(_, value)| *value)
    }

    /// Returns true if the process that counted still runs, which a later process with its id does
    /// not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        process::start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Reads the counters of every process that ran with `run_dir`; files of another version are
/// skipped.
///
/// # Errors
/// The directory exists but cannot be read.
pub fn read_dir(run_dir: &Path) -> io::Result<Vec<ProcessCounters>> {
    let mut all = Vec::new();
    for (device, pid, path) in files(run_dir)? {
        let Some(words) = read_words(&path)? else { continue };
        let addr = address::of_words([words[place::ADDR], words[place::ADDR + 1]]);
        let links = &words[place::LINKS..place::GAUGES];
        let values = words[place::VALUES..].iter().copied();
        all.push(ProcessCounters {
            device,
            addr,
            pid,
            start_ticks: words[place::START],
            faults: FaultStatus::of_words(&words[place::FAULTS..place::LINKS]),
            queue_pairs: QueuePairGauge::all(&words[place::GAUGES..place::VALUES]),
            links: Link::all(links),
            values: Counter::ALL.iter().map(|counter| counter.name()).zip(values).collect(),
        });
    }
    all.sort_by(|a, b| (&a.device, a.pid).cmp(&(&b.device, b.pid)));
    Ok(all)
}

/// Returns the number of files that [`read_dir`] skips: those of processes that ran with an adapter
/// of another build.
///
/// # Errors
/// The errors of [`read_dir`].
pub fn count_foreign(run_dir: &Path) -> io::Result<usize> {
    let mut count = 0;
    for (_, _, path) in files(run_dir)? {
        count += usize::from(read_words(&path)?.is_none());
    }
    Ok(count)
}

/// Returns device, process id and path of every file whose name is that of a counters file.
fn files(run_dir: &Path) -> io::Result<Vec<(String, u32, PathBuf)>> {
    let entries = match fs::read_dir(run_dir.join("counters")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((device, pid)) = name.rsplit_once('.') else { continue };
        let Ok(pid) = pid.parse() else { continue };
        // None of our devices has such a name, and a terminal would obey it.
        if device.contains(char::is_control) {
            continue;
        }
        files.push((device.to_owned(), pid, entry.path()));
    }
    Ok(files)
}

fn read_words(path: &Path) -> io::Result<Option<Vec<u64>>> {
    let mut raw = Vec::with_capacity(WORDS * WORD_BYTES);
    File::open(path)?.take((WORDS * WORD_BYTES) as u64).read_to_end(&mut raw)?;
    let chunks = raw.chunks_exact(WORD_BYTES).filter_map(<[u8]>::first_chunk);
    let words: Vec<u64> = chunks.map(|chunk| u64::from_ne_bytes(*chunk)).collect();
    let is_ours = words.len() == WORDS
        && words[place::MAGIC] == MAGIC
        && words[place::COUNT] == Counter::ALL.len() as u64;
    Ok(is_ours.then_some(words))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::Counters;
    use super::*;

    #[test]
    fn others_see_what_a_process_counted() {
        let dir = tempfile::tempdir().unwrap();
        let addr = IpAddr::from([127, 0, 0, 3]);
        let (counters, _) = Counters::in_dir(dir.path(), "rdmap0s6", addr).unwrap();
        counters.add(Counter::RxPkts, 3);
        counters.add(Counter::RxPkts, 4);
        let seen = read_dir(dir.path()).unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].device.as_str(), seen[0].pid), ("rdmap0s6", std::process::id()));
        assert_eq!((seen[0].addr, seen[0].get(Counter::RxPkts)), (addr, 7));
        assert!(seen[0].values.contains(&("rx_pkts", 7)) && seen[0].is_running());
        let successor = ProcessCounters { start_ticks: seen[0].start_ticks + 1, ..seen[0].clone() };
        assert!(!successor.is_running(), "another process that has the id now");
    }

    #[test]
    fn a_device_that_is_opened_again_counts_on_and_leaves_no_mapping_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mappings = || {
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().filter(|line| line.contains(dir.path().to_str().unwrap())).count()
        };
        for round in 1..=20 {
            let opened = Counters::in_dir(dir.path(), "rdmap0s6", IpAddr::V4(Ipv4Addr::LOCALHOST));
            let (counters, request) = opened.unwrap();
            counters.add(Counter::TxPkts, 1);
            assert_eq!((counters.get(Counter::TxPkts), mappings()), (round, 1));
            drop(counters);
            assert!(!request.is_set(), "still there");
        }
        assert_eq!(mappings(), 0);
    }

    #[test]
    fn foreign_files_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("counters")).unwrap();
        fs::write(dir.path().join("counters/x.12"), b"short").unwrap();
        assert_eq!(
            (read_dir(dir.path()).unwrap(), count_foreign(dir.path()).unwrap()),
            (vec![], 1)
        );
    }
}
