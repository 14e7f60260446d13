//! Copies from the memory of another process of this machine (`process_vm_readv(2)`).
//!
//! RDMA between processes of one machine need not carry its bytes through sockets: whoever owns
//! the memory that is written reads the other's memory itself (SRD-10.7). It is told where by a
//! `Source`, which proves two things before a byte counts:
//!
//! * that whoever made it knows the **user key**, which `softefa run` hands to programs of one
//!   user only: they may read each other's memory anyway, so nobody gains a right from us;
//! * the **witness**, random bytes in the memory of the process, which are read in the same
//!   system call as the payload: a successor with the same process id has other ones.

use std::sync::OnceLock;

use siphasher::sip128::SipHasher24;

use crate::host;

/// Shared by the programs of one user on one machine.
pub type UserKey = [u8; 16];

/// Random bytes at a known address of this process.
static WITNESS: OnceLock<[u8; 16]> = OnceLock::new();

fn witness() -> &'static [u8; 16] {
    WITNESS.get_or_init(random_key)
}

/// A key nobody can guess.
#[must_use]
pub fn random_key() -> UserKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&host::random_u64().to_ne_bytes());
    key[8..].copy_from_slice(&host::random_u64().to_ne_bytes());
    key
}

/// Bytes in the memory of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pid: u32,
    len: u32,
    addr: u64,
    witness_addr: u64,
    witness: [u8; 16],
    /// [`Source::seal`] of the other fields.
    seal: [u8; 16],
}

/// Why bytes could not be copied; the caller takes the wire instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyError {
    /// Another user, another machine, or somebody who only says so.
    Stranger,
    /// The kernel does not let us (other process namespace, ptrace restrictions, process ended).
    NotPermitted,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x} of process {}", self.len, self.addr, self.pid)
    }
}

impl Source {
    pub(crate) const LEN: usize = 56;

    /// `len` bytes at `addr` of this process.
    pub(crate) fn own(key: UserKey, addr: u64, len: u32) -> Self {
        let witness = witness();
        let witness_addr = witness.as_ptr() as usize as u64;
        let pid = std::process::id();
        let open = Self { pid, len, addr, witness_addr, witness: *witness, seal: [0; 16] };
        Self { seal: open.seal(key), ..open }
    }

    /// Proves that the user key was known, without telling it.
    fn seal(&self, key: UserKey) -> [u8; 16] {
        let raw = self.emit();
        SipHasher24::new_with_key(&key).hash(&raw[..Self::LEN - 16]).as_bytes()
    }

    /// Bytes of the source.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn parse(raw: &[u8]) -> Option<Self> {
        let raw: &[u8; Self::LEN] = raw.try_into().ok()?;
        let word = |at: usize| u32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let bytes = |at: usize| std::array::from_fn(|i| raw[at + i]);
        Some(Self {
            pid: word(0),
            len: word(4),
            addr: long(8),
            witness_addr: long(16),
            witness: bytes(24),
            seal: bytes(40),
        })
    }

    pub(crate) fn emit(&self) -> [u8; Self::LEN] {
        let mut raw = [0; Self::LEN];
        raw[..4].copy_from_slice(&self.pid.to_be_bytes());
        raw[4..8].copy_from_slice(&self.len.to_be_bytes());
        raw[8..16].copy_from_slice(&self.addr.to_be_bytes());
        raw[16..24].copy_from_slice(&self.witness_addr.to_be_bytes());
        raw[24..40].copy_from_slice(&self.witness);
        raw[40..].copy_from_slice(&self.seal);
        raw
    }

    /// Copies bytes `offset .. offset + len` of the source to `to`, which is registered memory.
    ///
    /// # Errors
    /// [`CopyError`]; some of the bytes at `to` may have been written.
    pub(crate) fn copy(
        &self,
        key: UserKey,
        offset: u32,
        to: u64,
        len: u32,
    ) -> Result<(), CopyError> {
        let end = u64::from(offset) + u64::from(len);
        let from = self.addr.checked_add(u64::from(offset)).ok_or(CopyError::Stranger)?;
        if self.seal != self.seal(key) || end > u64::from(self.len) {
            return Err(CopyError::Stranger);
        }
        let mut seen = [0u8; 16];
        self.read_vm(&mut seen, (from, to, len as usize))?;
        if seen == self.witness { Ok(()) } else { Err(CopyError::Stranger) }
    }

    #[allow(unsafe_code)]
    fn read_vm(
        &self,
        seen: &mut [u8; 16],
        (from, to, len): (u64, u64, usize),
    ) -> Result<(), CopyError> {
        let entry =
            |addr: u64, len| libc::iovec { iov_base: addr as usize as *mut _, iov_len: len };
        let witness_len = seen.len();
        let local = [entry(seen.as_mut_ptr() as usize as u64, witness_len), entry(to, len)];
        let remote = [entry(self.witness_addr, witness_len), entry(from, len)];
        let pid = libc::pid_t::try_from(self.pid).map_err(|_| CopyError::Stranger)?;
        // SAFETY: writes to `seen` and to `to..to + len`, which lies in a live region with the
        // right to write it (as `mr::copy_in`); the kernel checks both address spaces.
        let got = unsafe { libc::process_vm_readv(pid, local.as_ptr(), 2, remote.as_ptr(), 2, 0) };
        let is_whole = usize::try_from(got) == Ok(witness_len + len);
        if is_whole { Ok(()) } else { Err(CopyError::NotPermitted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: UserKey = *b"key of this user";

    fn source(bytes: &[u8]) -> Source {
        let len = u32::try_from(bytes.len()).unwrap();
        Source::own(KEY, bytes.as_ptr() as usize as u64, len)
    }

    fn copy(source: &Source, key: UserKey, offset: u32, to: &mut [u8]) -> Result<(), CopyError> {
        let len = u32::try_from(to.len()).unwrap();
        source.copy(key, offset, to.as_mut_ptr() as usize as u64, len)
    }

    #[test]
    fn a_stretch_is_copied() {
        let source = Source::parse(&source(b"abcdefgh").emit()).unwrap();
        let mut to = [0; 3];
        assert_eq!(copy(&source, KEY, 4, &mut to), Ok(()));
        assert_eq!(&to, b"efg");
    }

    #[test]
    fn strangers_and_successors_are_told_apart() {
        let bytes = [7; 32];
        let good = source(&bytes);
        let sealed = |source: Source| Source { seal: source.seal(KEY), ..source };
        let forged = Source { addr: good.addr + 8, ..good };
        let successor = sealed(Source { witness: [0; 16], ..good });
        let nobody = sealed(Source { pid: u32::MAX, ..good });
        let mut to = [0; 8];
        assert_eq!(copy(&good, *b"of another user!", 0, &mut to), Err(CopyError::Stranger));
        for bad in [forged, successor, nobody] {
            assert_eq!(copy(&bad, KEY, 0, &mut to), Err(CopyError::Stranger), "{bad:?}");
        }
        assert_eq!(copy(&good, KEY, 25, &mut to), Err(CopyError::Stranger), "beyond the source");
        let unmapped = sealed(Source { addr: 64, ..good });
        assert_eq!(copy(&unmapped, KEY, 0, &mut to), Err(CopyError::NotPermitted));
    }
}
