//! A run: hosts and network exchange packets until every flow has ended.

use crate::check::{Violation, check_end};
use crate::flow::{Flow, FlowSpec};
use crate::network::{Event, Network};
use crate::packet::{FRAME_BYTES, Payload, Transit, UDP_BYTES};
use crate::rng::{Rng, mix};
use crate::sample::Sampler;
use crate::share::Meter;
use crate::socket::{Ports, Socket};
use crate::time::Time;
use crate::topology::Fabric;
use crate::transport::tcp::{self, Algorithm, Receiver, Sender};
use crate::transport::{Kind, Machine, Notice, Setup, SrdSocket, Transport};
use srd::HEADER_MAX;
use std::collections::VecDeque;

/// A host's adapter: sockets take turns, a packet each.
#[derive(Debug, Default)]
struct Adapter {
    waiting: VecDeque<u32>,
    /// Packets that the first of them has sent in its turn.
    turn_sent: u32,
    /// An event will tell when the link is idle.
    watched: bool,
}

#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) now: Time,
    pub(crate) network: Network,
    pub(crate) flows: Vec<Flow>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) events: u64,
    pub(crate) digest: u64,
    pub(crate) sampler: Option<Sampler>,
    pub(crate) meter: Option<Meter>,
    adapters: Vec<Adapter>,
    setup: Setup,
    ports: Ports,
    open_flows: usize,
    violation: Option<Violation>,
}

impl Sim {
    /// A network with hosts that are going to run `specs`.
    pub(crate) fn new(fabric: Fabric, specs: &[FlowSpec], setup: Setup, root: &Rng) -> Self {
        let hosts = fabric.hosts();
        let mut sim = Self {
            now: Time::ZERO,
            network: Network::new(fabric, root.fork(1)),
            flows: Vec::with_capacity(specs.len()),
            sockets: Vec::new(),
            events: 0,
            digest: 0,
            sampler: None,
            meter: None,
            adapters: (0..hosts).map(|_| Adapter::default()).collect(),
            setup,
            ports: Ports::new(
                hosts,
                specs.iter().flat_map(FlowSpec::shared_ends),
                root.fork(2).next(),
            ),
            open_flows: specs.len(),
            violation: None,
        };
        let mut rng = root.fork(3);
        for (number, &spec) in (0..).zip(specs) {
            let earlier = spec.round.filter(|round| round.number > 0);
            let ends = match earlier {
                Some(round) => sim.flows[(number - round.flows) as usize].ends(),
                None => sim.ends_of(number, &spec, &mut rng),
            };
            sim.flows.push(Flow::new(spec, ends, sim.setup.posting(spec.transport)));
            if let Some(until) = spec.until {
                sim.network.queue.push(until, Event::Stop { flow: number });
            }
            if earlier.is_none() {
                sim.network.queue.push(spec.start, Event::Start { flow: number });
            }
        }
        sim
    }

    /// The sockets that a flow is between.
    fn ends_of(&mut self, number: u32, spec: &FlowSpec, rng: &mut Rng) -> (u32, u32) {
        match spec.transport {
            Kind::Srd => {
                let src = self.process_socket(spec.src_host, spec.src_process, rng);
                (src, self.process_socket(spec.dst_host, spec.dst_process, rng))
            }
            Kind::Tcp => self.connection(number, spec, self.setup.tcp.algorithm),
            Kind::Dctcp => self.connection(number, spec, Algorithm::Dctcp),
            Kind::Roce => self.queue_pairs(number, spec),
        }
    }

    /// The two ends of a new TCP connection.
    fn connection(&mut self, number: u32, spec: &FlowSpec, algorithm: Algorithm) -> (u32, u32) {
        let setup = self.setup.tcp;
        let (hosts, ends) = ((spec.src_host, spec.dst_host), self.next_sockets());
        let (there, back) = tcp::routes(&self.ports, hosts, ends, number);
        let packet_bytes = spec.transport.packet_bytes(setup.mss_bytes);
        let rtt_ps = self.network.fabric.base_rtt_ps(hosts.0, hosts.1, packet_bytes);
        let sender = Sender::new(there, &setup, algorithm, rtt_ps);
        let receiver = Receiver::new(back, setup.delayed_ack);
        self.add_socket(Transport::TcpSender(Box::new(sender)), hosts.0);
        self.add_socket(Transport::TcpReceiver(Box::new(receiver)), hosts.1);
        ends
    }

    /// The two ends of a new RoCE connection.
    fn queue_pairs(&mut self, number: u32, spec: &FlowSpec) -> (u32, u32) {
        let (hosts, ends) = ((spec.src_host, spec.dst_host), self.next_sockets());
        let (sender, receiver) = self.setup.roce.connect(&self.ports, hosts, ends, number);
        self.add_socket(Transport::Roce(Box::new(sender)), hosts.0);
        self.add_socket(Transport::Roce(Box::new(receiver)), hosts.1);
        ends
    }

    /// The SRD socket of a process, made when it is first named.
    fn process_socket(&mut self, host: u32, process: u16, rng: &mut Rng) -> u32 {
        if let Some(socket) = self.ports.socket_of(host, process) {
            return socket;
        }
        let engine = SrdSocket::new(&self.setup.srd.config, host, process, rng.next());
        let number = self.add_socket(Transport::Srd(Box::new(engine)), host);
        self.ports.bind(host, process, number);
        number
    }

    /// Numbers of the two sockets that are going to be added next.
    fn next_sockets(&self) -> (u32, u32) {
        let first = self.sockets.len() as u32;
        (first, first + 1)
    }

    fn add_socket(&mut self, transport: Transport, host: u32) -> u32 {
        self.sockets.push(Socket::new(transport, host));
        self.sockets.len() as u32 - 1
    }

    /// Runs until all flows have ended, at most until `limit`, and checks what must hold.
    ///
    /// # Errors
    /// A rule that was broken: by the transport, or by the simulator itself.
    pub(crate) fn run(&mut self, limit: Time) -> Result<(), Violation> {
        while self.open_flows > 0
            && self.violation.is_none()
            && let Some((at, event)) = self.network.queue.pop()
            && at <= limit
        {
            if at < self.now {
                self.violation = Some(Violation::ClockBack { from: self.now, to: at });
                break;
            }
            if event == Event::Sample {
                self.sample(at);
                continue;
            }
            self.now = at;
            self.events += 1;
            self.handle(event);
        }
        self.violation.take().map_or_else(|| check_end(self), Err)
    }

    /// Takes samples from now on, the first after an interval.
    pub(crate) fn start_sampling(&mut self, sampler: Sampler) {
        self.network.queue.push(sampler.next_at(self.now), Event::Sample);
        self.sampler = Some(sampler);
    }

    /// Measures the shares of flows that send until a given time, if there are any.
    pub(crate) fn start_shares(&mut self, interval_ms: u32) {
        let Some(meter) = Meter::new(interval_ms, &self.flows) else { return };
        self.network.queue.push(meter.next_at(self.now), Event::Share);
        self.meter = Some(meter);
    }

    fn measure_shares(&mut self) {
        let Some(meter) = &mut self.meter else { return };
        if meter.take(self.now, &self.flows) {
            self.network.queue.push(meter.next_at(self.now), Event::Share);
        }
    }

    /// Looks, and changes nothing: not even the clock, which shows when something happened last.
    fn sample(&mut self, at: Time) {
        let Some(sampler) = &mut self.sampler else { return };
        sampler.take(at, &self.flows, &self.network.fabric);
        if !self.network.queue.is_empty() {
            self.network.queue.push(sampler.next_at(at), Event::Sample);
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Sample => {}
            Event::Arrive { link, packet } => {
                if self.network.arrive(now, link, packet) {
                    self.receive(packet);
                }
            }
            Event::Timer { socket } => {
                let entry = &mut self.sockets[socket as usize];
                if entry.timer_at == now {
                    entry.timer_at = Time::FAR;
                    entry.transport.handle_timeout(now);
                    self.attend(socket);
                }
            }
            Event::LinkIdle { host } => {
                self.adapters[host as usize].watched = false;
                self.pump(host);
            }
            Event::Start { flow } => {
                self.note(1, u64::from(flow));
                self.post(flow);
                self.attend(self.flows[flow as usize].src_socket);
            }
            Event::PortIdle { link } => {
                self.network.with_pfc(|network, pfc| network.port_idle(pfc, now, link));
            }
            Event::Pause { link, stop, changes } => {
                self.network.with_pfc(|network, pfc| network.pause(pfc, now, link, stop, changes));
            }
            Event::PauseCheck => {
                let circle = self.network.with_pfc(|network, pfc| network.check_pauses(pfc, now));
                let deadlock = |circle| Violation::PauseDeadlock { at: now, circle };
                self.violation = circle.flatten().map(deadlock);
            }
            Event::Stop { flow } => {
                if self.flows[flow as usize].stop() {
                    self.end(flow);
                }
            }
            Event::Share => self.measure_shares(),
            Event::Fault { step } => {
                self.network.step_fault(now, step);
                self.note(2, u64::from(step));
            }
        }
    }

    /// A packet is at its host.
    fn receive(&mut self, transit: Transit) {
        let (packet, body) = self.network.packets.open(transit);
        let number = packet.dst_socket;
        self.sockets[number as usize].transport.receive(self.now, packet, body);
        let len = u64::from(packet.wire_bytes - FRAME_BYTES - UDP_BYTES);
        let fingerprint = u64::from(packet.src_host) << 40 | u64::from(number) << 16 | len;
        self.network.packets.remove(transit.id);
        self.note(3, fingerprint);
        self.attend(number);
    }

    /// After anything was done to a socket: what it has to tell, its packets, its timer.
    fn attend(&mut self, number: u32) {
        while let Some(notice) = self.sockets[number as usize].transport.poll_notice() {
            match notice {
                Notice::Delivered(message) => self.deliver(number, message),
                Notice::Ended { message, code } => self.complete(message, code),
            }
        }
        let socket = &mut self.sockets[number as usize];
        let host = socket.host;
        if socket.transport.has_backlog() && !socket.waits_for_link {
            socket.waits_for_link = true;
            self.adapters[host as usize].waiting.push_back(number);
        }
        self.arm(number);
        self.pump(host);
    }

    /// A socket says that a message is new.
    fn deliver(&mut self, socket: u32, message: Option<Payload>) {
        let at = self.now;
        let Some(Payload { flow: number, message }) = message else {
            self.violation = Some(Violation::FromNowhere { at, socket });
            return;
        };
        let flow = &mut self.flows[number as usize];
        if flow.dst_socket != socket {
            self.violation = Some(Violation::FromNowhere { at, socket });
        } else if !flow.deliver(message) {
            self.violation = Some(Violation::DeliveredTwice { at, flow: number, message });
        }
    }

    /// A socket says that a message has ended.
    fn complete(&mut self, name: Payload, code: u8) {
        let Payload { flow: number, message } = name;
        let flow = &mut self.flows[number as usize];
        if code == 0 {
            flow.ended_ok += 1;
            if !flow.is_delivered(message) {
                let at = self.now;
                self.violation = Some(Violation::NotDelivered { at, flow: number, message });
            }
        } else {
            flow.ended_badly += 1;
        }
        if flow.ended_ok + flow.ended_badly == flow.messages {
            self.end(number);
        }
        self.note(4, u64::from(number) << 40 | u64::from(message) << 8 | u64::from(code));
        self.post(number);
    }

    fn end(&mut self, number: u32) {
        self.flows[number as usize].end = Some(self.now);
        self.open_flows -= 1;
        self.end_round(number);
    }

    /// A flow has ended: when it is the last of its round, the next round begins.
    fn end_round(&mut self, number: u32) {
        let Some(round) = self.flows[number as usize].spec.round else { return };
        let first = round.first_flow(number);
        let open = &mut self.flows[first as usize].round_open;
        *open -= 1;
        if *open > 0 || round.is_last() {
            return;
        }
        for flow in first + round.flows..first + 2 * round.flows {
            let start = &mut self.flows[flow as usize].spec.start;
            *start = self.now.plus_ps(start.as_ps());
            self.network.queue.push(*start, Event::Start { flow });
        }
    }

    fn post(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let socket = &mut self.sockets[flow.src_socket as usize];
        while let Some(message) = flow.post(number) {
            socket.transport.post(self.now, message);
        }
    }

    /// Sees to it that the socket's timer fires in time.
    fn arm(&mut self, number: u32) {
        let socket = &mut self.sockets[number as usize];
        let Some(at) = socket.transport.poll_timeout() else { return };
        let at = at.max(self.now);
        if at < socket.timer_at {
            socket.timer_at = at;
            self.network.queue.push(at, Event::Timer { socket: number });
        }
    }

    /// Sends packets while the host's link is idle.
    fn pump(&mut self, host: u32) {
        loop {
            let adapter = &mut self.adapters[host as usize];
            if adapter.watched || adapter.waiting.is_empty() {
                return;
            }
            let idle_at = self.network.host_idle_at(host);
            if idle_at > self.now {
                adapter.watched = true;
                if idle_at < Time::FAR {
                    self.network.queue.push(idle_at, Event::LinkIdle { host });
                }
                return;
            }
            let Some(number) = adapter.waiting.pop_front() else { return };
            if self.transmit(number) {
                let turn_packets = self.sockets[number as usize].transport.turn_packets();
                let adapter = &mut self.adapters[host as usize];
                adapter.turn_sent += 1;
                if adapter.turn_sent < turn_packets {
                    adapter.waiting.push_front(number);
                } else {
                    adapter.turn_sent = 0;
                    adapter.waiting.push_back(number);
                }
            } else {
                self.adapters[host as usize].turn_sent = 0;
                self.sockets[number as usize].waits_for_link = false;
                self.arm(number);
            }
        }
    }

    /// Sends a socket's next packet. False when it has none.
    fn transmit(&mut self, number: u32) -> bool {
        let mut scratch = [0; HEADER_MAX];
        let transport = &mut self.sockets[number as usize].transport;
        let Some((packet, body)) = transport.poll_transmit(self.now, &self.ports, &mut scratch)
        else {
            return false;
        };
        self.network.send(self.now, packet, body);
        true
    }
}

impl Sim {
    /// Adds something observable to the digest, with its time.
    fn note(&mut self, kind: u64, what: u64) {
        self.digest = mix(self.digest ^ mix(self.now.as_ps() << 3 | kind) ^ what);
    }
}
