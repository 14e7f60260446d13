//! `Hub`: one endpoint with thousands of peers, each a real endpoint, in virtual time.

use std::collections::BTreeMap;

use srd::{
    Address, Config, Endpoint, Event, HEADER_MAX, Instant, Message, MsgId, PeerId, Seed, Status,
};

const HUB: Address = Address { host: 1, qpn: 1 };

pub struct Hub {
    now: Instant,
    hub: Endpoint,
    spokes: BTreeMap<u32, (Endpoint, PeerId)>,
}

fn spoke_address(spoke: u32) -> Address {
    Address { host: 2 + u64::from(spoke), qpn: 7 }
}

impl Hub {
    pub fn new() -> Self {
        let hub = Endpoint::new(Config::socket(), HUB.qpn, Seed::from_u64(1));
        Self { now: Instant::from_ns(1_000_000_000), hub, spokes: BTreeMap::new() }
    }

    /// Sends a message to `spoke` and one back; both are acknowledged.
    pub fn round_trip(&mut self, spoke: u32) {
        let (now, at) = (self.now, spoke_address(spoke));
        let peer = self.hub.peer(now, at);
        let (other, known_as) = self.spokes.entry(spoke).or_insert_with(|| {
            let seed = Seed::from_u64(u64::from(spoke) + 2);
            let engine = Endpoint::new(Config::socket(), at.qpn, seed);
            (engine, peer)
        });
        *known_as = peer;
        let hub = &mut self.hub;
        let message = |id| Message { id: MsgId(id), len: 64, rnr_retry: 7, ..Message::default() };
        hub.send(now, peer, message(1)).expect("there is room");
        carry(now, hub, HUB, other, at);
        let back = other.peer(now, HUB);
        other.send(now, back, message(2)).expect("there is room");
        for _ in 0..2 {
            other.flush_acks(now);
            carry(now, other, at, hub, HUB);
            hub.flush_acks(now);
            carry(now, hub, HUB, other, at);
        }
        for engine in [hub, other] {
            let mut ended = 0;
            while let Some(event) = engine.poll_event() {
                if let Event::Completed { status, .. } = event {
                    assert_eq!(status, Status::Ok);
                    ended += 1;
                }
            }
            assert_eq!(ended, 1, "each end sent one message");
        }
        self.now = self.now.plus_ns(20_000);
    }

    /// Advances the time for all of them.
    pub fn pass_s(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass_at_hub_ms(1000);
            self.spokes.values_mut().for_each(|(spoke, _)| spoke.handle_timeout(self.now));
        }
    }

    /// Advances the time with all timers of the hub, which may not send.
    pub fn pass_at_hub_ms(&mut self, milliseconds: u64) {
        let end = self.now.plus_ns(milliseconds * 1_000_000);
        while let Some(at) = self.hub.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.hub.handle_timeout(self.now);
            let sent = self.hub.poll_transmit(self.now, &mut [0; HEADER_MAX]);
            assert!(sent.is_none(), "an idle hub sends nothing: {sent:?}");
        }
        self.now = end;
    }

    fn memory(&self) -> impl Iterator<Item = usize> + '_ {
        self.spokes.values().filter_map(|(_, peer)| self.hub.peer_memory_bytes(*peer))
    }

    pub fn live_peers(&self) -> usize {
        self.memory().count()
    }

    /// Returns the mean over the live peers.
    pub fn bytes_per_peer(&self) -> usize {
        self.memory().sum::<usize>() / self.live_peers().max(1)
    }
}

/// Carries all datagrams from one end to the other.
fn carry(now: Instant, from: &mut Endpoint, at: Address, to: &mut Endpoint, there: Address) {
    let mut header = [0; HEADER_MAX];
    while let Some(out) = from.poll_transmit(now, &mut header) {
        assert_eq!(out.addr, there, "only the two of them have something to say");
        let len = out.header_len + out.payload_len as usize;
        let got = to.handle_datagram(now, at.host, &header[..out.header_len], len);
        if let Some(new) = got.expect("a good datagram").data {
            to.accept(now, new.peer, new.psn);
        }
    }
}
