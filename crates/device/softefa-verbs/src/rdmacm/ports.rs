//! The ports of ids, and the sockets behind them.
//!
//! A port that peers may connect to is a UDP port of the same number, at the address that it is
//! bound to, or at the address of each adapter and of loopback. So the kernel knows its owner
//! across all processes, and sends an ICMP error when there is none. The messages of this process
//! leave from one socket per adapter, at a port that no peer connects to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::Arc;

use cm::ids::Binding;
use cm::ucma::Errno;

use softefa::gateway::Gateway;

use super::adapters::Adapters;
use super::socket::Socket;
use super::watch::Watch;

/// The first number of ports that no peer connects to.
const OUTGOING_MIN: u16 = 0x8000;
/// The number of such ports.
const OUTGOING_MAX: usize = 0x8000;
/// How often a port is drawn that must be free at every adapter.
const DRAWS: usize = 64;

/// An id that has a port.
#[derive(Debug)]
struct Holder {
    id: u32,
    ip: IpAddr,
    is_shared: bool,
    is_family_only: bool,
    /// The addresses at which sockets are bound for it.
    places: Vec<IpAddr>,
}

impl Holder {
    fn of(binding: &Binding) -> Self {
        let Binding { id, address, is_shared, is_family_only, .. } = *binding;
        Self { id, ip: address.ip(), is_shared, is_family_only, places: Vec::new() }
    }

    /// Returns whether it is bound to every address, and `ip` is one of them.
    fn is_everywhere_like(&self, ip: IpAddr) -> bool {
        let is_of_family = self.ip.is_ipv4() == ip.is_ipv4();
        self.ip.is_unspecified() && (is_of_family || self.ip.is_ipv6() && !self.is_family_only)
    }

    /// Returns whether the two share an address, and so could not have the same port.
    fn meets(&self, other: &Self) -> bool {
        let is_in = |one: &Self, ip: IpAddr| one.ip == ip || one.is_everywhere_like(ip);
        is_in(self, other.ip) || is_in(other, self.ip)
    }
}

/// A socket, and the number of ids that use its port.
#[derive(Debug)]
struct Listening {
    socket: Arc<Socket>,
    holders: usize,
}

pub(super) struct Ports {
    pub(super) adapters: Adapters,
    /// The ports by port space and number.
    holders: BTreeMap<(u16, u16), Vec<Holder>>,
    listening: BTreeMap<SocketAddr, Listening>,
    /// The sockets that this process sends from.
    speaking: BTreeMap<IpAddr, Arc<Socket>>,
    /// The gateways of adapters that have sockets.
    gateways: BTreeMap<IpAddr, Arc<Gateway>>,
    outgoing: BTreeSet<u16>,
    next_outgoing: u16,
    watch: Option<Arc<Watch>>,
}

impl Ports {
    /// Creates the ports; `first` is random, so that processes do not draw the same numbers.
    pub(super) fn new(adapters: Adapters, first: u16) -> Self {
        Self {
            adapters,
            holders: BTreeMap::new(),
            listening: BTreeMap::new(),
            speaking: BTreeMap::new(),
            gateways: BTreeMap::new(),
            outgoing: BTreeSet::new(),
            next_outgoing: first,
            watch: None,
        }
    }

    /// Registers every socket with `watch` from now on.
    pub(super) fn set_watch(&mut self, watch: Arc<Watch>) {
        self.watch = Some(watch);
    }

    pub(super) fn watch(&self) -> Option<&Arc<Watch>> {
        self.watch.as_ref()
    }

    /// Returns the socket with this descriptor.
    pub(super) fn socket(&self, fd: RawFd) -> Option<&Arc<Socket>> {
        let listening = self.listening.values().map(|listening| &listening.socket);
        listening.chain(self.speaking.values()).find(|socket| socket.fd() == fd)
    }

    /// Returns the socket that messages from `local` leave from.
    pub(super) fn sending_socket(&mut self, local: IpAddr) -> io::Result<Arc<Socket>> {
        if let Some(socket) = self.speaking.get(&local) {
            return Ok(Arc::clone(socket));
        }
        let socket = self.open(SocketAddr::new(local, 0))?;
        self.speaking.insert(local, Arc::clone(&socket));
        Ok(socket)
    }

    /// See [`cm::ids::Host::bind`].
    pub(super) fn bind(&mut self, binding: &Binding) -> Result<u16, Errno> {
        let Binding { space, address, is_outgoing, .. } = *binding;
        if is_outgoing && address.port() == 0 {
            return Ok(self.draw_outgoing());
        }
        let mut holder = Holder::of(binding);
        // No address, if no adapter has one of that family: the port receives nothing, but the
        // kernel accepts it all the same. tgt binds both families.
        let at = self.places(&holder);
        let port = match address.port() {
            0 if at.is_empty() => self.draw_unheld(space, &holder)?,
            0 => self.take_any(space, &holder, &at)?,
            port => {
                self.check_free(space, port, &holder)?;
                self.take_all(&at, port).map_err(|errno| match errno {
                    Errno::EADDRINUSE => taken(address.ip().is_unspecified()),
                    other => other,
                })?;
                port
            }
        };
        holder.places = at;
        self.take_loopback(&mut holder, port);
        self.holders.entry((space, port)).or_default().push(holder);
        Ok(port)
    }

    /// See [`cm::ids::Host::release`].
    pub(super) fn release(&mut self, binding: &Binding) {
        let port = binding.address.port();
        let key = (binding.space, port);
        let Some(holders) = self.holders.get_mut(&key) else {
            self.outgoing.remove(&port);
            return;
        };
        let Some(place) = holders.iter().position(|holder| holder.id == binding.id) else {
            self.outgoing.remove(&port);
            return;
        };
        let holder = holders.swap_remove(place);
        if holders.is_empty() {
            self.holders.remove(&key);
        }
        for ip in holder.places {
            self.give_back(SocketAddr::new(ip, port));
        }
    }

    /// See [`cm::ids::Host::change`]. The sockets stay bound as they are.
    pub(super) fn change(&mut self, binding: &Binding) {
        let key = (binding.space, binding.address.port());
        let holders = self.holders.get_mut(&key).into_iter().flatten();
        for holder in holders.filter(|holder| holder.id == binding.id) {
            holder.is_shared = binding.is_shared;
            holder.is_family_only = binding.is_family_only;
        }
    }

    /// Returns the addresses at which sockets must be bound for an id.
    fn places(&self, holder: &Holder) -> Vec<IpAddr> {
        if !holder.ip.is_unspecified() {
            return vec![holder.ip];
        }
        self.adapters.addresses().filter(|addr| holder.is_everywhere_like(*addr)).collect()
    }

    /// Binds the port at loopback, too, if it is free: programs connect to their own machine at
    /// 127.0.0.1, and the kernel accepts that at any adapter. If several adapters act as separate
    /// hosts, the first that listens gets the port.
    fn take_loopback(&mut self, holder: &mut Holder, port: u16) {
        let wanted = self.adapters.loopback().filter(|local| holder.is_everywhere_like(*local));
        for local in wanted.collect::<Vec<_>>() {
            if self.take(SocketAddr::new(local, port)).is_ok() {
                holder.places.push(local);
            }
        }
    }

    /// Refuses a port that another id of this process has and does not share.
    fn check_free(&self, space: u16, port: u16, holder: &Holder) -> Result<(), Errno> {
        let mut others = self.holders.get(&(space, port)).into_iter().flatten();
        let is_in_the_way =
            |other: &&Holder| !(holder.is_shared && other.is_shared) && holder.meets(other);
        match others.find(is_in_the_way) {
            Some(other) => Err(taken(holder.ip.is_unspecified() || other.ip.is_unspecified())),
            None => Ok(()),
        }
    }

    /// Draws a number for an id that connects. Ids of other processes may have the same: it only
    /// distinguishes the ids of this process.
    fn draw_outgoing(&mut self) -> u16 {
        loop {
            let port = self.next_number();
            if self.outgoing.insert(port) || self.outgoing.len() == OUTGOING_MAX {
                return port;
            }
        }
    }

    fn next_number(&mut self) -> u16 {
        self.next_outgoing = self.next_outgoing.wrapping_add(1) | OUTGOING_MIN;
        self.next_outgoing
    }

    /// Draws a port that no id of this process has, where no adapter listens.
    fn draw_unheld(&mut self, space: u16, holder: &Holder) -> Result<u16, Errno> {
        for _ in 0..DRAWS {
            let port = self.next_number();
            if !self.outgoing.contains(&port) && self.check_free(space, port, holder).is_ok() {
                return Ok(port);
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// Takes a port that is free at all of these addresses, and that no id of this process has.
    fn take_any(&mut self, space: u16, holder: &Holder, at: &[IpAddr]) -> Result<u16, Errno> {
        let Some(first) = at.first() else { return Err(Errno::ENODEV) };
        for _ in 0..DRAWS {
            let socket = self.open(SocketAddr::new(*first, 0)).map_err(|e| errno_of(&e))?;
            let port = socket.local().port();
            self.listening.insert(socket.local(), Listening { socket, holders: 1 });
            let is_free = self.check_free(space, port, holder).is_ok();
            if is_free && self.take_all(&at[1..], port).is_ok() {
                return Ok(port);
            }
            self.give_back(SocketAddr::new(*first, port));
        }
        Err(Errno::EADDRINUSE)
    }

    /// Takes the port at all of these addresses, or at none.
    fn take_all(&mut self, at: &[IpAddr], port: u16) -> Result<(), Errno> {
        for (taken, ip) in at.iter().enumerate() {
            if let Err(error) = self.take(SocketAddr::new(*ip, port)) {
                for ip in &at[..taken] {
                    self.give_back(SocketAddr::new(*ip, port));
                }
                return Err(errno_of(&error));
            }
        }
        Ok(())
    }

    fn take(&mut self, at: SocketAddr) -> io::Result<()> {
        if let Some(listening) = self.listening.get_mut(&at) {
            listening.holders += 1;
            return Ok(());
        }
        let socket = self.open(at)?;
        self.listening.insert(at, Listening { socket, holders: 1 });
        Ok(())
    }

    fn give_back(&mut self, at: SocketAddr) {
        let Some(listening) = self.listening.get_mut(&at) else { return };
        listening.holders -= 1;
        if listening.holders > 0 {
            return;
        }
        if let Some(Listening { socket, .. }) = self.listening.remove(&at) {
            if let Some(watch) = &self.watch {
                watch.forget(socket.fd());
            }
            // Closed here, not when the thread is done with it: the port may be bound again at
            // once.
            socket.close();
        }
    }

    /// Returns the gateway of the adapter of `local`, once that has a socket.
    pub(super) fn gateway(&self, local: IpAddr) -> Option<&Arc<Gateway>> {
        self.gateways.get(&local)
    }

    /// Joins the gateway of an adapter that has one.
    fn join(&mut self, local: IpAddr) -> io::Result<Option<Arc<Gateway>>> {
        let Some(port) = self.adapters.gateway_of(local) else { return Ok(None) };
        if let Entry::Vacant(place) = self.gateways.entry(local) {
            let joined = Gateway::connect(local, port).inspect_err(|error| {
                softefa::say(&format!("softefa: connections of {local}: {error}"));
            });
            place.insert(joined?);
        }
        Ok(self.gateway(local).cloned())
    }

    fn open(&mut self, at: SocketAddr) -> io::Result<Arc<Socket>> {
        let gateway = self.join(at.ip())?;
        let sealing = self.adapters.sealing()?;
        let socket = Socket::bind(at, gateway.as_ref(), sealing.as_ref())?;
        if let Some(watch) = &self.watch {
            watch.add(socket.fd())?;
        }
        Ok(Arc::new(socket))
    }
}

/// Returns the kernel's error for a port in use, which differs when one of the two requested every
/// address. The address that another process requested is not known.
fn taken(is_any: bool) -> Errno {
    if is_any { Errno::EADDRNOTAVAIL } else { Errno::EADDRINUSE }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::super::adapters::tests::at;
    use super::*;

    const TCP: u16 = 0x0106;
    const UDP: u16 = 0x0111;

    fn ports() -> Ports {
        Ports::new(at(&["127.0.0.1", "127.0.0.2"]), 0)
    }

    fn binding(id: u32, address: &str) -> Binding {
        let address = address.parse().unwrap();
        let (is_shared, is_family_only, is_outgoing) = (false, false, false);
        Binding { id, space: TCP, address, is_shared, is_family_only, is_outgoing }
    }

    fn bound(ports: &mut Ports, binding: &mut Binding) -> Result<u16, Errno> {
        let port = ports.bind(binding)?;
        binding.address.set_port(port);
        Ok(port)
    }

    #[test]
    fn a_port_without_an_address_is_one_at_each_adapter() {
        let (mut ports, mut other) = (ports(), ports());
        let mut everywhere = binding(1, "0.0.0.0:0");
        let port = bound(&mut ports, &mut everywhere).unwrap();
        assert_eq!(ports.listening.len(), 2);
        for (ip, elsewhere) in [
            ("127.0.0.1", Errno::EADDRINUSE),
            ("127.0.0.2", Errno::EADDRINUSE),
            ("0.0.0.0", Errno::EADDRNOTAVAIL),
        ] {
            let taken = binding(2, &format!("{ip}:{port}"));
            assert_eq!(ports.bind(&taken), Err(Errno::EADDRNOTAVAIL), "{ip}, in this process");
            assert_eq!(other.bind(&taken), Err(elsewhere), "{ip}, in another");
        }
        assert_eq!(other.listening.len(), 0, "what was taken was given back");
        ports.release(&everywhere);
        assert_eq!(ports.listening.len() + ports.holders.len(), 0);
        assert_eq!(other.bind(&binding(3, &format!("0.0.0.0:{port}"))), Ok(port));
    }

    /// As the kernel's `cma_check_port`, on which sideway's tests insist.
    #[test]
    fn a_taken_port_is_refused_by_the_kernel_s_errno() {
        let mut ports = ports();
        let mut first = binding(1, "127.0.0.1:0");
        let port = bound(&mut ports, &mut first).unwrap();
        let same = binding(2, &format!("127.0.0.1:{port}"));
        assert_eq!(ports.bind(&same), Err(Errno::EADDRINUSE));
        let every = binding(3, &format!("0.0.0.0:{port}"));
        assert_eq!(ports.bind(&every), Err(Errno::EADDRNOTAVAIL));
        ports.release(&first);
        assert_eq!(ports.bind(&every), Ok(port));
        assert_eq!(ports.bind(&same), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(ports.bind(&Binding { id: 4, ..every }), Err(Errno::EADDRNOTAVAIL));
    }

    #[test]
    fn who_shares_and_who_is_in_another_space_does_not_disturb() {
        let mut ports = ports();
        let mut first = Binding { is_shared: true, ..binding(1, "127.0.0.1:0") };
        let port = bound(&mut ports, &mut first).unwrap();
        let address = first.address;
        let second = Binding { id: 2, ..first };
        assert_eq!(ports.bind(&second), Ok(port));
        assert_eq!(
            ports.bind(&Binding { id: 3, is_shared: false, ..first }),
            Err(Errno::EADDRINUSE)
        );
        let datagrams = Binding { id: 4, space: UDP, is_shared: false, ..first };
        assert_eq!(ports.bind(&datagrams), Ok(port));
        let elsewhere = binding(5, &format!("127.0.0.2:{port}"));
        assert_eq!(ports.bind(&elsewhere), Ok(port));
        for own in [first, second, elsewhere] {
            ports.release(&own);
        }
        assert_eq!(ports.listening.len(), 1, "one id is left");
        ports.release(&datagrams);
        assert!(Socket::bind(address, None, None).is_ok(), "free at once");
    }

    #[test]
    fn families_share_a_port_where_ipv6_leaves_ipv4_to_others() {
        let mut ports = Ports::new(at(&["127.0.0.1", "::1"]), 0);
        let only = |binding| Binding { is_family_only: true, ..binding };
        let mut four = binding(1, "0.0.0.0:0");
        let port = bound(&mut ports, &mut four).unwrap();
        assert_eq!(ports.listening.len(), 1, "the adapter of IPv6 is not meant");
        let both = binding(2, &format!("[::]:{port}"));
        assert_eq!(ports.bind(&both), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(ports.bind(&only(both)), Ok(port));
        assert_eq!(ports.bind(&binding(3, &format!("[::1]:{port}"))), Err(Errno::EADDRNOTAVAIL));
        ports.release(&only(both));
        ports.release(&four);
        assert_eq!(ports.bind(&both), Ok(port));
        assert_eq!(ports.listening.len(), 2);
        assert_eq!(ports.bind(&four), Err(Errno::EADDRNOTAVAIL));
    }

    /// Returns an address of this machine on another link than loopback; without one the test is
    /// skipped loudly.
    fn outer_address() -> Option<String> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
        let local = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
        let found = local.ok().filter(|local| !local.ip().is_loopback());
        if found.is_none() {
            eprintln!("SKIPPED, NOT TESTED: this machine has no address but loopback's");
        }
        found.map(|local| local.ip().to_string())
    }

    /// `rping -s` and `rping -c -a 127.0.0.1` must connect on an adapter at another address, too.
    #[test]
    fn every_address_includes_loopback_where_it_is_free() {
        let Some(own) = outer_address() else { return };
        let (mut ports, mut other) =
            (Ports::new(at(&[&own]), 0), Ports::new(at(&["127.0.0.1"]), 0));
        let mut everywhere = binding(1, "0.0.0.0:0");
        let draw = |_| {
            everywhere.address.set_port(0);
            let port = bound(&mut ports, &mut everywhere).unwrap();
            let has_both = ports.listening.len() == 2;
            if !has_both {
                ports.release(&everywhere);
            }
            has_both.then_some(port)
        };
        let port = (0..DRAWS).find_map(draw).expect("a port that nobody has at loopback");
        let local = binding(2, &format!("127.0.0.1:{port}"));
        assert_eq!(other.bind(&local), Err(Errno::EADDRINUSE));
        // In another port space it is the same socket.
        let datagrams = Binding { space: UDP, ..local };
        assert_eq!(ports.bind(&datagrams), Ok(port));
        ports.release(&everywhere);
        assert_eq!(ports.listening.len(), 1, "loopback, for one of the two");
        ports.release(&datagrams);
        assert_eq!(other.bind(&local), Ok(port));
        assert_eq!(ports.bind(&everywhere), Ok(port), "without loopback, which another has");
        assert_eq!(ports.listening.len(), 1);
    }

    /// Adapters that act as separate hosts do not take each other's addresses.
    #[test]
    fn who_has_an_address_of_loopback_listens_there_only() {
        let [mut one, mut two] = ["127.0.0.2", "127.0.0.1"].map(|own| Ports::new(at(&[own]), 0));
        let mut everywhere = binding(1, "0.0.0.0:0");
        let is_had_by_both = |_| {
            everywhere.address.set_port(0);
            let port = bound(&mut one, &mut everywhere).unwrap();
            assert_eq!(one.listening.len(), 1);
            let has_got = two.bind(&everywhere) == Ok(port);
            one.release(&everywhere);
            has_got
        };
        assert!((0..DRAWS).any(is_had_by_both), "others may have a few ports, not each");
    }

    /// A program (tgt) that listens on both families must not fail when only one has an adapter.
    #[test]
    fn every_address_of_a_family_without_adapter_can_be_had() {
        let mut ports = Ports::new(at(&["127.0.0.1"]), 0);
        let mut four = binding(1, "0.0.0.0:0");
        let port = bound(&mut ports, &mut four).unwrap();
        let six = Binding { is_family_only: true, ..binding(2, &format!("[::]:{port}")) };
        assert_eq!(ports.bind(&six), Ok(port));
        assert_eq!(ports.bind(&Binding { id: 3, ..six }), Err(Errno::EADDRNOTAVAIL));
        let mut drawn = Binding { is_family_only: true, ..binding(4, "[::]:0") };
        let other = bound(&mut ports, &mut drawn).unwrap();
        assert!(other != 0 && other != port);
        assert_eq!(ports.listening.len(), 1, "at the only adapter");
        [four, six, drawn].iter().for_each(|binding| ports.release(binding));
        assert_eq!((ports.listening.len(), ports.holders.len()), (0, 0));
    }

    /// A port that is in use at one address is not used at the others.
    #[test]
    fn any_port_is_one_that_no_id_has() {
        let mut ports = ports();
        let open = |id| {
            let mut one = binding(id, "127.0.0.2:0");
            bound(&mut ports, &mut one).unwrap()
        };
        let held: BTreeSet<u16> = (0..2000).map(open).collect();
        for id in 2000..2100 {
            let port = ports.bind(&binding(id, "0.0.0.0:0")).unwrap();
            assert!(!held.contains(&port), "{port}");
        }
    }

    /// Both ids set the option after they were bound, as librdmacm permits.
    #[test]
    fn who_says_later_that_it_shares_shares() {
        let mut ports = ports();
        let mut first = binding(1, "127.0.0.1:0");
        let port = bound(&mut ports, &mut first).unwrap();
        let second = Binding { id: 2, is_shared: true, ..first };
        assert_eq!(ports.bind(&second), Err(Errno::EADDRINUSE));
        ports.change(&Binding { is_shared: true, ..first });
        assert_eq!(ports.bind(&second), Ok(port));
    }

    #[test]
    fn who_connects_has_a_number_and_no_socket() {
        let mut ports = ports();
        let mut one = Binding { is_outgoing: true, ..binding(1, "0.0.0.0:0") };
        let mut two = Binding { id: 2, ..one };
        let (first, second) = (bound(&mut ports, &mut one), bound(&mut ports, &mut two));
        assert!(first != second && first.unwrap() >= OUTGOING_MIN);
        assert_eq!(ports.listening.len(), 0);
        ports.release(&one);
        ports.release(&two);
        assert_eq!(ports.outgoing.len(), 0);
        for _ in 0..70_000 {
            ports.draw_outgoing();
        }
        assert_eq!(ports.outgoing.len(), OUTGOING_MAX, "all, and then again");
    }

    #[test]
    fn one_socket_speaks_for_an_adapter() {
        let mut ports = ports();
        let speaker = ports.sending_socket([127, 0, 0, 1].into()).unwrap();
        assert!(Arc::ptr_eq(&speaker, &ports.sending_socket([127, 0, 0, 1].into()).unwrap()));
        assert!(ports.socket(speaker.fd()).is_some() && ports.socket(-1).is_none());
    }
}
