//! Counters of a device, in a file that outlives the process, so that others can read them.
//!
//! One file per device and process: `RUN_DIR/counters/DEVICE.PID`, little-endian 64-bit words:
//! magic, number of values, values in the order of [`Counter::ALL`]. The values are plain memory
//! of the process that counts; readers see them while it runs and after it ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"SEFACNT1");
const HEADER_WORDS: usize = 2;

macro_rules! counters {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// What is counted. Names are the kernel driver's `hw_counters` where it has one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $(#[doc = $doc] $variant,)* }

        impl Counter {
            /// Every counter, in file order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Name in files and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

counters! {
    TxPkts "tx_pkts" "Datagrams sent, acknowledgements included.";
    TxBytes "tx_bytes" "Bytes sent above UDP.";
    RxPkts "rx_pkts" "Datagrams received.";
    RxBytes "rx_bytes" "Bytes received above UDP.";
    RxDrops "rx_drops" "Datagrams received that named no receiver here, were malformed or found no UD receive.";
    SendWrs "send_wrs" "Send work requests posted.";
    SendBytes "send_bytes" "Payload bytes of sends posted.";
    RecvWrs "recv_wrs" "Messages delivered to receive work requests.";
    RecvBytes "recv_bytes" "Payload bytes delivered.";
    RdmaReadWrs "rdma_read_wrs" "RDMA READs posted.";
    RdmaReadBytes "rdma_read_bytes" "Bytes of RDMA READs posted.";
    RdmaReadRespBytes "rdma_read_resp_bytes" "Bytes of RDMA READs taken in by the responder.";
    RdmaWriteWrs "rdma_write_wrs" "RDMA WRITEs posted.";
    RdmaWriteBytes "rdma_write_bytes" "Bytes of RDMA WRITEs posted.";
    RdmaWriteRecvBytes "rdma_write_recv_bytes" "Bytes of RDMA WRITEs placed here.";
    RetransPkts "retrans_pkts" "Datagrams sent again.";
    RetransBytes "retrans_bytes" "Payload bytes sent again.";
    RetransTimeoutEvents "retrans_timeout_events" "Loss timers that expired.";
    UnresponsiveRemoteEvents "unresponsive_remote_events" "Peers given up after silence.";
    ImpairedRemoteConnEvents "impaired_remote_conn_events" "Times a peer lost most of its paths.";
    RxDuplicates "rx_duplicates" "Datagrams received again and not delivered.";
    RxRnr "rx_rnr" "Messages turned away because no receive was posted.";
    AckPkts "ack_pkts" "Acknowledgements sent in a datagram of their own.";
    TxSyscalls "tx_syscalls" "System calls that sent.";
    RxSyscalls "rx_syscalls" "System calls that received something.";
    TxErrors "tx_errors" "Datagrams the operating system refused to send.";
    TxRefused "tx_refused" "Sends that first reported an earlier datagram as refused by its target.";
    FaultLost "fault_lost" "Datagrams dropped on purpose.";
    FaultReordered "fault_reordered" "Datagrams held back on purpose.";
    FaultDuplicated "fault_duplicated" "Datagrams doubled on purpose.";
    ServiceTurns "service_turns" "Turns the service thread drove because nobody polled.";
}

const WORDS: usize = HEADER_WORDS + Counter::ALL.len();

/// Counters of one device in this process.
#[derive(Debug)]
pub struct Counters {
    words: &'static [AtomicU64; WORDS],
}

impl Counters {
    /// Counters that only this process sees.
    pub(crate) fn private() -> Self {
        // Leaked on purpose: a device lives as long as its process, and library destructors of
        // other libraries may still count after ours ran.
        Self { words: Box::leak(Box::new([const { AtomicU64::new(0) }; WORDS])) }
    }

    /// Counters in `run_dir`, readable by others.
    pub(crate) fn in_dir(run_dir: &Path, device: &str) -> io::Result<Self> {
        let dir = run_dir.join("counters");
        fs::create_dir_all(&dir)?;
        let path = dir.join(format!("{device}.{}", std::process::id()));
        // A device that is opened again in the same process counts on.
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len((WORDS * 8) as u64)?;
        let counters = Self { words: map_words(&file)? };
        counters.words[0].store(MAGIC.to_le(), Ordering::Relaxed);
        counters.words[1].store((Counter::ALL.len() as u64).to_le(), Ordering::Relaxed);
        Ok(counters)
    }

    /// Adds `n`; relaxed, so cheap enough for once per turn.
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        if n > 0 {
            self.words[HEADER_WORDS + counter as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Present value.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.words[HEADER_WORDS + counter as usize].load(Ordering::Relaxed)
    }
}

#[allow(unsafe_code)]
fn map_words(file: &File) -> io::Result<&'static [AtomicU64; WORDS]> {
    // SAFETY: a fresh shared mapping of WORDS * 8 bytes of a file of that length; it is never
    // unmapped, so 'static holds, and it is only accessed through atomics.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            WORDS * 8,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(&*at.cast())
    }
}

/// Counters of one device in one process, as read from a run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCounters {
    /// Device name.
    pub device: String,
    /// Process that counted.
    pub pid: u32,
    /// Name and value, in the order of [`Counter::ALL`].
    pub values: Vec<(&'static str, u64)>,
}

/// Reads the counters of every process that ran with `run_dir`; files of another version are
/// skipped.
///
/// # Errors
/// The directory exists but cannot be read.
pub fn read_dir(run_dir: &Path) -> io::Result<Vec<ProcessCounters>> {
    let entries = match fs::read_dir(run_dir.join("counters")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((device, pid)) = name.rsplit_once('.') else { continue };
        let Ok(pid) = pid.parse() else { continue };
        if let Some(values) = read_file(&entry.path())? {
            all.push(ProcessCounters { device: device.to_owned(), pid, values });
        }
    }
    all.sort_by(|a, b| (&a.device, a.pid).cmp(&(&b.device, b.pid)));
    Ok(all)
}

fn read_file(path: &Path) -> io::Result<Option<Vec<(&'static str, u64)>>> {
    let mut raw = Vec::with_capacity(WORDS * 8);
    File::open(path)?.take((WORDS * 8) as u64).read_to_end(&mut raw)?;
    let (chunks, _) = raw.as_chunks::<8>();
    let words: Vec<u64> = chunks.iter().map(|c| u64::from_le_bytes(*c)).collect();
    if words.len() != WORDS || words[0] != MAGIC || words[1] != Counter::ALL.len() as u64 {
        return Ok(None);
    }
    Ok(Some(
        Counter::ALL.iter().map(|c| c.name()).zip(words[HEADER_WORDS..].iter().copied()).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_see_what_a_process_counted() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Counters::in_dir(dir.path(), "rdmap0s6").unwrap();
        counters.add(Counter::RxPkts, 3);
        counters.add(Counter::RxPkts, 4);
        let seen = read_dir(dir.path()).unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].device.as_str(), seen[0].pid), ("rdmap0s6", std::process::id()));
        assert!(seen[0].values.contains(&("rx_pkts", 7)));
    }

    #[test]
    fn foreign_files_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("counters")).unwrap();
        fs::write(dir.path().join("counters/x.12"), b"short").unwrap();
        assert_eq!(read_dir(dir.path()).unwrap(), []);
    }
}
