//! A run: hosts and network exchange packets until every flow has ended.

use crate::check::{Violation, check_end};
use crate::flow::{Flow, FlowSpec};
use crate::id::{Ends, FlowId, HostId, Process, SocketId};
use crate::network::{Event, Network};
use crate::packet::{FRAME_BYTES, Payload, Transit, UDP_BYTES};
use crate::rng::{Purpose, Rng, mix};
use crate::sample::Sampler;
use crate::share::Meter;
use crate::socket::{Ports, Socket};
use crate::time::Time;
use crate::topology::Fabric;
use crate::transport::tcp::{self, Algorithm, Receiver, Sender};
use crate::transport::{Delivery, Kind, Machine, Notice, Setup, SrdSocket, Transport};
use srd::HEADER_MAX;
use std::collections::VecDeque;

/// A host's adapter: sockets take turns, of as many packets as their transports send in a row.
#[derive(Debug, Default)]
struct Adapter {
    waiting: VecDeque<SocketId>,
    /// Number of packets that the first of them has sent in its turn.
    turn_sent: u32,
    /// Whether an event will tell when the link is idle.
    watched: bool,
}

/// Kinds of entries in the digest of a run. Their numbers are part of the golden tables, and have
/// three bits.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Mark {
    /// A flow began.
    Start = 1,
    /// A fault began or ended.
    Fault = 2,
    /// A packet reached its host.
    Arrival = 3,
    /// A message ended.
    MessageEnd = 4,
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
    /// Creates a network with hosts that are going to run `specs`.
    pub(crate) fn new(fabric: Fabric, specs: &[FlowSpec], setup: Setup, root: &Rng) -> Self {
        let hosts = fabric.hosts();
        let mut sim = Self {
            now: Time::ZERO,
            network: Network::new(fabric, root.fork(Purpose::Network)),
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
                root.fork(Purpose::PathHash).next(),
            ),
            open_flows: specs.len(),
            violation: None,
        };
        let mut rng = root.fork(Purpose::EngineSeeds);
        for (number, &spec) in FlowId::all().zip(specs) {
            let earlier = spec.round.filter(|round| round.number > 0);
            let sockets = match earlier {
                Some(round) => sim.flows[number.index() - round.flows as usize].sockets,
                None => sim.sockets_of(number, &spec, &mut rng),
            };
            sim.flows.push(Flow::new(spec, sockets, sim.setup.posting(spec.transport)));
            if let Some(until) = spec.until {
                sim.network.queue.push(until, Event::Stop { flow: number });
            }
            if earlier.is_none() {
                sim.network.queue.push(spec.start, Event::Start { flow: number });
            }
        }
        sim
    }

    /// Returns the sockets at the two ends of a flow.
    fn sockets_of(&mut self, number: FlowId, spec: &FlowSpec, rng: &mut Rng) -> Ends<SocketId> {
        match spec.transport {
            Kind::Srd => {
                let src = self.process_socket(spec.src, rng);
                Ends { src, dst: self.process_socket(spec.dst, rng) }
            }
            Kind::Tcp => self.connection(number, spec, self.setup.tcp.algorithm),
            Kind::Dctcp => self.connection(number, spec, Algorithm::Dctcp),
            Kind::Roce => self.queue_pairs(number, spec),
        }
    }

    /// Creates the two ends of a new TCP connection.
    fn connection(
        &mut self,
        number: FlowId,
        spec: &FlowSpec,
        algorithm: Algorithm,
    ) -> Ends<SocketId> {
        let setup = self.setup.tcp;
        let (hosts, sockets) = (spec.hosts(), self.next_sockets());
        let (there, back) = tcp::routes(&self.ports, hosts, sockets, number);
        let packet_bytes = spec.transport.packet_bytes(setup.mss_bytes);
        let rtt_ps = self.network.fabric.base_rtt_ps(hosts, packet_bytes);
        let sender = Sender::new(there, &setup, algorithm, rtt_ps);
        let receiver = Receiver::new(back, setup.delayed_ack);
        self.add_socket(Transport::TcpSender(Box::new(sender)), hosts.src);
        self.add_socket(Transport::TcpReceiver(Box::new(receiver)), hosts.dst);
        sockets
    }

    /// Creates the two ends of a new RoCE connection.
    fn queue_pairs(&mut self, number: FlowId, spec: &FlowSpec) -> Ends<SocketId> {
        let (hosts, sockets) = (spec.hosts(), self.next_sockets());
        let (sender, receiver) = self.setup.roce.connect(&self.ports, hosts, sockets, number);
        self.add_socket(Transport::Roce(Box::new(sender)), hosts.src);
        self.add_socket(Transport::Roce(Box::new(receiver)), hosts.dst);
        sockets
    }

    /// Returns the SRD socket of a process, made when it is first named.
    fn process_socket(&mut self, process: Process, rng: &mut Rng) -> SocketId {
        if let Some(socket) = self.ports.socket_of(process) {
            return socket;
        }
        let engine = SrdSocket::new(&self.setup.srd.config, process, rng.next());
        let number = self.add_socket(Transport::Srd(Box::new(engine)), process.host);
        self.ports.bind(process, number);
        number
    }

    /// Returns the numbers of the two sockets that are going to be added next.
    fn next_sockets(&self) -> Ends<SocketId> {
        let next = self.sockets.len();
        Ends { src: SocketId::at(next), dst: SocketId::at(next + 1) }
    }

    fn add_socket(&mut self, transport: Transport, host: HostId) -> SocketId {
        self.sockets.push(Socket::new(transport, host));
        SocketId::at(self.sockets.len() - 1)
    }

    /// Runs until all flows have ended, at most until `limit`, and checks what must hold.
    ///
    /// # Errors
    /// A rule that was violated: by the transport, or by the simulator itself.
    pub(crate) fn run(&mut self, limit: Time) -> Result<(), Violation> {
        while self.open_flows > 0 && self.violation.is_none() {
            let Some((at, event)) = self.network.queue.pop() else { break };
            if at > limit {
                break;
            }
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

    /// Takes a sample, and changes nothing: not even the clock, which shows the time of the last
    /// event.
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
                let entry = &mut self.sockets[socket.index()];
                if entry.timer_at == now {
                    entry.timer_at = Time::FAR;
                    entry.transport.handle_timeout(now);
                    self.attend(socket);
                }
            }
            Event::LinkIdle { host } => {
                self.adapters[host.index()].watched = false;
                self.pump(host);
            }
            Event::Start { flow } => {
                self.note(Mark::Start, u64::from(flow.0));
                self.post(flow);
                self.attend(self.flows[flow.index()].sockets.src);
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
                if self.flows[flow.index()].stop() {
                    self.end(flow);
                }
            }
            Event::Share => self.measure_shares(),
            Event::Fault { step } => {
                self.network.step_fault(now, step);
                self.note(Mark::Fault, u64::from(step.0));
            }
        }
    }

    /// Gives a packet that is at its host to the socket.
    fn receive(&mut self, transit: Transit) {
        let (packet, body) = self.network.packets.open(transit);
        let number = packet.dst_socket;
        self.sockets[number.index()].transport.receive(self.now, packet, body);
        let len = u64::from(packet.wire_bytes - FRAME_BYTES - UDP_BYTES);
        let fingerprint = u64::from(packet.src_host.0) << 40 | u64::from(number.0) << 16 | len;
        self.network.packets.remove(transit.id);
        self.note(Mark::Arrival, fingerprint);
        self.attend(number);
    }

    /// Serves a socket after anything was done to it: its notices, its packets, its timer.
    fn attend(&mut self, number: SocketId) {
        while let Some(notice) = self.sockets[number.index()].transport.poll_notice() {
            match notice {
                Notice::Delivered(delivery) => self.deliver(number, delivery),
                Notice::Ended { message, code } => self.complete(message, code),
            }
        }
        let socket = &mut self.sockets[number.index()];
        let host = socket.host;
        if socket.transport.has_backlog() && !socket.waits_for_link {
            socket.waits_for_link = true;
            self.adapters[host.index()].waiting.push_back(number);
        }
        self.arm(number);
        self.pump(host);
    }

    /// Records that a message is new at a socket.
    fn deliver(&mut self, socket: SocketId, delivery: Delivery) {
        let at = self.now;
        let Delivery::Message(Payload { flow: number, message }) = delivery else {
            self.violation = Some(Violation::FromNowhere { at, socket });
            return;
        };
        let flow = &mut self.flows[number.index()];
        if flow.sockets.dst != socket {
            self.violation = Some(Violation::FromNowhere { at, socket });
        } else if !flow.deliver(message) {
            self.violation = Some(Violation::DeliveredTwice { at, flow: number, message });
        }
    }

    /// Records that a message has ended.
    fn complete(&mut self, name: Payload, code: u8) {
        let Payload { flow: number, message } = name;
        let flow = &mut self.flows[number.index()];
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
        self.note(
            Mark::MessageEnd,
            u64::from(number.0) << 40 | u64::from(message.0) << 8 | u64::from(code),
        );
        self.post(number);
    }

    fn end(&mut self, number: FlowId) {
        self.flows[number.index()].end = Some(self.now);
        self.open_flows -= 1;
        self.end_round(number);
    }

    /// Takes note of a flow that has ended: if it is the last of its round, the next round begins.
    fn end_round(&mut self, number: FlowId) {
        let Some(round) = self.flows[number.index()].spec.round else { return };
        let first = round.first_flow(number);
        let open = &mut self.flows[first.index()].round_open;
        *open -= 1;
        if *open > 0 || round.is_last() {
            return;
        }
        for flow in FlowId(first.0 + round.flows).range(round.flows) {
            let start = &mut self.flows[flow.index()].spec.start;
            *start = self.now.plus_ps(start.as_ps());
            self.network.queue.push(*start, Event::Start { flow });
        }
    }

    fn post(&mut self, number: FlowId) {
        let flow = &mut self.flows[number.index()];
        let socket = &mut self.sockets[flow.sockets.src.index()];
        while let Some(message) = flow.post(number) {
            socket.transport.post(self.now, message);
        }
    }

    /// Sees to it that the socket's timer fires in time.
    fn arm(&mut self, number: SocketId) {
        let socket = &mut self.sockets[number.index()];
        let Some(at) = socket.transport.poll_timeout() else { return };
        let at = at.max(self.now);
        if at < socket.timer_at {
            socket.timer_at = at;
            self.network.queue.push(at, Event::Timer { socket: number });
        }
    }

    /// Sends packets while the host's link is idle.
    fn pump(&mut self, host: HostId) {
        loop {
            let adapter = &mut self.adapters[host.index()];
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
                let turn_packets = self.sockets[number.index()].transport.turn_packets();
                let adapter = &mut self.adapters[host.index()];
                adapter.turn_sent += 1;
                if adapter.turn_sent < turn_packets {
                    adapter.waiting.push_front(number);
                } else {
                    adapter.turn_sent = 0;
                    adapter.waiting.push_back(number);
                }
            } else {
                self.adapters[host.index()].turn_sent = 0;
                self.sockets[number.index()].waits_for_link = false;
                self.arm(number);
            }
        }
    }

    /// Sends a socket's next packet. Returns false when it has none.
    fn transmit(&mut self, number: SocketId) -> bool {
        let mut scratch = [0; HEADER_MAX];
        let transport = &mut self.sockets[number.index()].transport;
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
    fn note(&mut self, mark: Mark, what: u64) {
        self.digest = mix(self.digest ^ mix(self.now.as_ps() << 3 | mark as u64) ^ what);
    }
}
