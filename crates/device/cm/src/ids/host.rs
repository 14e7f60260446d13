//! The interface between the table of ids and its host program.

use super::ChannelId;
use crate::ucma::Errno;
use std::net::{IpAddr, SocketAddr};

/// An adapter, as an id with one of its addresses sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Node GUID.
    pub guid: u64,
    /// Index among the adapters, as `ibv_get_device_index` tells it; all ones when it does not.
    pub index: u32,
    /// Port that has the address.
    pub port_num: u8,
    /// GID of the address.
    pub gid: [u8; 16],
    /// Index of that GID.
    pub gid_index: u8,
    /// Partition key at index 0.
    pub pkey: u16,
    /// Code of the port's MTU.
    pub mtu: u8,
    /// Code of the port's rate.
    pub rate: u8,
    /// Hop limit of outgoing packets.
    pub hop_limit: u8,
}

/// A port that an id requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The id that requests it.
    pub id: u32,
    /// Port space.
    pub space: u16,
    /// Address and port; port 0 for any that is free.
    pub address: SocketAddr,
    /// The port may be shared with other ids that set this, too.
    pub is_shared: bool,
    /// Bound to every IPv6 address, it does not cover those of IPv4.
    pub is_family_only: bool,
    /// The id is about to connect: without a port number, no other id will request its port.
    pub is_outgoing: bool,
}

/// The program around the table of ids: it knows addresses, adapters and ports.
pub trait Host {
    /// The adapter that has a local address.
    ///
    /// # Errors
    /// [`Errno::EADDRNOTAVAIL`]: not an address of this machine; [`Errno::ENODEV`]: no adapter's.
    fn device(&self, local: IpAddr) -> Result<Device, Errno>;

    /// The local address from which to reach `destination`; for an unspecified one the address of
    /// an adapter.
    ///
    /// # Errors
    /// [`Errno::EHOSTUNREACH`], [`Errno::ENODEV`].
    fn source_for(&self, destination: IpAddr) -> Result<IpAddr, Errno>;

    /// Takes a port for an id and returns its number (CM-1.3).
    ///
    /// # Errors
    /// [`Errno::EADDRINUSE`], [`Errno::EADDRNOTAVAIL`], [`Errno::EACCES`].
    fn bind(&mut self, binding: &Binding) -> Result<u16, Errno>;

    /// Releases what [`bind`](Self::bind) took; the binding has the port that it returned.
    fn release(&mut self, binding: &Binding);

    /// Updates whether the port may be shared and whether it covers IPv4 addresses, which has
    /// changed since [`bind`](Self::bind).
    fn change(&mut self, binding: &Binding);

    /// Returns the address of the agent that listens at `destination`, as the adapter of `local`
    /// reaches it.
    fn agent_at(&self, local: IpAddr, destination: SocketAddr) -> SocketAddr {
        let _ = local;
        destination
    }

    /// Reads memory of the calling program; `None` where it has none.
    fn read(&self, at: u64, len: usize) -> Option<Vec<u8>>;

    /// Returns the channel of a descriptor of the calling program.
    fn channel(&self, fd: u32) -> Option<ChannelId>;
}
