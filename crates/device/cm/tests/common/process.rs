//! Processes that write commands like librdmacm, on one network without faults.

use super::net::address;
use cm::ids::{Binding, ChannelId, Device, Host, Ids, Reply};
use cm::ucma::{
    Accept, Bind, ConnParam, Connect, CreateId, DestroyId, Errno, EventResp, GetEvent, InitQpAttr,
    Listen, QpAttr, ResolveAddr, ResolveRoute, write_ip,
};
use cm::{Config, DropReason, Route, Seed};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub const MS: Duration = Duration::from_millis(1);

/// The numbers of the commands.
pub mod number {
    pub const CREATE_ID: u32 = 0;
    pub const DESTROY_ID: u32 = 1;
    pub const RESOLVE_ROUTE: u32 = 4;
    pub const QUERY_ROUTE: u32 = 5;
    pub const CONNECT: u32 = 6;
    pub const LISTEN: u32 = 7;
    pub const ACCEPT: u32 = 8;
    pub const REJECT: u32 = 9;
    pub const DISCONNECT: u32 = 10;
    pub const INIT_QP_ATTR: u32 = 11;
    pub const GET_EVENT: u32 = 12;
    pub const SET_OPTION: u32 = 14;
    pub const NOTIFY: u32 = 15;
    pub const LEAVE_MCAST: u32 = 17;
    pub const MIGRATE_ID: u32 = 18;
    pub const QUERY: u32 = 19;
    pub const BIND: u32 = 20;
    pub const RESOLVE_ADDR: u32 = 21;
    pub const JOIN_MCAST: u32 = 22;
}

/// One address, one adapter, ports in a set.
#[derive(Debug)]
pub struct FakeHost {
    pub local: IpAddr,
    pub ports: BTreeSet<(u16, u16)>,
    pub drawn: u16,
    pub value: Vec<u8>,
    pub channels: Vec<ChannelId>,
    /// For each port that is taken, whether it is only outgoing.
    pub outgoing: Vec<bool>,
    /// The changed options of bound ids: sharing, and IPv6 only.
    pub changed: Vec<(u32, bool, bool)>,
}

impl Host for FakeHost {
    fn device(&self, local: IpAddr) -> Result<Device, Errno> {
        if local != self.local {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let IpAddr::V4(v4) = local else { return Err(Errno::ENODEV) };
        Ok(Device {
            guid: 0x0253_4500_0000_0000 | u64::from(u32::from(v4)),
            index: 3,
            port_num: 1,
            gid: v4.to_ipv6_mapped().octets(),
            gid_index: 0,
            pkey: 0xFFFF,
            mtu: 3,
            rate: 16,
            hop_limit: 64,
        })
    }

    fn source_for(&self, destination: IpAddr) -> Result<IpAddr, Errno> {
        let is_far = matches!(destination, IpAddr::V4(v4) if v4.octets()[0] == 99);
        if is_far { Err(Errno::EHOSTUNREACH) } else { Ok(self.local) }
    }

    fn bind(&mut self, binding: &Binding) -> Result<u16, Errno> {
        self.outgoing.push(binding.is_outgoing);
        let mut port = binding.address.port();
        if port == 0 {
            self.drawn += 1;
            port = 50_000 + self.drawn;
        }
        let is_new = self.ports.insert((binding.space, port));
        if is_new || binding.is_shared { Ok(port) } else { Err(Errno::EADDRINUSE) }
    }

    fn release(&mut self, binding: &Binding) {
        self.ports.remove(&(binding.space, binding.address.port()));
    }

    fn change(&mut self, binding: &Binding) {
        self.changed.push((binding.id, binding.is_shared, binding.is_family_only));
    }

    fn agent_at(&self, _: IpAddr, destination: SocketAddr) -> SocketAddr {
        let index = match destination.ip() {
            IpAddr::V4(v4) => usize::from(v4.octets()[3]).wrapping_sub(1),
            IpAddr::V6(_) => usize::MAX,
        };
        if index < 4 { address(index) } else { destination }
    }

    fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        if at == 0 { None } else { self.value.get(..len).map(<[u8]>::to_vec) }
    }

    fn channel(&self, fd: u32) -> Option<ChannelId> {
        self.channels.get(fd as usize).copied()
    }
}

pub struct Process {
    pub ids: Ids,
    pub host: FakeHost,
    pub channel: ChannelId,
    /// The queue pairs whose connections have ended.
    pub ended: Vec<(IpAddr, u32)>,
    /// Whether programs are notified of disconnects only on request.
    pub withholds: bool,
}

impl Process {
    fn tell_ends(&mut self) {
        while let Some((local, qpn)) = self.ids.poll_ended() {
            self.ended.push((local, qpn));
            if !self.withholds {
                self.ids.report_disconnect(local, qpn);
            }
        }
    }
}

/// Several processes and their time.
pub struct World {
    pub now: Duration,
    pub processes: Vec<Process>,
}

impl World {
    pub fn new(processes: usize) -> Self {
        let process = |i| {
            let mut ids = Ids::new(Config::default(), Seed::from_u64(77 + i as u64));
            let channel = ids.open();
            let host = FakeHost {
                local: address(i).ip(),
                ports: BTreeSet::new(),
                drawn: 0,
                value: vec![0; 4],
                channels: vec![channel],
                outgoing: Vec::new(),
                changed: Vec::new(),
            };
            Process { ids, host, channel, ended: Vec::new(), withholds: false }
        };
        Self { now: Duration::from_secs(1), processes: (0..processes).map(process).collect() }
    }

    /// Writes a command with `out_len` bytes of room.
    pub fn write(
        &mut self,
        i: usize,
        number: u32,
        body: &[u8],
        out_len: u16,
    ) -> Result<Option<Reply>, Errno> {
        let channel = self.processes[i].channel;
        self.write_to(i, channel, number, body, out_len)
    }

    pub fn write_to(
        &mut self,
        i: usize,
        channel: ChannelId,
        number: u32,
        body: &[u8],
        out_len: u16,
    ) -> Result<Option<Reply>, Errno> {
        let mut bytes = Vec::from(number.to_ne_bytes());
        bytes.extend((body.len() as u16).to_ne_bytes());
        bytes.extend(out_len.to_ne_bytes());
        bytes.extend(body);
        let process = &mut self.processes[i];
        process.ids.write(self.now, &mut process.host, channel, &bytes)
    }

    /// Delivers messages and advances the time.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.exchange();
            let next = self.processes.iter().filter_map(|p| p.ids.poll_timeout()).min();
            let Some(next) = next.filter(|&at| at <= until) else { break };
            self.now = self.now.max(next);
            for process in &mut self.processes {
                process.ids.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    fn exchange(&mut self) {
        while let Some((from, transmit)) = self.next_message() {
            let count = self.processes.len();
            let Some(to) = (0..count).find(|&to| address(to) == transmit.route.peer) else {
                continue;
            };
            let route = Route { local: address(to).ip(), peer: address(from) };
            let _: Result<(), DropReason> =
                self.processes[to].ids.handle_mad(self.now, route, &transmit.bytes);
            self.processes[to].tell_ends();
        }
        self.processes.iter_mut().for_each(Process::tell_ends);
    }

    fn next_message(&mut self) -> Option<(usize, cm::Transmit)> {
        let mut processes = self.processes.iter_mut().enumerate();
        processes.find_map(|(i, process)| Some((i, process.ids.poll_transmit()?)))
    }

    pub fn create(&mut self, i: usize, uid: u64, ps: u16) -> u32 {
        let body = CreateId { uid, response: 0x1000, ps, qp_type: 0 }.emit();
        let reply = self.write(i, number::CREATE_ID, &body, 4).expect("an id").expect("a reply");
        assert_eq!((reply.at, reply.bytes.len()), (0x1000, 4));
        u32::from_ne_bytes(reply.bytes[..4].try_into().expect("four bytes"))
    }

    pub fn destroy(&mut self, i: usize, id: u32) -> Result<u32, Errno> {
        let body = DestroyId { response: 1, id }.emit();
        let reply = self.write(i, number::DESTROY_ID, &body, 4)?.expect("a reply");
        Ok(u32::from_ne_bytes(reply.bytes[..4].try_into().expect("four bytes")))
    }

    pub fn bind(&mut self, i: usize, id: u32, to: SocketAddr) -> Result<(), Errno> {
        let mut bind = Bind { id, ..Bind::default() };
        bind.addr_size = write_ip(to, &mut bind.addr);
        self.write(i, number::BIND, &bind.emit(), 0).map(|reply| assert_eq!(reply, None))
    }

    pub fn listen(&mut self, i: usize, id: u32, backlog: u32) -> Result<(), Errno> {
        let body = Listen { id, backlog }.emit();
        self.write(i, number::LISTEN, &body, 0).map(drop)
    }

    pub fn resolve_addr(&mut self, i: usize, id: u32, to: SocketAddr) -> Result<(), Errno> {
        let mut resolve = ResolveAddr { id, timeout_ms: 2000, ..ResolveAddr::default() };
        resolve.dst_size = write_ip(to, &mut resolve.dst_addr);
        self.write(i, number::RESOLVE_ADDR, &resolve.emit(), 0).map(drop)
    }

    pub fn resolve_route(&mut self, i: usize, id: u32) -> Result<(), Errno> {
        let body = ResolveRoute { id, timeout_ms: 2000 }.emit();
        self.write(i, number::RESOLVE_ROUTE, &body, 0).map(drop)
    }

    pub fn connect(&mut self, i: usize, id: u32, conn_param: ConnParam) -> Result<(), Errno> {
        let body = Connect { conn_param, id, ece_vendor_id: 0, ece_attr_mod: 0 }.emit();
        self.write(i, number::CONNECT, &body, 0).map(drop)
    }

    pub fn accept(
        &mut self,
        i: usize,
        id: u32,
        uid: u64,
        conn_param: ConnParam,
    ) -> Result<(), Errno> {
        let body = Accept { uid, conn_param, id, ece_vendor_id: 0, ece_attr_mod: 0 }.emit();
        self.write(i, number::ACCEPT, &body, 0).map(drop)
    }

    pub fn simple(&mut self, i: usize, number: u32, id: u32) -> Result<(), Errno> {
        self.write(i, number, &id.to_ne_bytes(), 0).map(drop)
    }

    pub fn qp_attr(&mut self, i: usize, id: u32, qp_state: u32) -> Result<QpAttr, Errno> {
        let body = InitQpAttr { response: 1, id, qp_state }.emit();
        let reply = self.write(i, number::INIT_QP_ATTR, &body, 144)?.expect("a reply");
        Ok(QpAttr::parse(&reply.bytes).expect("144 bytes"))
    }

    pub fn get_event(&mut self, i: usize) -> Result<EventResp, Errno> {
        let body = GetEvent { response: 0x2000 }.emit();
        let reply = self.write(i, number::GET_EVENT, &body, 336)?.expect("a reply");
        assert_eq!(reply.at, 0x2000);
        Ok(EventResp::parse(&reply.bytes).expect("336 bytes"))
    }

    /// Returns the next event, which is of kind `event` and about `uid`.
    pub fn expect(&mut self, i: usize, event: u32, uid: u64) -> EventResp {
        let resp = self.get_event(i).expect("an event");
        assert_eq!((resp.event, resp.uid), (event, uid), "status {}", resp.status as i32);
        resp
    }

    /// Returns an id that is ready for CONNECT.
    pub fn routed(&mut self, i: usize, uid: u64, ps: u16, to: SocketAddr) -> u32 {
        let id = self.create(i, uid, ps);
        self.resolve_addr(i, id, to).expect("an address");
        self.expect(i, cm::ucma::event::ADDR_RESOLVED, uid);
        self.resolve_route(i, id).expect("a route");
        self.expect(i, cm::ucma::event::ROUTE_RESOLVED, uid);
        id
    }

    /// Returns an id that listens on a port of every address.
    pub fn listening(&mut self, i: usize, uid: u64, ps: u16, port: u16) -> u32 {
        let id = self.create(i, uid, ps);
        self.bind(i, id, SocketAddr::new([0, 0, 0, 0].into(), port)).expect("a free port");
        self.listen(i, id, 8).expect("nobody else listens");
        id
    }
}

pub fn param(qp_num: u32, said: &[u8]) -> ConnParam {
    let mut param = ConnParam {
        qp_num,
        private_data_len: said.len() as u8,
        responder_resources: 4,
        initiator_depth: 3,
        retry_count: 6,
        rnr_retry_count: 5,
        valid: 1,
        ..ConnParam::default()
    };
    param.private_data[..said.len()].copy_from_slice(said);
    param
}
