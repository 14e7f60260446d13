//! Listeners: services that accept requests.

use crate::{CallError, ListenerId};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The parameters of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenParams {
    /// The service.
    pub service_id: u64,
    /// The only address at which it is offered; an unspecified one for all of its family, `None`
    /// for all. The most specific listener gets a request.
    pub address: Option<IpAddr>,
    /// Datagrams ([`Event::ResolutionRequested`](crate::Event::ResolutionRequested)) instead of
    /// connections.
    pub is_datagram: bool,
    /// Requests that wait for the program at a time (CM-6.1).
    pub backlog: usize,
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) params: ListenParams,
    /// Requests that the program has not taken.
    pub(super) waiting: usize,
}

#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: BTreeMap<ListenerId, Listener>,
    by_service: BTreeMap<(u64, Option<IpAddr>), ListenerId>,
    drawn: u32,
}

impl Listeners {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn insert(&mut self, params: ListenParams) -> Result<ListenerId, CallError> {
        let service = (params.service_id, params.address);
        if self.by_service.contains_key(&service) {
            return Err(CallError::ServiceInUse);
        }
        self.drawn += 1;
        let id = ListenerId(self.drawn);
        self.by_service.insert(service, id);
        self.all.insert(id, Listener { params, waiting: 0 });
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: ListenerId) -> Result<(), CallError> {
        let listener = self.all.remove(&id).ok_or(CallError::Unknown)?;
        self.by_service.remove(&(listener.params.service_id, listener.params.address));
        Ok(())
    }

    pub(super) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.all.get_mut(&id)
    }

    /// Returns the listener for a service at an address.
    pub(super) fn find(&self, service_id: u64, address: IpAddr) -> Option<ListenerId> {
        let any = match address {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let at = |address| self.by_service.get(&(service_id, address)).copied();
        at(Some(address)).or_else(|| at(Some(any))).or_else(|| at(None))
    }
}
