//! Addresses: BIND, RESOLVE_ADDR, RESOLVE_ROUTE, LISTEN, and options.

use super::host::{Binding, Host};
use super::id::Stage;
use super::{ChannelId, Ids};
use crate::ListenParams;
use crate::ucma::{
    Bind, BindIp, Errno, Listen, ResolveAddr, ResolveIp, ResolveRoute, SetOption, Sockaddr, event,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The backlog where a program gives none or a larger one (Linux's default).
const BACKLOG_MAX: u32 = 1024;
/// Longest value of an option.
const OPTION_MAX: u32 = 4096;

impl Ids {
    pub(super) fn bind_ip(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        command: &BindIp,
    ) -> Result<(), Errno> {
        let address = ip(Sockaddr::parse(&command.addr))?;
        self.bind_to(host, channel, command.id, address, false)
    }

    pub(super) fn bind(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        command: &Bind,
    ) -> Result<(), Errno> {
        let address = Sockaddr::parse(&command.addr);
        if command.reserved != 0 || !is_sized(address, command.addr_size) {
            return Err(Errno::EINVAL);
        }
        self.bind_to(host, channel, command.id, ip(address)?, false)
    }

    fn bind_to(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        number: u32,
        address: SocketAddr,
        is_outgoing: bool,
    ) -> Result<(), Errno> {
        let id = self.find(channel, number)?;
        if id.stage != Stage::Idle {
            return Err(Errno::EINVAL);
        }
        let is_any = address.ip().is_unspecified();
        let device = if is_any { None } else { Some(host.device(address.ip())?) };
        let (space, is_shared, is_family_only) = (id.space, id.is_shared, id.is_family_only);
        let mut binding =
            Binding { id: number, space, address, is_shared, is_family_only, is_outgoing };
        let port = host.bind(&binding)?;
        binding.address.set_port(port);
        id.source = Some(binding.address);
        id.binding = Some(binding);
        id.device = device;
        id.stage = Stage::Bound;
        Ok(())
    }

    pub(super) fn resolve_ip(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        command: &ResolveIp,
    ) -> Result<(), Errno> {
        let source = Sockaddr::parse(&command.src_addr);
        let destination = ip(Sockaddr::parse(&command.dst_addr))?;
        self.resolve_to(host, channel, command.id, source, destination)
    }

    pub(super) fn resolve_addr(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        command: &ResolveAddr,
    ) -> Result<(), Errno> {
        let mut source = Sockaddr::parse(&command.src_addr);
        let destination = Sockaddr::parse(&command.dst_addr);
        if command.src_size == 0 {
            source = Sockaddr::Unspecified;
        }
        let is_source_sized = command.src_size == 0 || is_sized(source, command.src_size);
        if command.reserved != 0 || !is_source_sized || !is_sized(destination, command.dst_size) {
            return Err(Errno::EINVAL);
        }
        self.resolve_to(host, channel, command.id, source, ip(destination)?)
    }

    /// Finds the adapter and address from which a destination is reached. The result, good or bad,
    /// is an event.
    fn resolve_to(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        number: u32,
        source: Sockaddr,
        destination: SocketAddr,
    ) -> Result<(), Errno> {
        if self.find(channel, number)?.stage == Stage::Idle {
            let any = match destination {
                SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            };
            let source = match source {
                Sockaddr::Unspecified => SocketAddr::new(any, 0),
                given => ip(given)?,
            };
            self.bind_to(host, channel, number, source, true)?;
        }
        let id = self.find(channel, number)?;
        let bound = id.source.ok_or(Errno::EINVAL)?;
        if id.stage != Stage::Bound || bound.is_ipv4() != destination.is_ipv4() {
            return Err(Errno::EINVAL);
        }
        let found = reach(host, bound, destination);
        match found {
            Ok((source, destination, device)) => {
                id.source = Some(source);
                id.destination = Some(destination);
                id.device = Some(device);
                id.stage = Stage::AddrResolved;
                self.queue_plain(number, event::ADDR_RESOLVED, 0);
            }
            Err(errno) => self.queue_plain(number, event::ADDR_ERROR, -errno.0),
        }
        Ok(())
    }

    pub(super) fn resolve_route(
        &mut self,
        channel: ChannelId,
        command: &ResolveRoute,
    ) -> Result<(), Errno> {
        let id = self.find(channel, command.id)?;
        if id.stage != Stage::AddrResolved {
            return Err(Errno::EINVAL);
        }
        id.stage = Stage::RouteResolved;
        self.queue_plain(command.id, event::ROUTE_RESOLVED, 0);
        Ok(())
    }

    pub(super) fn listen(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        command: &Listen,
    ) -> Result<(), Errno> {
        if self.find(channel, command.id)?.stage == Stage::Idle {
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            self.bind_to(host, channel, command.id, any, false)?;
        }
        let id = self.find(channel, command.id)?;
        let is_outgoing = id.binding.is_some_and(|binding| binding.is_outgoing);
        let source = id.source.filter(|_| id.stage == Stage::Bound && !is_outgoing);
        let source = source.ok_or(Errno::EINVAL)?;
        let backlog = if command.backlog == 0 { BACKLOG_MAX } else { command.backlog };
        // As for sockets, IPv6 without an address includes IPv4.
        let serves_both = source.is_ipv6() && source.ip().is_unspecified() && !id.is_family_only;
        let params = ListenParams {
            service_id: id.service_id(source.port()),
            address: Some(source.ip()).filter(|_| !serves_both),
            is_datagram: id.is_datagram(),
            backlog: backlog.min(BACKLOG_MAX) as usize,
        };
        let listener = self.agent.listen(params).map_err(|_| Errno::EADDRINUSE)?;
        self.by_listener.insert(listener, command.id);
        let id = self.find(channel, command.id)?;
        id.listener = Some(listener);
        id.stage = Stage::Listening;
        Ok(())
    }

    pub(super) fn set_option(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        command: &SetOption,
    ) -> Result<(), Errno> {
        const ID: u32 = 0;
        let id = self.find(channel, command.id)?;
        if command.optlen > OPTION_MAX {
            return Err(Errno::EINVAL);
        }
        let value = host.read(command.optval, command.optlen as usize).ok_or(Errno::EFAULT)?;
        let number = || <[u8; 4]>::try_from(&value[..]).map(u32::from_ne_bytes);
        match (command.level, command.optname, &value[..]) {
            (ID, 0, &[tos]) => id.tos = tos,
            (ID, 1, _) => {
                let is_shared = number().map_err(|_| Errno::EINVAL)? != 0;
                if id.stage != Stage::Idle && (!is_shared || id.stage == Stage::Listening) {
                    return Err(Errno::EINVAL);
                }
                id.is_shared = is_shared;
            }
            (ID, 2, _) if matches!(id.stage, Stage::Idle | Stage::Bound) => {
                id.is_family_only = number().map_err(|_| Errno::EINVAL)? != 0;
            }
            (ID, 3, &[exponent]) => id.ack_timeout = Some(exponent.min(31)),
            (ID, 0..=3, _) => return Err(Errno::EINVAL),
            (1, 1, _) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::ENOSYS),
        }
        if let Some(binding) = &mut id.binding {
            (binding.is_shared, binding.is_family_only) = (id.is_shared, id.is_family_only);
            host.change(binding);
        }
        Ok(())
    }
}

/// Returns the addresses of both sides and the local adapter.
fn reach(
    host: &impl Host,
    bound: SocketAddr,
    mut destination: SocketAddr,
) -> Result<(SocketAddr, SocketAddr, super::Device), Errno> {
    let mut source = bound;
    if source.ip().is_unspecified() {
        source.set_ip(host.source_for(destination.ip())?);
    }
    if destination.ip().is_unspecified() {
        // An unspecified destination means this machine.
        destination.set_ip(source.ip());
    }
    Ok((source, destination, host.device(source.ip())?))
}

fn is_sized(address: Sockaddr, size: u16) -> bool {
    size != 0 && address.size() == usize::from(size)
}

/// Returns the address if its family is supported.
fn ip(address: Sockaddr) -> Result<SocketAddr, Errno> {
    match address {
        Sockaddr::Ip(address) => Ok(address),
        Sockaddr::Unspecified => Err(Errno::EINVAL),
        Sockaddr::Ib | Sockaddr::Other(_) => Err(Errno::EAFNOSUPPORT),
    }
}
