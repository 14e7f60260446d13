//! Copies from the memory of another process of this machine (`process_vm_readv(2)`).
//!
//! RDMA between processes of one machine need not carry its bytes through sockets: the owner of the
//! memory that is written reads the other's memory itself (SRD-10.7). A `Source` says where the
//! bytes are, and must prove two things before a byte counts:
//!
//! * by its seal, that its author knows the **user key**, and made it for this receiver. `softefa
//!   run` hands the key to programs of one user only. They may read each other's memory anyway,
//!   unless a security module forbids that; a source may not name memory of the receiver itself;
//! * by the **lease**, a word of the other process's memory, that the bytes could be read. The same
//!   system call reads it behind the bytes. No other process has the same word, so that a successor
//!   with the same process id is detected, too.

pub(crate) mod copier;
pub(crate) mod pull;

use std::io;

use siphasher::sip128::SipHasher24;
use srd::Address;

use crate::host;
use crate::process;

use crate::lease::{self, Lease};

/// The key that the programs of one user on one machine share.
pub type UserKey = [u8; 16];

const LEASE_LEN: usize = 8;
const SEAL_LEN: usize = 16;

/// Returns a key that cannot be guessed.
#[must_use]
pub fn random_key() -> UserKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&host::random_u64().to_ne_bytes());
    key[8..].copy_from_slice(&host::random_u64().to_ne_bytes());
    key
}

/// Reads eight bytes at `addr` of another process, as copies do, to find out whether the kernel
/// permits that to programs of this user.
///
/// # Errors
/// The kernel's reason; there is nothing at `addr` ([`Unsupported`](io::ErrorKind::Unsupported) for
/// a part of the bytes).
#[allow(unsafe_code)]
pub fn peek(pid: u32, addr: u64) -> io::Result<[u8; 8]> {
    let mut bytes = [0u8; 8];
    let entry = |base: *mut libc::c_void| libc::iovec { iov_base: base, iov_len: 8 };
    let (to, from) = (entry(bytes.as_mut_ptr().cast()), entry(addr as usize as *mut _));
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: writes to the eight bytes above; the kernel checks what it reads.
    match unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0) } {
        8 => Ok(bytes),
        0.. => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Seals sources from one queue pair to another.
#[derive(Clone, Copy)]
pub(crate) struct Sealer {
    pub(crate) key: UserKey,
    /// The queue pair whose process owns the bytes.
    pub(crate) from: Address,
    /// The queue pair that may copy them.
    pub(crate) to: Address,
}

impl Sealer {
    /// Returns the sealer of the other direction.
    pub(crate) fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }
}

/// The place of bytes in a process, and the lease that says how long they lie there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pid: u32,
    len: u32,
    addr: u64,
    lease_addr: u64,
    lease: u64,
}

/// A stretch as it is sent to a peer. Nothing in it counts before [`Source::open`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    stretch: Stretch,
    seal: [u8; SEAL_LEN],
}

/// The reason why bytes could not be copied; the caller sends them over the wire instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyError {
    /// The other side is of another user or machine, or only claims not to be.
    Stranger,
    /// The owner has taken the bytes back, or has ended.
    LeaseEnded,
    /// The kernel refuses the copy (other process namespace, ptrace restrictions, process ended).
    NotPermitted,
    /// One of the two programs has unmapped some of its bytes.
    Unmapped,
}

impl CopyError {
    /// Returns true if other bytes of the same process could not be copied either.
    pub(crate) fn is_lasting(self) -> bool {
        matches!(self, Self::Stranger | Self::NotPermitted)
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stretch.fmt(f)
    }
}

impl std::fmt::Debug for Stretch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x} of process {}", self.len, self.addr, self.pid)
    }
}

impl Source {
    pub(crate) const LEN: usize = Stretch::LEN + SEAL_LEN;

    /// Names `len` bytes at `addr` of this process, for as long as `lease` has its present value.
    pub(crate) fn own(sealer: &Sealer, lease: &Lease, addr: u64, len: u32) -> Self {
        let (pid, lease_addr, lease) = (process::own_id(), lease.addr(), lease.value());
        let stretch = Stretch { pid, len, addr, lease_addr, lease };
        Self { stretch, seal: stretch.seal(sealer) }
    }

    /// Returns the bytes that may be copied, if the seal is right for the two ends of `sealer`.
    ///
    /// # Errors
    /// [`CopyError::Stranger`].
    pub(crate) fn open(&self, sealer: &Sealer) -> Result<Stretch, CopyError> {
        let is_sealed = self.seal == self.stretch.seal(sealer);
        if is_sealed { Ok(self.stretch) } else { Err(CopyError::Stranger) }
    }

    pub(crate) fn parse(raw: &[u8]) -> Option<Self> {
        let raw: &[u8; Self::LEN] = raw.try_into().ok()?;
        let (stretch, seal) = raw.split_first_chunk()?;
        Some(Self { stretch: Stretch::parse(stretch), seal: seal.try_into().ok()? })
    }

    pub(crate) fn emit(&self) -> [u8; Self::LEN] {
        let mut raw = [0; Self::LEN];
        raw[..Stretch::LEN].copy_from_slice(&self.stretch.emit());
        raw[Stretch::LEN..].copy_from_slice(&self.seal);
        raw
    }
}

impl Stretch {
    const LEN: usize = 32;

    fn parse(raw: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| u32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Self { pid: word(0), len: word(4), addr: long(8), lease_addr: long(16), lease: long(24) }
    }

    fn emit(&self) -> [u8; Self::LEN] {
        let mut raw = [0; Self::LEN];
        raw[..4].copy_from_slice(&self.pid.to_be_bytes());
        raw[4..8].copy_from_slice(&self.len.to_be_bytes());
        raw[8..16].copy_from_slice(&self.addr.to_be_bytes());
        raw[16..24].copy_from_slice(&self.lease_addr.to_be_bytes());
        raw[24..].copy_from_slice(&self.lease.to_be_bytes());
        raw
    }

    /// Computes the seal, which proves knowledge of the user key without showing it.
    fn seal(&self, sealer: &Sealer) -> [u8; SEAL_LEN] {
        const END_LEN: usize = 10;
        let mut raw = [0; Self::LEN + 2 * END_LEN];
        raw[..Self::LEN].copy_from_slice(&self.emit());
        for (end, place) in [sealer.from, sealer.to].iter().zip([0, END_LEN]) {
            let at = Self::LEN + place;
            raw[at..at + 8].copy_from_slice(&end.host.to_be_bytes());
            raw[at + 8..at + END_LEN].copy_from_slice(&end.qpn.to_be_bytes());
        }
        SipHasher24::new_with_key(&sealer.key).hash(&raw).as_bytes()
    }

    /// Returns true if the stretch names memory of this process.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.pid == process::own_id()
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Copies bytes `offset .. offset + len` to `to`, which is registered memory.
    ///
    /// # Errors
    /// [`CopyError`]; some of the bytes at `to` may have been written.
    pub(crate) fn copy(&self, offset: u32, to: u64, len: u32) -> Result<(), CopyError> {
        let end = u64::from(offset) + u64::from(len);
        let from = self.addr.checked_add(u64::from(offset)).ok_or(CopyError::Stranger)?;
        if end > u64::from(self.len) {
            return Err(CopyError::Stranger);
        }
        let lease = self.read_vm(from, to, len as usize)?;
        let is_held = lease == self.lease && lease != lease::ENDED;
        if is_held { Ok(()) } else { Err(CopyError::LeaseEnded) }
    }

    /// Copies the bytes, and returns the lease after that.
    #[allow(unsafe_code)]
    fn read_vm(&self, from: u64, to: u64, len: usize) -> Result<u64, CopyError> {
        let entry =
            |addr: u64, len| libc::iovec { iov_base: addr as usize as *mut _, iov_len: len };
        let mut lease = [0u8; LEASE_LEN];
        // The lease comes last: if it held then, it held when the bytes were read. The kernel
        // processes the entries in order.
        let local = [entry(to, len), entry(lease.as_mut_ptr() as usize as u64, LEASE_LEN)];
        let remote = [entry(from, len), entry(self.lease_addr, LEASE_LEN)];
        let pid = libc::pid_t::try_from(self.pid).map_err(|_| CopyError::Stranger)?;
        // SAFETY: writes to the array above and to `to..to + len`, which lies in a live region
        // with the right to write it (as `mr::copy_in`); the kernel checks both address spaces.
        let got = unsafe { libc::process_vm_readv(pid, local.as_ptr(), 2, remote.as_ptr(), 2, 0) };
        if usize::try_from(got) == Ok(len + LEASE_LEN) {
            return Ok(u64::from_ne_bytes(lease));
        }
        let error = io::Error::last_os_error().raw_os_error();
        let is_unmapped = got >= 0 || error == Some(libc::EFAULT);
        Err(if is_unmapped { CopyError::Unmapped } else { CopyError::NotPermitted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: UserKey = *b"key of this user";
    const A: Address = Address { host: 0x7f00_0001, qpn: 7 };
    const B: Address = Address { host: 0x7f00_0001, qpn: 8 };
    const SEALER: Sealer = Sealer { key: KEY, from: A, to: B };

    fn lease() -> Lease {
        let lease = Lease::new();
        lease.begin();
        lease
    }

    fn source(bytes: &[u8], lease: &Lease) -> Source {
        let len = u32::try_from(bytes.len()).unwrap();
        Source::own(&SEALER, lease, bytes.as_ptr() as usize as u64, len)
    }

    fn copy(stretch: &Stretch, offset: u32, to: &mut [u8]) -> Result<(), CopyError> {
        let len = u32::try_from(to.len()).unwrap();
        stretch.copy(offset, to.as_mut_ptr() as usize as u64, len)
    }

    #[test]
    fn eight_bytes_are_read_or_the_kernel_says_why_not() {
        let word = *b"a word..";
        let own = process::own_id();
        assert_eq!(peek(own, word.as_ptr() as usize as u64).unwrap(), word);
        assert_eq!(peek(own, 4096).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn a_stretch_is_copied() {
        let lease = lease();
        let source = Source::parse(&source(b"abcdefgh", &lease).emit()).unwrap();
        let mut to = [0; 3];
        assert_eq!(copy(&source.open(&SEALER).unwrap(), 4, &mut to), Ok(()));
        assert_eq!(&to, b"efg");
    }

    #[test]
    fn a_source_is_good_between_two_queue_pairs_only() {
        let lease = lease();
        let good = source(&[7; 32], &lease);
        let other = Address { qpn: 9, ..A };
        for wrong in [
            Sealer { key: *b"of another user!", ..SEALER },
            Sealer { from: other, ..SEALER },
            Sealer { to: other, ..SEALER },
            Sealer { from: Address { host: 1, ..A }, ..SEALER },
            Sealer { to: Address { host: 1, ..B }, ..SEALER },
            SEALER.reversed(),
        ] {
            assert_eq!(good.open(&wrong), Err(CopyError::Stranger));
        }
        let forged = Source { stretch: Stretch { addr: 4096, ..good.stretch }, ..good };
        assert_eq!(forged.open(&SEALER), Err(CopyError::Stranger));
    }

    #[test]
    fn what_cannot_be_there_is_not_copied() {
        let (bytes, lease) = ([7; 32], lease());
        let good = source(&bytes, &lease).stretch;
        let mut to = [0; 8];
        assert_eq!(copy(&good, 25, &mut to), Err(CopyError::Stranger), "beyond the source");
        let nobody = Stretch { pid: u32::MAX, ..good };
        assert_eq!(copy(&nobody, 0, &mut to), Err(CopyError::Stranger));
        let unmapped = Stretch { addr: 64, ..good };
        assert_eq!(copy(&unmapped, 0, &mut to), Err(CopyError::Unmapped));
        let ended = Stretch { pid: i32::MAX as u32, ..good };
        assert_eq!(copy(&ended, 0, &mut to), Err(CopyError::NotPermitted));
        let successor = Stretch { lease: good.lease ^ 1, ..good };
        assert_eq!(copy(&successor, 0, &mut to), Err(CopyError::LeaseEnded));
    }

    #[test]
    fn nothing_counts_after_the_end_of_the_lease() {
        let (bytes, lease) = ([7; 32], lease());
        let first = source(&bytes, &lease).stretch;
        let mut to = [0; 8];
        assert_eq!(copy(&first, 0, &mut to), Ok(()));
        assert!(lease.end() && !lease.end());
        for late in [first, source(&bytes, &lease).stretch] {
            assert_eq!(copy(&late, 0, &mut to), Err(CopyError::LeaseEnded));
        }
        lease.begin();
        assert_eq!(copy(&first, 0, &mut to), Err(CopyError::LeaseEnded), "that is another one");
        assert_eq!(copy(&source(&bytes, &lease).stretch, 0, &mut to), Ok(()));
    }
}
