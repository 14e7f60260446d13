//! A server's flows, each of which keeps the depth in flight while it has something to send.

use bench_record::ReceiverCount;

use super::{ENDLESS, part_bytes, requested};
use crate::bench::stream;
use crate::pattern;
use crate::workload::message::{self, Code, HEADER_BYTES, Header};
use crate::workload::prelude::*;
use crate::workload::server::{Cost, until_told};

/// The number of messages that a flow posts before the next one's turn.
const MESSAGES_PER_TURN: usize = 8;

/// The flow that is sent over one endpoint.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    left_bytes: u64,
    /// The number of messages of the point so far.
    messages: u64,
    /// The short message to be sent as soon as there is room.
    word: Option<Code>,
}

/// The state of one thread of a sender within a point.
struct Sender {
    point: PointSpec,
    cost: Cost,
    bytes: u64,
}

/// Runs a server's side of a point.
pub(super) fn serve<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, point } = part;
    let mut sender = Sender { point, cost: Cost::default(), bytes: 0 };
    let mut flows = vec![Flow::default(); links.len()];
    // The receiver has had everything when it says so.
    until_told(links, port, |links| {
        let mut moved = false;
        for (link, flow) in links.iter_mut().zip(&mut flows) {
            moved |= link.poll()? > 0;
            sender.hear(link, flow)?;
            moved |= sender.send(link, flow)?;
        }
        Ok(moved)
    })?;
    stream::finish(links, &port.signals)?;
    let count = sender.cost.count(point.validate);
    Ok(Measured::Received(ReceiverCount { bytes: sender.bytes, ..count }))
}

impl Sender {
    /// Handles the receiver's messages.
    #[inline]
    fn hear<B: Backend>(&mut self, link: &mut Link<B>, flow: &mut Flow) -> Result<(), Failure> {
        link.take_arrived(|word| {
            let code = Header::read(word).map(|header| header.code);
            match (code, requested(word.get(HEADER_BYTES..).unwrap_or_default())) {
                (Some(Code::Go), Some(bytes)) if flow.left_bytes == 0 => {
                    self.cost.start();
                    flow.left_bytes = bytes;
                }
                (Some(Code::Stop), _) => {
                    self.cost.end();
                    flow.left_bytes = 0;
                    flow.word = Some(Code::Done);
                }
                _ => flow.word = Some(Code::Damaged),
            }
            Ok(())
        })
    }

    /// Sends the messages that are due and have room. Returns true if anything was sent.
    #[inline]
    fn send<B: Backend>(&mut self, link: &mut Link<B>, flow: &mut Flow) -> Result<bool, Failure> {
        for turn in 0..MESSAGES_PER_TURN {
            let has_room = link.in_flight() < self.point.depth;
            if flow.left_bytes == 0 || !has_room || !self.send_part(link, flow)? {
                return Ok(self.say(link, flow)? || turn > 0);
            }
        }
        Ok(true)
    }

    /// Sends the next part. Returns false if the fabric is full.
    #[inline]
    fn send_part<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        flow: &mut Flow,
    ) -> Result<bool, Failure> {
        let Some(slot) = link.next_tx() else { return Ok(false) };
        let bytes = flow.left_bytes.min(part_bytes(self.point));
        let len_bytes = HEADER_BYTES + bytes as usize;
        let message = &mut link.payload_mut(slot)?[..len_bytes];
        Header { len_bytes, call: flow.messages as u32, code: Code::Chunk }.write(message);
        if self.point.validate {
            pattern::fill(&mut message[HEADER_BYTES..], flow.messages);
        }
        if !link.try_message(len_bytes, false)? {
            return Ok(false);
        }
        flow.messages += 1;
        self.bytes += bytes;
        if flow.left_bytes != ENDLESS {
            flow.left_bytes -= bytes;
            if flow.left_bytes == 0 {
                self.cost.end();
            }
        }
        Ok(true)
    }

    /// Sends the short message that is due.
    #[inline]
    fn say<B: Backend>(&self, link: &mut Link<B>, flow: &mut Flow) -> Result<bool, Failure> {
        let Some(code) = flow.word else { return Ok(false) };
        let is_said = message::post(link, flow.messages as u32, code, &[])?.is_some();
        if is_said {
            flow.word = None;
        }
        Ok(is_said)
    }
}
