//! What the table of ids asks the program around it.

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
    /// GID that stands for the address.
    pub gid: [u8; 16],
    /// Index of that GID.
    pub gid_index: u8,
    /// Partition key at index 0.
    pub pkey: u16,
    /// Code of the port's MTU.
    pub mtu: u8,
    /// Code of the port's rate.
    pub rate: u8,
    /// Hop limit of what leaves.
    pub hop_limit: u8,
}

/// A port that an id asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The id that asks.
    pub id: u32,
    /// Port space.
    pub space: u16,
    /// Address and port; port 0 for any that is free.
    pub address: SocketAddr,
    /// Others may have the port, too, if they say so as well.
    pub is_shared: bool,
    /// At every address of IPv6 it leaves those of IPv4 to others.
    pub is_family_only: bool,
    /// The id is about to connect: at a port that it gives no number for nobody will ask for it.
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

    /// Takes a port for an id; returns which (CM-1.3).
    ///
    /// # Errors
    /// [`Errno::EADDRINUSE`], [`Errno::EADDRNOTAVAIL`], [`Errno::EACCES`].
    fn bind(&mut self, binding: &Binding) -> Result<u16, Errno>;

    /// Gives back what [`bind`](Self::bind) took; the port is that which it returned.
    fn release(&mut self, binding: &Binding);

    /// Whether others may have the port, too, or addresses of IPv4, has changed since
    /// [`bind`](Self::bind) took it.
    fn change(&mut self, binding: &Binding);

    /// Where the agent receives that listens at `destination`, as the adapter of `local` reaches
    /// it.
    fn agent_at(&self, local: IpAddr, destination: SocketAddr) -> SocketAddr {
        let _ = local;
        destination
    }

    /// Bytes of the calling program; `None` when it has none there.
    fn read(&self, at: u64, len: usize) -> Option<Vec<u8>>;

    /// The channel of a descriptor of the calling program.
    fn channel(&self, fd: u32) -> Option<ChannelId>;
}
