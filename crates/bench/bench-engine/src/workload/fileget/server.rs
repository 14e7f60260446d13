//! The server's side: sends the file chunk by chunk, as far as the client allows, then its
//! checksum.

use bench_record::ReceiverCount;
use bench_record::workload::Source;

use super::content::Content;
use super::{Chunks, Grant, NAME};
use crate::bench::stream;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::prelude::*;
use crate::workload::server::{Answer, Cost, until_told};

/// A file that is being sent.
#[derive(Debug, Clone, Copy)]
struct Sending {
    /// The client's number of the file.
    number: u32,
    /// The number of chunks that were sent.
    sent: usize,
    /// The total number of chunks that may be sent.
    limit: usize,
    /// The reason why the file is not sent, which is sent instead.
    error: Option<Code>,
}

/// The contents of a request.
enum Request {
    /// The file is asked for, and is known by this number from now on.
    File(u32),
    More(Grant),
    /// The request cannot be understood; its number may be right.
    Nothing(u32),
}

impl Request {
    fn read(request: &[u8]) -> Self {
        let nothing = Self::Nothing(Answer::damaged(request).call);
        let Some(Header { code, call, .. }) = Header::read(request) else { return nothing };
        let body = &request[HEADER_BYTES..];
        match code {
            Code::File if *body == NAME => Self::File(call),
            Code::Grant => Grant::read(body).map_or(nothing, Self::More),
            _ => nothing,
        }
    }
}

struct Sender<'a> {
    content: &'a Content,
    source: Source,
    chunks: Chunks,
    window: usize,
    cost: Cost,
}

/// Sends files until the client has had all of them.
pub(super) fn serve<B: Backend>(part: Part<'_, B>, content: &Content, source: Source) -> Outcome {
    let Part { links, port, point } = part;
    let (chunks, window) = (Chunks::of(point), point.depth);
    let mut sender = Sender { content, source, chunks, window, cost: Cost::default() };
    let mut sending: Vec<Option<Sending>> = vec![None; links.len()];
    until_told(links, port, |links| {
        let mut moved = false;
        for (link, own) in links.iter_mut().zip(&mut sending) {
            moved |= link.poll()? > 0;
            sender.hear(link, own)?;
            moved |= sender.send(link, own)?;
        }
        Ok(moved)
    })?;
    stream::finish(links, &port.signals)?;
    let count = sender.cost.count(point.validate);
    let bytes = count.messages * content.len_bytes() as u64;
    Ok(Measured::Received(ReceiverCount { bytes, ..count }))
}

impl Sender<'_> {
    /// Handles a message of the client.
    fn hear<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        sending: &mut Option<Sending>,
    ) -> Result<(), Failure> {
        link.take_arrived(|request| {
            match (Request::read(request), &mut *sending) {
                (Request::File(number), None) => {
                    self.cost.start();
                    *sending = Some(Sending { number, sent: 0, limit: self.window, error: None });
                }
                (Request::More(grant), Some(own)) if own.number == grant.file => {
                    own.limit = own.limit.max(grant.limit as usize);
                }
                // The grant is for a file that is done: later messages have overtaken it.
                (Request::More(_), _) => {}
                (Request::File(number), Some(_)) | (Request::Nothing(number), _) => {
                    let error = Some(Code::Damaged);
                    *sending = Some(Sending { number, sent: 0, limit: 0, error });
                }
            }
            Ok(())
        })
    }

    /// Sends as many chunks as may be sent. Returns true if anything was sent.
    fn send<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        sending: &mut Option<Sending>,
    ) -> Result<bool, Failure> {
        let Some(own) = sending else { return Ok(false) };
        let before = own.sent;
        while own.sent < own.limit.min(self.chunks.count()) {
            if !self.send_chunk(link, own.sent)? {
                return Ok(own.sent > before);
            }
            own.sent += 1;
        }
        let has_sent = own.sent > before;
        let Some(slot) = link.next_tx() else { return Ok(has_sent) };
        if own.error.is_none() && own.sent < self.chunks.count() {
            return Ok(has_sent);
        }
        let checksum = self.content.checksum().to_le_bytes();
        let len_bytes = HEADER_BYTES + checksum.len();
        let message = link.payload_mut(slot)?;
        let code = own.error.unwrap_or(Code::Done);
        Header { len_bytes, call: own.number, code }.write(message);
        message[HEADER_BYTES..len_bytes].copy_from_slice(&checksum);
        let is_last_sent = link.try_post(len_bytes, false)?;
        if is_last_sent {
            self.cost.end();
            *sending = None;
        }
        Ok(has_sent || is_last_sent)
    }

    /// Sends one chunk. Returns false if the fabric is full.
    fn send_chunk<B: Backend>(&self, link: &mut Link<B>, number: usize) -> Result<bool, Failure> {
        let (Some(slot), Some(place)) = (link.next_tx(), self.chunks.place(number)) else {
            return Ok(false);
        };
        let len_bytes = HEADER_BYTES + place.len();
        let message = link.payload_mut(slot)?;
        let call = u32::try_from(number).unwrap_or(u32::MAX);
        Header { len_bytes, call, code: Code::Chunk }.write(message);
        if self.source == Source::Sendfile {
            return link.try_file(HEADER_BYTES, place);
        }
        self.content.read(place.start, &mut message[HEADER_BYTES..len_bytes])?;
        link.try_post(len_bytes, false)
    }
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Limit;

    use super::*;
    use crate::backend::null::{Null, Peer};
    use crate::stream_job::datagrams_alone;

    /// The client needs the processor that this side would take.
    #[test]
    fn an_idle_server_gives_the_processor_away_where_threads_are_crowded() {
        let (mut port, job, _peer) = datagrams_alone();
        port.signals = port.signals.yielding();
        let null = Null::new(Peer::Takes, 4, 4, 128);
        let mut links = [Link::new(null, &job, Side::Server, 0).expect("a link")];
        let point = PointSpec { parameter: 64, ..PointSpec::new(64, 4, Limit::Iterations(1)) };
        let content = Content::new(Source::Memory, 64).expect("a file");
        let part = Part { links: &mut links, port: &port, point };
        serve(part, &content, Source::Memory).expect("it was told to end");
        assert!(port.signals.yields() > 0);
    }
}
