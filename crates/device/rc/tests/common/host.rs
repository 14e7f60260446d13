//! A device on plain memory that performs what the engine requests, like a real one.

use std::collections::{BTreeMap, VecDeque};

use rc::wire::Bth;
use rc::{
    Arrival, DropReason, Endpoint, Event, HEADER_MAX, Instant, Payload, PlainPacket, Range,
    Received, Reject, Remote, Right, SendData, SendRequest, Status, Transmit, WrId, WriteReceive,
};

/// The address of the target memory.
pub const BASE: u64 = 0x10_0000;
/// A key for all of it, with all rights.
pub const KEY: u32 = 0x100;
/// A key for all of it, to read only.
pub const READ_KEY: u32 = 0x200;

/// A completion, as a program polls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    Send {
        id: u64,
        status: Status,
    },
    Receive {
        id: u64,
        status: Status,
        bytes: Vec<u8>,
        imm: Option<u32>,
        invalidated: Option<u32>,
    },
    /// Completed by a WRITE with immediate data of this length.
    WriteImm {
        id: u64,
        status: Status,
        len: u32,
        imm: u32,
    },
}

#[derive(Clone, Debug)]
struct Receive {
    id: u64,
    bytes: Vec<u8>,
    /// The status with which it ends when its memory is touched.
    fault: Option<Status>,
}

/// One queue pair with the memory behind it.
#[derive(Debug)]
pub struct Host {
    pub engine: Endpoint,
    /// The memory that peers read and write, from `BASE` on.
    pub memory: Vec<u8>,
    /// Further keys that are valid until they are invalidated.
    pub keys: Vec<u32>,
    receives: VecDeque<Receive>,
    /// A receive whose message has begun.
    current: Option<Receive>,
    /// The bytes of work requests.
    pub buffers: BTreeMap<u64, Vec<u8>>,
    pub done: Vec<Done>,
    pub events: Vec<Event>,
    /// Atomics executed.
    pub atomics: u64,
    /// Work requests whose memory does not exist.
    pub broken: BTreeMap<u64, Status>,
    /// The memory that peers read is gone.
    pub has_lost_memory: bool,
    /// Work requests that the host performed itself.
    pub executed: u64,
    /// The test decides when they are done.
    pub is_slow: bool,
    /// Packets are joined up to this many bytes (RC-1.15), alternately.
    pub joined_bytes: [u32; 2],
    /// Plain packets take the short ways, alternately.
    pub short_ways: [bool; 2],
    /// Packets that did.
    pub shorts: u64,
}

impl Host {
    pub fn new(engine: Endpoint, memory_bytes: usize) -> Self {
        Self {
            engine,
            memory: vec![0; memory_bytes],
            keys: Vec::new(),
            receives: VecDeque::new(),
            current: None,
            buffers: BTreeMap::new(),
            done: Vec::new(),
            events: Vec::new(),
            atomics: 0,
            broken: BTreeMap::new(),
            has_lost_memory: false,
            executed: 0,
            is_slow: false,
            joined_bytes: [0; 2],
            short_ways: [true, false],
            shorts: 0,
        }
    }

    pub fn post_receive(&mut self, id: u64, len: usize) {
        self.receives.push_back(Receive { id, bytes: vec![0; len], fault: None });
    }

    pub fn post_broken_receive(&mut self, id: u64, len: usize, status: Status) {
        self.receives.push_back(Receive { id, bytes: vec![0; len], fault: Some(status) });
    }

    pub fn receives(&self) -> usize {
        self.receives.len()
    }

    pub fn post(&mut self, now: Instant, request: SendRequest, bytes: Vec<u8>) {
        assert_eq!(bytes.len(), request.len as usize, "test bug: bytes of a work request");
        self.buffers.insert(request.id.0, bytes);
        self.engine.post(now, request).expect("a valid work request");
    }

    /// Passes a packet to the engine, and does not answer its arrival.
    pub fn look_at(&mut self, now: Instant, packet: &[u8]) -> Result<Received, DropReason> {
        if self.joined_bytes == [0; 2] {
            self.engine.handle_packet(now, packet, packet.len())
        } else {
            self.engine.handle_joined(now, packet, packet.len())
        }
    }

    /// Handles a packet and performs its arrival.
    pub fn take(&mut self, now: Instant, packet: &[u8]) -> Result<(), DropReason> {
        self.short_ways.swap(0, 1);
        if self.short_ways[0] && self.take_short(packet) {
            return Ok(());
        }
        let received = self.look_at(now, packet)?;
        let Some(arrival) = received.arrival else { return Ok(()) };
        let payload = &packet[received.payload_at..];
        match self.perform(&arrival, payload) {
            Ok(Some(original)) => self.engine.accept_atomic(now, original),
            Ok(None) => self.engine.accept(now),
            Err(why) => self.engine.reject(now, why),
        }
        Ok(())
    }

    /// Performs a plain message of one packet that can be put where it belongs; false for anything
    /// else.
    fn take_short(&mut self, packet: &[u8]) -> bool {
        let Some(short) = self.engine.peek_short(packet, packet.len()) else { return false };
        let (at, len) = (short.payload_at(), short.len as usize);
        let bytes = &packet[at..at + len];
        let is_done = match short.target {
            Some(remote) => {
                let range = Range { remote, len: short.len };
                let memory = self.memory_of(range, Right::Write);
                memory.map(|memory| memory.copy_from_slice(bytes)).is_ok()
            }
            None => self.receive_short(bytes),
        };
        if is_done {
            self.engine.accept_short(&short);
            self.shorts += 1;
        }
        is_done
    }

    fn receive_short(&mut self, bytes: &[u8]) -> bool {
        let has_room =
            |receive: &Receive| receive.fault.is_none() && bytes.len() <= receive.bytes.len();
        if self.current.is_some() || !self.receives.front().is_some_and(has_room) {
            return false;
        }
        let Receive { id, .. } = self.receives.pop_front().expect("looked at above");
        let (bytes, status, imm, invalidated) = (bytes.to_vec(), Status::Ok, None, None);
        self.done.push(Done::Receive { id, status, bytes, imm, invalidated });
        true
    }

    /// Performs an arrival; an atomic returns the previous value.
    pub fn perform(&mut self, arrival: &Arrival, payload: &[u8]) -> Result<Option<u64>, Reject> {
        match *arrival {
            Arrival::Send(data) => self.receive(&data, payload)?,
            Arrival::Write(data) => {
                if data.receive.is_some() && self.receives.is_empty() {
                    return Err(Reject::NotReady);
                }
                let memory = self.memory_of(data.range, Right::Write)?;
                let at = data.offset as usize;
                memory[at..at + data.len as usize].copy_from_slice(&payload[..data.len as usize]);
                if let Some(WriteReceive { imm, .. }) = data.receive {
                    let receive = self.receives.pop_front().expect("looked at above");
                    let (id, len, status) = (receive.id, data.range.len, Status::Ok);
                    self.done.push(Done::WriteImm { id, status, len, imm });
                }
            }
            Arrival::Read(range) => {
                self.memory_of(range, Right::Read)?;
            }
            Arrival::Atomic(atomic) => {
                let memory =
                    self.memory_of(Range { remote: atomic.remote, len: 8 }, Right::Atomic)?;
                let word: &mut [u8; 8] = memory.first_chunk_mut().expect("8 bytes");
                let original = u64::from_le_bytes(*word);
                *word = atomic.op.apply(original).to_le_bytes();
                self.atomics += 1;
                return Ok(Some(original));
            }
            Arrival::AtomicWrite(remote) => {
                let memory = self.memory_of(Range { remote, len: 8 }, Right::Write)?;
                memory.copy_from_slice(&payload[..8]);
            }
            Arrival::Flush(range, _) => {
                self.memory_of(range, Right::Write)?;
            }
            Arrival::Verify(verify) => {
                if verify.needs_receive && self.receives.is_empty() {
                    return Err(Reject::NotReady);
                }
                if verify.needs_receive {
                    self.current = self.receives.pop_front();
                }
                if let Some((range, right)) = verify.memory {
                    self.memory_of(range, right)?;
                }
            }
            Arrival::ReadData(data) => {
                if let Some(&status) = self.broken.get(&data.id.0) {
                    return Err(Reject::Local(status));
                }
                let buffer = self.buffers.get_mut(&data.id.0).expect("a READ of ours");
                let at = data.offset as usize;
                buffer[at..at + data.len as usize].copy_from_slice(&payload[..data.len as usize]);
            }
            Arrival::AtomicData { id, original } => {
                let buffer = self.buffers.get_mut(&id.0).expect("an atomic of ours");
                buffer.copy_from_slice(&original.to_le_bytes());
            }
        }
        Ok(None)
    }

    fn receive(&mut self, data: &SendData, payload: &[u8]) -> Result<(), Reject> {
        if data.is_start && self.current.is_none() {
            self.current = Some(self.receives.pop_front().ok_or(Reject::NotReady)?);
        }
        let receive = self.current.as_mut().expect("a message has a receive");
        let (at, len) = (data.offset as usize, data.len as usize);
        if at + len > receive.bytes.len() {
            return Err(Reject::TooLong);
        }
        if let Some(status) = receive.fault {
            return Err(Reject::Local(status));
        }
        receive.bytes[at..at + len].copy_from_slice(&payload[..len]);
        let Some(end) = data.end else { return Ok(()) };
        if let Some(key) = end.invalidate {
            let place = self.keys.iter().position(|&known| known == key);
            self.keys.remove(place.ok_or(Reject::Invalidate)?);
        }
        let mut receive = self.current.take().expect("looked at above");
        receive.bytes.truncate(end.total as usize);
        let (imm, invalidated) = (end.imm, end.invalidate);
        let (id, bytes, status) = (receive.id, receive.bytes, Status::Ok);
        self.done.push(Done::Receive { id, status, bytes, imm, invalidated });
        Ok(())
    }

    fn memory_of(&mut self, range: Range, right: Right) -> Result<&mut [u8], Reject> {
        let Range { remote: Remote { va, rkey }, len } = range;
        if len == 0 {
            return Ok(&mut []);
        }
        let is_allowed = rkey == KEY || (rkey == READ_KEY && right == Right::Read);
        let start = usize::try_from(va.wrapping_sub(BASE)).map_err(|_| Reject::Access)?;
        let end = start.checked_add(len as usize).ok_or(Reject::Access)?;
        let memory = self.memory.get_mut(start..end).filter(|_| is_allowed);
        memory.ok_or(Reject::Access)
    }

    /// Returns the next packet as bytes, with a zero ICRC; `None` when there is nothing to send.
    pub fn next_packet(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut header = [0; HEADER_MAX];
        loop {
            self.joined_bytes.swap(0, 1);
            self.short_ways.swap(0, 1);
            let out = self.poll(now, &mut header)?;
            if let Some(packet) = self.fill(now, &out, &header) {
                return Some(packet);
            }
        }
    }

    /// Asks for the next packet, by the way for plain ones first if it is its turn.
    fn poll(&mut self, now: Instant, header: &mut [u8; HEADER_MAX]) -> Option<Transmit> {
        // A packet by this way has no others joined to it.
        if self.short_ways[0] && self.joined_bytes[0] == 0 {
            if let Some(plain) = self.engine.poll_plain(now, header.first_chunk_mut()?) {
                self.shorts += 1;
                let PlainPacket { id, offset, len, pad, header_len } = plain;
                let payload = Payload::Request { id, offset, len };
                return Some(Transmit { header_len, payload, pad, joined: 0, is_repeated: false });
            }
        }
        self.engine.poll_joined(now, header, self.joined_bytes[0])
    }

    fn fill(&mut self, now: Instant, out: &Transmit, header: &[u8]) -> Option<Vec<u8>> {
        let mut packet = header[..out.header_len].to_vec();
        match out.payload {
            Payload::None => {}
            Payload::Request { id: WrId(id), offset, len } => {
                if let Some(&status) = self.broken.get(&id) {
                    self.engine.withdraw(now, WrId(id), status);
                    return None;
                }
                let at = offset as usize;
                packet.extend_from_slice(&self.buffers[&id][at..at + len as usize]);
            }
            Payload::Response { range, offset, len, .. } => {
                if self.has_lost_memory {
                    let psn = Bth::parse(header).expect("a packet of ours").psn;
                    self.engine.refuse_response(now, psn);
                    return None;
                }
                let at = offset as usize;
                let memory =
                    self.memory_of(range, Right::Read).expect("checked when it was asked for");
                packet.extend_from_slice(&memory[at..at + len as usize]);
            }
        }
        packet.resize(packet.len() + usize::from(out.pad) + 4, 0);
        assert_eq!(packet.len(), out.packet_len());
        Some(packet)
    }

    /// Handles the engine's events; receives end when it fails.
    pub fn poll_events(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::Completed { id, status } => {
                    self.done.push(Done::Send { id: id.0, status });
                }
                Event::Execute { .. } if self.is_slow => {}
                Event::Execute { id } => {
                    self.executed += 1;
                    self.engine.executed(Instant::ZERO, id, Status::Ok);
                }
                Event::Failed { receive, .. } => self.flush_receives(receive),
                _ => {}
            }
            self.events.push(event);
        }
    }

    fn flush_receives(&mut self, first: Option<Status>) {
        let mut status = first;
        if first.is_some() && self.current.is_none() {
            self.current = self.receives.pop_front();
        }
        for receive in self.current.take().into_iter().chain(self.receives.drain(..)) {
            let (id, status) = (receive.id, status.take().unwrap_or(Status::Flushed));
            let (bytes, imm, invalidated) = (Vec::new(), None, None);
            self.done.push(Done::Receive { id, status, bytes, imm, invalidated });
        }
    }

    /// Statuses of work requests, in the order they ended.
    pub fn sends(&self) -> Vec<(u64, Status)> {
        let sends = self.done.iter().filter_map(|done| match done {
            Done::Send { id, status } => Some((*id, *status)),
            _ => None,
        });
        sends.collect()
    }

    /// Statuses of receives, in the order they ended.
    pub fn receives_done(&self) -> Vec<(u64, Status)> {
        let receives = self.done.iter().filter_map(|done| match done {
            Done::Receive { id, status, .. } | Done::WriteImm { id, status, .. } => {
                Some((*id, *status))
            }
            Done::Send { .. } => None,
        });
        receives.collect()
    }
}
