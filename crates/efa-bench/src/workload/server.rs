//! The server's side: finds what is asked for, answers, and counts what that cost.

use super::cpu_ns;
use super::message::{Code, HEADER_BYTES, Header};
use super::store::{self, KEY_BYTES, Store};
use crate::backend::Backend;
use crate::bench::{Measured, stream};
use crate::failure::Failure;
use crate::lane::Port;
use crate::link::Link;
use crate::pattern;
use crate::record::ReceiverCount;
use crate::spec::PointSpec;

/// Rounds between two looks for the end.
const ROUNDS_PER_LOOK: u32 = 64;
/// Calls between two readings of the processor's time, a system call each.
const CALLS_PER_READING: u64 = 256;

/// What answering costs: processor time from the first call to the last reading.
struct Cost {
    served: u64,
    /// Processor time when the first call had come.
    start_ns: u64,
    /// Calls and processor time since then at the last reading.
    calls: u64,
    cpu_ns: u64,
}

impl Cost {
    #[inline]
    fn note(&mut self) {
        self.served += 1;
        if self.served == 1 {
            self.start_ns = cpu_ns();
        } else if self.served.is_multiple_of(CALLS_PER_READING) {
            self.read();
        }
    }

    fn read(&mut self) {
        self.cpu_ns = cpu_ns() - self.start_ns;
        self.calls = self.served - 1;
    }

    fn count(mut self, validated: u64) -> ReceiverCount {
        if self.calls == 0 && self.served > 1 {
            self.read();
        }
        ReceiverCount {
            messages: self.calls,
            cpu_ns: self.cpu_ns,
            total: self.served,
            validated,
            ..ReceiverCount::default()
        }
    }
}

/// Answers calls until the client has had all its replies.
pub(super) fn answer<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
    store: &mut Store,
) -> Result<Measured, Failure> {
    let mut cost = Cost { served: 0, start_ns: 0, calls: 0, cpu_ns: 0 };
    let list = port.flow.post_list;
    let mut rounds = 0_u32;
    loop {
        for link in links.iter_mut() {
            link.poll()?;
            serve(link, list, point, store, &mut cost)?;
        }
        rounds += 1;
        if rounds.is_multiple_of(ROUNDS_PER_LOOK) && port.sent()?.is_some() {
            break;
        }
    }
    stream::finish(links, &port.signals)?;
    let validated = if point.validate { cost.served } else { 0 };
    Ok(Measured::Received(cost.count(validated)))
}

/// Answers what has arrived, as far as there is room for replies.
#[inline]
fn serve<B: Backend>(
    link: &mut Link<B>,
    list: usize,
    point: PointSpec,
    store: &mut Store,
    cost: &mut Cost,
) -> Result<(), Failure> {
    let room = link.arrived.len().min(link.free_tx());
    for index in 0..room {
        let (Some(call), Some(slot)) = (link.arrived.front().copied(), link.next_tx()) else {
            break;
        };
        let payload = link.payload(call.slot)?;
        let payload = &payload[..call.len_bytes.min(payload.len())];
        let (header, found) = handle(payload, point, store);
        let value = if found == Found::Value { value_of(payload, store) } else { None };
        let len_bytes = HEADER_BYTES + value.map_or(0, <[u8]>::len);
        let reply = link.payload_mut(slot)?;
        if let Some(value) = value {
            reply[HEADER_BYTES..len_bytes].copy_from_slice(value);
        }
        Header { len_bytes, call: header, code: found.code() }.write(reply);
        let more = index + 1 < room && !(index + 1).is_multiple_of(list);
        // What the fabric does not take now is answered again in the next round.
        if !link.try_post(len_bytes, list > 1 && more)? {
            break;
        }
        link.arrived.pop_front();
        link.repost(call.slot)?;
        cost.note();
    }
    Ok(())
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Value,
    Stored,
    Missing,
    Damaged,
}

impl Found {
    const fn code(self) -> Code {
        match self {
            Self::Value | Self::Stored => Code::Done,
            Self::Missing => Code::Missing,
            Self::Damaged => Code::Damaged,
        }
    }
}

#[inline]
fn key_of(payload: &[u8]) -> Option<&[u8; KEY_BYTES]> {
    payload.get(HEADER_BYTES..)?.first_chunk()
}

#[inline]
fn value_of<'a>(payload: &[u8], store: &'a Store) -> Option<&'a [u8]> {
    store.get(key_of(payload)?)
}

/// Does what a call asks for, but for the value itself; answers the number of the call, too.
#[inline]
fn handle(payload: &[u8], point: PointSpec, store: &mut Store) -> (u32, Found) {
    let (Some(header), Some(key)) = (Header::read(payload), key_of(payload)) else {
        // The number may be right: then its caller learns at once what happened.
        let number = payload.get(4..).and_then(|rest| rest.first_chunk());
        return (number.map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes)), Found::Damaged);
    };
    let body = &payload[HEADER_BYTES + KEY_BYTES..];
    let found = match header.code {
        Code::Get if point.validate && pattern::check(body).is_err() => Found::Damaged,
        Code::Get if store.get(key).is_some() => Found::Value,
        Code::Put if point.validate && !store::is_value(body, store::index(key)) => Found::Damaged,
        Code::Put if store.put(key, body) => Found::Stored,
        Code::Get | Code::Put => Found::Missing,
        Code::Done | Code::Missing | Code::Damaged => Found::Damaged,
    };
    (header.call, found)
}
