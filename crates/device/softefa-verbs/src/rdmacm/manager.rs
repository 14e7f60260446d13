//! The connection manager of this process.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cm::ids::{Binding, ChannelId, Device, Host, Ids};
use cm::ucma;
use cm::{Config, Seed, Transmit};
use softefa::mad::Packer;
use softefa::seal::{Complaints, Notice, Throttle};
use softefa::{ManagementPacket, PerProcess};

use super::adapters::Adapters;
use super::arrived;
use super::channels::Channels;
use super::ports::Ports;
use super::socket::{Datagram, IcmpError, SendResult, Socket};
use super::watch::Watch;
use super::{ending, thread, user};
use crate::errno::Errno;

static MANAGER: PerProcess<Result<Manager, Errno>> = PerProcess::new();

/// A send is tried this often, because pending ICMP messages can make it fail.
const SEND_TRIES: usize = 4;

pub(super) struct Manager {
    pid: u32,
    start: Instant,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) ids: Ids,
    pub(super) host: Surroundings,
    packer: Packer,
    /// Limits the notices about messages that do not open.
    notices: Throttle,
    /// Limits the warnings about messages that do not open.
    complaints: Complaints,
    /// The time at which the thread is to handle timers.
    alarm: Option<Duration>,
    withheld: Vec<Withheld>,
}

/// The end of a connection, withheld while its program has not polled earlier completions.
struct Withheld {
    /// The local address of the connection.
    local: IpAddr,
    /// The address of its queue pair.
    home: IpAddr,
    qpn: u32,
    until: Duration,
    next_poll: Duration,
}

impl Withheld {
    /// The program may never poll. One that does is late on a busy machine: it waits for a
    /// processor while others have their turns of a few milliseconds.
    const WAIT_MAX: Duration = Duration::from_millis(50);
    const POLL_INTERVAL: Duration = Duration::from_millis(1);
}

/// The host of the table of ids.
pub(super) struct Surroundings {
    pub(super) ports: Ports,
    pub(super) channels: Channels,
}

/// Returns the manager of this process, which is created on first use.
pub(super) fn of_process() -> Result<&'static Manager, Errno> {
    let made = MANAGER.get_or_init(|| {
        let mut random = [0; 18];
        fill_random(&mut random)?;
        ending::prepare();
        Ok(Manager::new(random))
    });
    made.as_ref().map_err(|errno| *errno)
}

/// Returns the manager of this process if there is one.
pub(super) fn current() -> Option<&'static Manager> {
    MANAGER.get()?.as_ref().ok().filter(|manager| manager.pid == std::process::id())
}

/// This process shares the memory of the one that has the manager (`vfork`), or was made by other
/// means than the C library's `fork`: its descriptors are no business of ours.
pub(super) fn belongs_to_other_process() -> bool {
    let manager = MANAGER.get().and_then(|made| made.as_ref().ok());
    manager.is_some_and(|manager| manager.pid != std::process::id())
}

pub(super) fn fill_random(out: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: the buffer has the length given; so few bytes come whole.
    let done = unsafe { libc::getrandom(out.as_mut_ptr().cast(), out.len(), 0) };
    if usize::try_from(done) == Ok(out.len()) { Ok(()) } else { Err(Errno::last()) }
}

impl Manager {
    fn new(random: [u8; 18]) -> Self {
        let [a, b, seed @ ..] = random;
        let ports = Ports::new(Adapters::of_process(), u16::from_ne_bytes([a, b]));
        let state = State {
            ids: Ids::new(Config::default(), Seed(seed)),
            host: Surroundings { ports, channels: Channels::default() },
            packer: Packer::new(),
            notices: Throttle::default(),
            complaints: Complaints::default(),
            alarm: None,
            withheld: Vec::new(),
        };
        Self { pid: std::process::id(), start: Instant::now(), state: Mutex::new(state) }
    }

    /// Returns the time for the table of ids.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Manager::lock`], unless another thread holds it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock().ok()
    }
}

impl State {
    /// Starts the thread, which the first id needs.
    pub(super) fn start(&mut self, manager: &'static Manager) -> Result<(), Errno> {
        if self.host.ports.watch().is_some() {
            return Ok(());
        }
        let watch = Arc::new(Watch::new()?);
        if !thread::start(manager, Arc::clone(&watch)) {
            return Err(Errno::EAGAIN);
        }
        arrived::set_watch(&watch);
        self.host.ports.set_watch(watch);
        Ok(())
    }

    /// Handles the results of a command, a message or a timer: sends messages, notifies programs,
    /// sets the timer.
    pub(super) fn settle(&mut self, now: Duration) {
        for (device, qpn) in arrived::take() {
            if let Ok(Device { guid, .. }) = self.host.device(device) {
                self.ids.data_arrived(now, guid, qpn);
            }
        }
        self.send_and_report(now);
        arrived::wake_thread();
    }

    fn send_and_report(&mut self, now: Duration) {
        self.report_ends(now);
        while let Some(transmit) = self.ids.poll_transmit() {
            self.transmit(now, &transmit);
        }
        while let Some(channel) = self.ids.poll_readable() {
            self.host.channels.signal(channel);
        }
        let next_look = (!self.withheld.is_empty()).then(|| now + Withheld::POLL_INTERVAL);
        let next = self.ids.poll_timeout().into_iter().chain(next_look).min();
        let (Some(at), Some(watch)) = (next, self.host.ports.watch()) else { return };
        if self.alarm.is_none_or(|alarm| at < alarm) {
            watch.set_timer(at.saturating_sub(now));
            self.alarm = Some(at);
        }
    }

    /// Notifies programs of the ends of their connections once they have polled the completions
    /// from before (CM-5.6).
    fn report_ends(&mut self, now: Duration) {
        let adapters = &self.host.ports.adapters;
        while let Some((local, qpn)) = self.ids.poll_ended() {
            let home = adapters.qp_address_of(local).unwrap_or(local);
            softefa::take_what_has_come(home, qpn);
            let (until, next_poll) = (now + Withheld::WAIT_MAX, now);
            self.withheld.push(Withheld { local, home, qpn, until, next_poll });
        }
        let ids = &mut self.ids;
        self.withheld.retain_mut(|end| {
            // The look-up goes through all queue pairs: not at every message while many connections
            // end.
            if now < end.next_poll {
                return true;
            }
            let waits = now < end.until && softefa::has_unseen_success(end.home, end.qpn);
            if !waits {
                ids.report_disconnect(end.local, end.qpn);
            }
            end.next_poll = now + Withheld::POLL_INTERVAL;
            waits
        });
    }

    /// Handles an expired timer.
    pub(super) fn on_timer(&mut self, now: Duration) {
        self.alarm = None;
        self.ids.handle_timeout(now);
        self.settle(now);
    }

    /// Takes the messages that are to be sent.
    pub(super) fn messages(&mut self) -> Vec<Transmit> {
        std::iter::from_fn(|| self.ids.poll_transmit()).collect()
    }

    pub(super) fn transmit(&mut self, now: Duration, transmit: &Transmit) {
        let (local, peer) = (transmit.route.local, transmit.route.peer);
        // Without a socket it is lost, and will be repeated.
        let Ok(socket) = self.host.ports.sending_socket(local) else { return };
        let gateway = self.host.ports.gateway(local);
        if gateway.is_some_and(|gateway| gateway.announce(local, &transmit.bytes).is_err()) {
            // Nobody would find the answer.
            return;
        }
        let packet = self.packer.pack(socket.local(), peer, &transmit.bytes);
        let Some(packet) = socket.wrap(peer, &packet) else { return };
        for _ in 0..SEND_TRIES {
            match socket.send(peer, &packet) {
                SendResult::Blocked => self.take_refused(now, &socket),
                SendResult::Lost => return,
                SendResult::Sent => {
                    if let Some(device) = self.host.ports.adapters.open_at(local) {
                        let (src, dst, bytes) = (socket.local(), peer, &packet[..]);
                        device.sent_management(ManagementPacket { src, dst, bytes });
                    }
                    return;
                }
            }
        }
    }

    /// Ends connections to unreachable peers, according to ICMP messages that quote ours.
    pub(super) fn take_refused(&mut self, now: Duration, socket: &Socket) {
        for refused in socket.take_refused() {
            let peer = refused.peer;
            match refused.error {
                _ if !refused.is_proven && !self.ids.has_sent_to(peer, refused.quote()) => {}
                IcmpError::PortUnreachable => self.ids.unreachable(now, peer),
                IcmpError::NoRoute => self.ids.no_route(now, peer),
            }
        }
    }

    /// Notifies a stranger that its message does not open, and the user, unless the device has done
    /// so.
    pub(super) fn send_notice(&mut self, now: Duration, socket: &Socket, datagram: &Datagram) {
        let (from, local) = (datagram.from, datagram.to.ip());
        let adapters = &self.host.ports.adapters;
        let device = adapters.open_at(local);
        if device.is_none() {
            if let Some(line) = self.complaints.line(adapters.name_at(local), from.ip()) {
                softefa::say(&line);
            }
        }
        let Some(notice) = datagram.notice_about() else { return };
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        // Dropped, as on a network, when there is no room for it.
        if self.notices.allows(now_ns) && socket.send(from, &notice) == SendResult::Sent {
            if let Some(device) = device {
                device.sent_notice();
            }
        }
    }

    /// Ends connections to peers that cannot open our messages, according to a notice that quotes
    /// one (RC-1.14).
    pub(super) fn take_notice(
        &mut self,
        now: Duration,
        socket: &Socket,
        notice: &Notice,
        from: SocketAddr,
    ) {
        if let Some(device) = self.host.ports.adapters.open_at(socket.local().ip()) {
            device.received_notice();
        }
        if socket.is_refused_by(notice, from) {
            self.ids.unreachable(now, from);
        }
    }

    /// A descriptor is about to be closed. Who sleeps on it sleeps on, as in the kernel: rping ends
    /// its process when that returns.
    pub(super) fn release_descriptor(&mut self, now: Duration, fd: i32) {
        if let Some(channel) = self.host.channels.remove(fd) {
            self.close(now, channel);
        }
    }

    /// Closes a file of the device and destroys its ids.
    pub(super) fn close(&mut self, now: Duration, channel: ChannelId) {
        self.ids.close(now, &mut self.host, channel);
    }
}

impl Host for Surroundings {
    fn device(&self, local: IpAddr) -> Result<Device, ucma::Errno> {
        self.ports.adapters.device(local)
    }

    fn source_for(&self, destination: IpAddr) -> Result<IpAddr, ucma::Errno> {
        self.ports.adapters.source_for(destination)
    }

    fn agent_at(&self, local: IpAddr, destination: SocketAddr) -> SocketAddr {
        let port = self.ports.adapters.gateway_of(local).unwrap_or_else(|| destination.port());
        SocketAddr::new(destination.ip(), port)
    }

    fn bind(&mut self, binding: &Binding) -> Result<u16, ucma::Errno> {
        self.ports.bind(binding)
    }

    fn release(&mut self, binding: &Binding) {
        self.ports.release(binding);
    }

    fn change(&mut self, binding: &Binding) {
        self.ports.change(binding);
    }

    fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        user::copy_in(at, &mut bytes).then_some(bytes)
    }

    fn channel(&self, fd: u32) -> Option<ChannelId> {
        let fd = i32::try_from(fd).ok()?;
        Some(self.channels.find(fd)?.channel)
    }
}

impl From<ucma::Errno> for Errno {
    fn from(errno: ucma::Errno) -> Self {
        Self(errno.0)
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").field("pid", &self.pid).finish_non_exhaustive()
    }
}
