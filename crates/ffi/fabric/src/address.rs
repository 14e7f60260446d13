//! Peers: their addresses, and the numbers by which operations name them.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabric_sys::{self as sys, call};

use crate::domain::Domain;
use crate::error::Error;
use crate::object::Owned;

/// Maximum length of an endpoint address.
pub(crate) const ADDRESS_BYTES_MAX: usize = 512;

/// A peer in an [`AddressVector`], for the endpoints that were opened with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Number in the vector; it may name another peer, or none, in another vector.
    pub(crate) number: u64,
    pub(crate) vector: u64,
}

/// Addresses that endpoints may send to.
#[derive(Debug)]
pub struct AddressVector {
    pub(crate) raw: Owned<sys::fid_av>,
    /// Number that distinguishes the vectors of a process.
    pub(crate) id: u64,
    pub(crate) domain: Domain,
}

impl AddressVector {
    /// Opens a table with room for `count` peers (a hint).
    ///
    /// # Errors
    /// Returns [`Error::Call`].
    pub fn open(domain: &Domain, count: usize) -> Result<Rc<Self>, Error> {
        let mut attr = sys::fi_av_attr {
            type_: sys::FI_AV_TABLE,
            rx_ctx_bits: 0,
            count,
            ep_per_node: 0,
            name: std::ptr::null(),
            map_addr: std::ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: the domain is alive and the attributes live during the call.
        let raw = Owned::open("fi_av_open", |out| unsafe {
            call::fi_av_open(domain.0.raw.raw(), &raw mut attr, out)
        })?;
        static VECTORS: AtomicU64 = AtomicU64::new(0);
        let id = VECTORS.fetch_add(1, Ordering::Relaxed);
        Ok(Rc::new(Self { raw, id, domain: domain.clone() }))
    }

    /// Adds the address another endpoint answered from
    /// [`Endpoint::address`](crate::Endpoint::address).
    ///
    /// # Errors
    /// Returns [`Error::TooLong`] for more bytes than any address has, else [`Error::Call`], also
    /// when the provider took no address.
    pub fn insert(&self, address: &[u8]) -> Result<Peer, Error> {
        // A provider reads as many bytes as its address format has: give it room beyond a short
        // (hostile) address.
        let mut padded = [0_u8; ADDRESS_BYTES_MAX];
        let Some(room) = padded.get_mut(..address.len()) else {
            return Err(Error::TooLong { len: address.len(), max: ADDRESS_BYTES_MAX });
        };
        room.copy_from_slice(address);
        let mut number = sys::FI_ADDR_UNSPEC;
        let address = padded.as_ptr().cast();
        // SAFETY: the vector is alive; `padded` is longer than any address format.
        let ret = unsafe { call::fi_av_insert(self.raw.raw(), address, 1, &raw mut number) };
        match ret {
            1 => Ok(Peer { number, vector: self.id }),
            0 => Err(Error::call("fi_av_insert", -22)),
            _ => Err(Error::call("fi_av_insert", ret as isize)),
        }
    }
}
