//! What the queue pairs of a device share about sealed datagrams, with a key and without.

use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use srd::Instant;

use crate::framing::Layout;
use crate::host;
use crate::say::say;
use crate::seal::{Complaints, OVERHEAD_BYTES, SealKey, Throttle};

/// The key of a device, and its answers to those who have another.
#[derive(Debug)]
pub(crate) struct Sealing {
    key: Option<SealKey>,
    throttle: Mutex<Throttle>,
    complaints: Mutex<Complaints>,
}

impl Sealing {
    /// Starts the sealing of a device. With a key it needs random numbers that nobody can guess,
    /// and has no substitute for them.
    pub(crate) fn new(key: Option<SealKey>) -> io::Result<Self> {
        let sealing = Self { key, throttle: Mutex::default(), complaints: Mutex::default() };
        sealing.session()?;
        Ok(sealing)
    }

    pub(crate) fn key(&self) -> Option<&SealKey> {
        self.key.as_ref()
    }

    pub(crate) fn layout(&self) -> Layout {
        if self.key.is_some() { Layout::Sealed } else { Layout::Srd }
    }

    /// Returns the layout of RoCE packets.
    pub(crate) fn layout_of_packets(&self) -> Layout {
        if self.key.is_some() { Layout::SealedRoce } else { Layout::Roce }
    }

    /// Returns the number of bytes that it adds to each datagram.
    pub(crate) fn overhead_bytes(&self) -> u32 {
        if self.key.is_some() { OVERHEAD_BYTES as u32 } else { 0 }
    }

    /// The name of the first session of a queue pair (SRD-11.4); 0 without a key.
    pub(crate) fn session(&self) -> io::Result<u64> {
        let Some(_) = self.key else { return Ok(0) };
        Ok(u64::from_ne_bytes(host::unguessable_bytes()?))
    }

    /// One more notice may be sent.
    pub(crate) fn may_notify(&self, now: Instant) -> bool {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner).allows(now.as_ns())
    }

    /// Says once that nothing from `peer` can be opened.
    pub(crate) fn report_other_key(&self, device: &str, peer: IpAddr) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = complaints.line(device, peer) {
            say(&line);
        }
    }
}
