//! Two endpoints of one process over the providers that every Linux machine has.

use std::time::{Duration, Instant};

use fabric::{
    AddressVector, AtomicOp, AtomicType, CompareOp, Completion, CompletionKind, Domain, Endpoint,
    EndpointConfig, EndpointType, Error, Fabric, Features, Hints, Info, MessageKind, Peer, Post,
    PostOptions, RemoteMemory,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Two endpoints that know each other.
struct Pair {
    ends: [Endpoint; 2],
    peers: [Peer; 2],
    info: Info,
}

fn hints(provider: &str, endpoint: EndpointType, messages: MessageKind) -> Hints {
    Hints {
        provider: Some(provider.to_owned()),
        endpoint,
        messages,
        source: Some("127.0.0.1".to_owned()),
        ..Hints::default()
    }
}

impl Pair {
    fn new(provider: &str, endpoint: EndpointType, messages: MessageKind) -> Self {
        Self::with_sizes(provider, endpoint, messages, [1024; 2])
    }

    fn with_sizes(
        provider: &str,
        endpoint: EndpointType,
        messages: MessageKind,
        sizes: [usize; 2],
    ) -> Self {
        let wish = hints(provider, endpoint, messages);
        let info = Info::find(&wish).expect("provider").into_iter().next().expect("one fabric");
        let open = |size| {
            let fabric = Fabric::open(&info).expect("fabric");
            let domain = Domain::open(&fabric, &info).expect("domain");
            let av = AddressVector::open(&domain, 1).expect("av");
            let config = EndpointConfig {
                messages,
                features: Features::NONE,
                events: false,
                slots: 8,
                payload_bytes: size,
            };
            let end = Endpoint::open(&domain, &info, &av, &config).expect("endpoint");
            (end, av)
        };
        let ((a, av_a), (b, av_b)) = (open(sizes[0]), open(sizes[1]));
        let to_b = av_a.insert(&b.address().expect("address")).expect("insert");
        let to_a = av_b.insert(&a.address().expect("address")).expect("insert");
        Self { ends: [a, b], peers: [to_b, to_a], info }
    }

    /// Polls both sides until `end` completes something of `kind`.
    fn wait(&mut self, end: usize, kind: CompletionKind) -> Completion {
        let deadline = Instant::now() + PATIENCE;
        let mut found = [Completion::NONE; 1];
        while Instant::now() < deadline {
            for index in 0..2 {
                let count = self.ends[index].poll(&mut found).expect("poll");
                if count == 1 && index == end && found[0].kind == kind {
                    return found[0];
                }
            }
        }
        panic!("no {kind:?} completion at end {end} within {PATIENCE:?}");
    }

    /// Posts from end 0, polling while the provider is not ready.
    fn send(&mut self, slot: usize, len_bytes: usize, tag: u64, inject: bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut found = [Completion::NONE; 1];
        loop {
            let (end, peer) = (&mut self.ends[0], self.peers[0]);
            let post = if inject {
                end.inject(slot, len_bytes, peer, tag)
            } else {
                end.send(slot, len_bytes, peer, tag)
            };
            match post.expect("send") {
                Post::Done => return,
                Post::Again => assert!(Instant::now() < deadline, "never connected"),
            }
            for end in &mut self.ends {
                assert_eq!(end.poll(&mut found).expect("poll"), 0);
            }
        }
    }

    fn fill(&mut self, slot: usize, seed: u8, len: usize) -> Vec<u8> {
        let bytes: Vec<u8> =
            (0..len).map(|i| seed.wrapping_add(u8::try_from(i % 251).expect("small"))).collect();
        let payload = self.ends[0].buffers_mut().payload_mut(slot).expect("free");
        payload[..len].copy_from_slice(&bytes);
        bytes
    }
}

fn carries_messages(provider: &str, endpoint: EndpointType, messages: MessageKind) {
    let mut pair = Pair::new(provider, endpoint, messages);
    for (round, len) in [1_usize, 64, 1000].into_iter().enumerate() {
        let tag = 40 + round as u64;
        assert_eq!(pair.ends[1].receive(4, tag, 0).expect("receive"), Post::Done);
        let sent = pair.fill(0, 7, len);
        let inject = len <= pair.info.inject_bytes() && round % 2 == 1;
        pair.send(0, len, tag, inject);
        let got = pair.wait(1, CompletionKind::Receive);
        assert_eq!((got.slot, got.len_bytes), (4, len), "{provider}");
        if messages == MessageKind::Tagged {
            assert_eq!(got.tag, tag);
        }
        assert_eq!(&pair.ends[1].buffers().payload(4).expect("free")[..len], &sent[..]);
        if !inject {
            // The send's completion may have been collected while waiting for the receive.
            let mut found = [Completion::NONE; 1];
            let deadline = Instant::now() + PATIENCE;
            while pair.ends[0].buffers().payload(0) == Err(Error::SlotBusy(0)) {
                let _ = pair.ends[0].poll(&mut found).expect("poll");
                assert!(Instant::now() < deadline, "send never completed");
            }
        }
    }
}

#[test]
fn tcp_carries_plain_and_tagged_messages() {
    carries_messages("tcp", EndpointType::Rdm, MessageKind::Plain);
    carries_messages("tcp", EndpointType::Rdm, MessageKind::Tagged);
}

#[test]
fn sockets_carries_messages() {
    carries_messages("sockets", EndpointType::Rdm, MessageKind::Plain);
}

#[test]
fn shm_carries_messages() {
    carries_messages("shm", EndpointType::Rdm, MessageKind::Tagged);
}

#[test]
fn udp_carries_datagrams() {
    carries_messages("udp", EndpointType::Dgram, MessageKind::Plain);
}

#[test]
fn a_slot_in_flight_cannot_be_borrowed_or_posted_again() {
    let mut pair = Pair::new("tcp", EndpointType::Rdm, MessageKind::Plain);
    assert_eq!(pair.ends[1].receive(3, 0, 0).expect("receive"), Post::Done);
    assert_eq!(pair.ends[1].receive(3, 0, 0), Err(Error::SlotBusy(3)));
    assert_eq!(pair.ends[1].buffers().payload(3), Err(Error::SlotBusy(3)));
    assert_eq!(pair.ends[1].buffers_mut().payload_mut(3), Err(Error::SlotBusy(3)));
    assert_eq!(pair.ends[1].receive(8, 0, 0), Err(Error::NoSuchSlot(8)));
    let peer = pair.peers[0];
    assert_eq!(pair.ends[0].send(0, 1025, peer, 0), Err(Error::TooLong { len: 1025, max: 1024 }));
}

/// Safe code once could name a peer that the endpoint's vector does not have: providers read beyond
/// it.
#[test]
fn a_peer_of_another_vector_is_refused_by_every_post() {
    let mut pair = Pair::new("tcp", EndpointType::Rdm, MessageKind::Plain);
    let peer = pair.peers[1];
    let end = &mut pair.ends[0];
    let (plain, word) = (PostOptions::default(), AtomicType::U64);
    let window = RemoteMemory::from_bytes(&[0; RemoteMemory::BYTES]);
    for posted in [
        end.send(0, 1, peer, 0),
        end.send_with(0, 1, peer, 0, plain),
        end.inject(0, 1, peer, 0),
        end.read(0, peer, window),
        end.read_with(0, peer, window, plain),
        end.write(0, peer, window),
        end.write_with(0, peer, window, plain),
        end.inject_write(0, peer, window),
        end.atomic(0, AtomicOp::Sum, word, peer, window),
        end.fetch_atomic(0, AtomicOp::Sum, word, peer, window),
        end.compare_atomic(0, CompareOp::Equal, word, peer, window),
    ] {
        assert_eq!(posted, Err(Error::OtherVector));
    }
    assert!(end.buffers().payload(0).is_ok(), "the slot is free");
}

#[test]
fn an_address_vector_of_another_domain_is_refused() {
    let wish = hints("tcp", EndpointType::Rdm, MessageKind::Plain);
    let info = Info::find(&wish).expect("provider").into_iter().next().expect("one fabric");
    let fabric = Fabric::open(&info).expect("fabric");
    let domain = || Domain::open(&fabric, &info).expect("domain");
    let (ours, other) = (domain(), domain());
    let av = AddressVector::open(&other, 1).expect("av");
    let (messages, features) = (MessageKind::Plain, Features::NONE);
    let config = EndpointConfig { messages, features, events: false, slots: 1, payload_bytes: 64 };
    let opened = |domain: &Domain| Endpoint::open(domain, &info, &av, &config).map(|_| ());
    assert_eq!(opened(&ours), Err(Error::OtherDomain));
    assert_eq!(opened(&other), Ok(()));
}

#[test]
fn endpoints_close_with_receives_in_flight() {
    for _ in 0..3 {
        let mut pair = Pair::new("tcp", EndpointType::Rdm, MessageKind::Plain);
        for slot in 0..8 {
            assert_eq!(pair.ends[1].receive(slot, 0, 0).expect("receive"), Post::Done);
        }
    }
}

#[test]
fn an_unknown_provider_is_named() {
    let wish = hints("warp-drive", EndpointType::Rdm, MessageKind::Plain);
    let error = Info::find(&wish).unwrap_err();
    assert!(matches!(error, Error::NoProvider { .. }));
    let text = error.to_string();
    assert!(text.contains("warp-drive") && text.contains("fi_info"), "{text}");
}

#[test]
fn a_message_longer_than_the_receive_is_an_error_completion() {
    let mut pair = Pair::with_sizes("tcp", EndpointType::Rdm, MessageKind::Plain, [1024, 16]);
    assert_eq!(pair.ends[1].receive(5, 0, 0).expect("receive"), Post::Done);
    pair.send(0, 1000, 0, false);
    let deadline = Instant::now() + PATIENCE;
    let mut found = [Completion::NONE; 1];
    let error = loop {
        let _ = pair.ends[0].poll(&mut found).expect("the sender is fine");
        match pair.ends[1].poll(&mut found) {
            Ok(0) => assert!(Instant::now() < deadline, "nothing arrived"),
            Ok(_) => panic!("1000 bytes fitted into 16"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Completion { kind: "receive", slot: 5, .. }), "{error}");
    assert!(pair.ends[1].buffers().payload(5).is_ok(), "the slot is free again");
}
