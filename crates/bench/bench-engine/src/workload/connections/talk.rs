//! The messages of both sides over an endpoint.

use std::slice;

use fabric::OutOfBand;

use crate::backend::Backend;
use crate::bench::latency::server_gave_up;
use crate::watch::{Idle, Watch};
use crate::workload::prelude::*;

/// The length of the length field of a message in bytes.
const LENGTH_BYTES: usize = 4;

/// A sender and receiver of messages; over the endpoint that lasts it also exchanges addresses.
pub(super) struct Talk<'a, B> {
    link: &'a mut Link<B>,
    port: &'a Port,
    side: Side,
    /// The reason why an exchange failed.
    failure: Option<Failure>,
}

impl<'a, B: Backend> Talk<'a, B> {
    pub(super) fn new(link: &'a mut Link<B>, port: &'a Port, side: Side) -> Self {
        Self { link, port, side, failure: None }
    }

    /// Makes a watch. A server ignores messages meanwhile, which only say that its client goes on.
    fn watch(&self, doing: &'static str) -> Watch<'a> {
        match self.side {
            Side::Client => Watch::new(&self.port.signals, doing),
            Side::Server => Watch::deaf(&self.port.signals, doing),
        }
    }

    /// Sends a message, and waits until it has left: nobody polls this endpoint while the other one
    /// is used.
    pub(super) fn say(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let len_bytes = LENGTH_BYTES + bytes.len();
        let mut watch = self.watch("telling the peer something");
        loop {
            if let Some(slot) = self.link.next_tx() {
                let message = self.link.payload_mut(slot)?.get_mut(..len_bytes);
                let message = message.ok_or_else(|| too_long(len_bytes))?;
                let (length, body) = message.split_at_mut(LENGTH_BYTES);
                length.copy_from_slice(&(len_bytes as u32).to_le_bytes());
                body.copy_from_slice(bytes);
                if self.link.try_message(len_bytes, false)? {
                    break;
                }
            }
            if self.link.poll()? == 0 {
                self.wait(&mut watch)?;
            }
        }
        while self.link.in_flight() > 0 {
            if self.link.poll()? == 0 {
                self.wait(&mut watch)?;
            }
        }
        Ok(())
    }

    /// Returns the peer's message, if one has come.
    pub(super) fn hear(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if self.link.arrived.is_empty() {
            self.link.poll()?;
        }
        let Some(arrival) = self.link.arrived.pop_front() else { return Ok(None) };
        let message = self.link.message(arrival)?.get(LENGTH_BYTES..).map(<[u8]>::to_vec);
        self.link.repost(arrival.slot)?;
        let cut = || Failure::Data("a message arrived cut off: the fabric damages data".to_owned());
        message.map(Some).ok_or_else(cut)
    }

    /// Waits for a message of the peer.
    pub(super) fn listen(&mut self) -> Result<Vec<u8>, Failure> {
        let mut watch = self.watch("waiting for the peer's word");
        loop {
            if let Some(message) = self.hear()? {
                return Ok(message);
            }
            self.wait(&mut watch)?;
        }
    }

    /// Notes that nothing has happened in this turn.
    fn wait(&mut self, watch: &mut Watch<'_>) -> Result<(), Failure> {
        match watch.idle_on(slice::from_mut(self.link))? {
            Idle::Message => Err(server_gave_up()),
            Idle::Spin | Idle::Quiet | Idle::WindowDone => Ok(()),
        }
    }

    /// Replaces a failed exchange by its reason, if that is known.
    pub(super) fn explained<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        result.map_err(|failure| self.failure.take().unwrap_or(failure))
    }

    fn noted<T>(&mut self, result: Result<T, Failure>) -> Result<T, String> {
        result.map_err(|failure| self.failure.insert(failure).to_string())
    }
}

impl<B: Backend> OutOfBand for Talk<'_, B> {
    fn exchange(&mut self, ours: &[u8]) -> Result<Vec<u8>, String> {
        let theirs = self.say(ours).and_then(|()| self.listen());
        self.noted(theirs)
    }

    fn barrier(&mut self) -> Result<(), String> {
        self.exchange(&[]).map(|_| ())
    }
}

#[cold]
fn too_long(len_bytes: usize) -> Failure {
    Failure::Fabric(format!("an address of {len_bytes} bytes is longer than any that is known"))
}
