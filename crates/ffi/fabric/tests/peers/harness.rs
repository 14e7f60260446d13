//! Two processes that know each other: the test that was started, and a copy of it that it starts.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fabric::{
    AddressVector, Completion, CompletionKind, Domain, Endpoint, EndpointConfig, Error, Fabric,
    Features, Hints, Info, MessageKind, Peer, Post, RemoteMemory, Window,
};

/// Maximum time to wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
/// Environment variable that tells the second process the TCP port of the first.
const PARENT: &str = "FABRIC_TEST_PARENT";

/// The parameters of a case.
pub(crate) struct Setting {
    /// Name of the test, as `cargo test` prints it: the second process runs it, too.
    pub(crate) test: &'static str,
    pub(crate) messages: MessageKind,
    pub(crate) features: Features,
    pub(crate) slots: usize,
    /// Bytes of a slot of the initiator, and of one of the target.
    pub(crate) payload_bytes: [usize; 2],
}

impl Setting {
    pub(crate) fn plain(test: &'static str, slots: usize, payload_bytes: usize) -> Self {
        let (messages, features) = (MessageKind::Plain, Features::NONE);
        Self { test, messages, features, slots, payload_bytes: [payload_bytes; 2] }
    }

    /// Runs one half in this process and the other in a second one, which it starts.
    pub(crate) fn run(&self, initiate: impl FnOnce(&mut Side), respond: impl FnOnce(&mut Side)) {
        if let Ok(port) = std::env::var(PARENT) {
            let port: u16 = port.parse().expect("a port");
            let channel = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the parent");
            respond(&mut Side::open(self, self.payload_bytes[1], channel));
            return;
        }
        if Info::find(&self.hints()).is_err() {
            let wanted = self.hints();
            assert_ne!(provider(), "efa", "efa must have it: {wanted:?}");
            eprintln!("SKIPPED, NOT TESTED: {wanted:?}");
            return;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut second = Second::start(self.test, listener.local_addr().expect("bound").port());
        let channel = second.accept(&listener);
        initiate(&mut Side::open(self, self.payload_bytes[0], channel));
        second.wait();
    }

    fn hints(&self) -> Hints {
        Hints {
            provider: Some(provider()),
            messages: self.messages,
            features: self.features,
            source: Some("127.0.0.1".to_owned()),
            ..Hints::default()
        }
    }
}

/// Returns `FABRIC_TEST_PROVIDER`; without it the provider that every Linux machine has.
pub(crate) fn provider() -> String {
    std::env::var("FABRIC_TEST_PROVIDER").unwrap_or_else(|_| "tcp".to_owned())
}

/// The second process; ended when dropped.
struct Second(Child);

impl Second {
    fn start(test: &str, port: u16) -> Self {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(PARENT, port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("a second process"))
    }

    fn accept(&mut self, listener: &TcpListener) -> TcpStream {
        listener.set_nonblocking(true).expect("a socket option");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match listener.accept() {
                Ok((channel, _)) => return channel,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            let ended = self.0.try_wait().expect("a child");
            assert!(ended.is_none(), "the second process ended: is its test's name right?");
            assert!(Instant::now() < deadline, "the second process does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait(mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                assert!(status.success(), "the second process failed: see above");
                return;
            }
            assert!(Instant::now() < deadline, "the second process does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One end of a case.
pub(crate) struct Side {
    pub(crate) end: Endpoint,
    pub(crate) peer: Peer,
    pub(crate) info: Info,
    /// Completions that were not taken yet.
    done: Vec<Completion>,
    /// Failures that were not taken yet.
    failed: Vec<Error>,
    channel: TcpStream,
    domain: Domain,
    av: Rc<AddressVector>,
    /// Card of the other side; see [`card`].
    theirs: [u8; CARD_BYTES],
}

impl Side {
    fn open(setting: &Setting, payload_bytes: usize, mut channel: TcpStream) -> Self {
        let info = Info::find(&setting.hints()).expect("a fabric").swap_remove(0);
        let fabric = Fabric::open(&info).expect("fabric");
        let domain = Domain::open(&fabric, &info).expect("domain");
        let av = AddressVector::open(&domain, 2).expect("address vector");
        let &Setting { messages, features, slots, .. } = setting;
        let config = EndpointConfig { messages, features, events: false, slots, payload_bytes };
        let end = Endpoint::open(&domain, &info, &av, &config).expect("endpoint");
        channel.set_nodelay(true).expect("a socket option");
        channel.write_all(&card(&end)).expect("the other process");
        let mut theirs = [0; CARD_BYTES];
        channel.read_exact(&mut theirs).expect("the other process");
        channel.set_nonblocking(true).expect("a socket option");
        let peer = insert(&av, &theirs);
        Self { end, peer, info, done: Vec::new(), failed: Vec::new(), channel, domain, av, theirs }
    }

    /// Adds one more endpoint of the other process, which sends its [`card`].
    pub(crate) fn receive_peer(&mut self) -> Peer {
        let card = self.receive_bytes::<CARD_BYTES>();
        insert(&self.av, &card)
    }

    /// Opens one more endpoint of this process; returns it with its name for the other side.
    pub(crate) fn another(&self, config: &EndpointConfig) -> (Endpoint, Peer) {
        let av = AddressVector::open(&self.domain, 1).expect("address vector");
        let peer = insert(&av, &self.theirs);
        (Endpoint::open(&self.domain, &self.info, &av, config).expect("endpoint"), peer)
    }

    pub(crate) fn window(&self, len_bytes: usize) -> Window {
        Window::open(&self.domain, &self.info, len_bytes).expect("window")
    }

    /// Receives the parameters of the window that the other side offers.
    pub(crate) fn receive_window(&mut self) -> RemoteMemory {
        RemoteMemory::from_bytes(&self.receive_bytes::<{ RemoteMemory::BYTES }>())
    }

    /// Posts, and makes progress while the provider has no room.
    #[track_caller]
    pub(crate) fn post(
        &mut self,
        mut call: impl FnMut(&mut Endpoint, Peer) -> Result<Post, Error>,
    ) {
        let deadline = Instant::now() + PATIENCE;
        while call(&mut self.end, self.peer).expect("posting") == Post::Again {
            assert!(Instant::now() < deadline, "the provider never has room");
            self.progress();
        }
    }

    /// Returns the next completion of a kind; others wait for their turn.
    #[track_caller]
    pub(crate) fn wait(&mut self, kind: CompletionKind) -> Completion {
        self.wait_any(&[kind])
    }

    /// Returns whether a completion of a kind came that was not taken yet.
    pub(crate) fn has(&self, kind: CompletionKind) -> bool {
        self.done.iter().any(|done| done.kind == kind)
    }

    /// Returns the next completion of one of these kinds.
    #[track_caller]
    pub(crate) fn wait_any(&mut self, kinds: &[CompletionKind]) -> Completion {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.done.iter().position(|done| kinds.contains(&done.kind)) {
                return self.done.remove(at);
            }
            assert!(self.failed.is_empty(), "waiting for {kinds:?}: {:?}", self.failed);
            assert!(Instant::now() < deadline, "none of {kinds:?}; {:?}", self.done);
            self.progress();
        }
    }

    /// Returns the next failure.
    #[track_caller]
    pub(crate) fn wait_for_error(&mut self) -> Error {
        let deadline = Instant::now() + PATIENCE;
        while self.failed.is_empty() {
            assert!(Instant::now() < deadline, "nothing fails; {:?}", self.done);
            self.progress();
        }
        self.failed.remove(0)
    }

    fn progress(&mut self) {
        let mut found = [Completion::NONE; 16];
        match self.end.poll(&mut found) {
            Ok(count) => self.done.extend(&found[..count]),
            Err(error) => self.failed.push(error),
        }
    }

    /// Fills a slot.
    pub(crate) fn fill(&mut self, slot: usize, bytes: &[u8]) {
        let payload = self.end.buffers_mut().payload_mut(slot).expect("a free slot");
        payload[..bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the start of a slot.
    pub(crate) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        &self.end.buffers().payload(slot).expect("a free slot")[..len]
    }

    /// Sends the other process some bytes.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.channel.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
    }

    /// Waits for bytes of the other process, and makes progress meanwhile.
    #[track_caller]
    pub(crate) fn receive_bytes<const LEN: usize>(&mut self) -> [u8; LEN] {
        self.receive_all(LEN).try_into().expect("as many as asked for")
    }

    #[track_caller]
    fn receive_all(&mut self, len: usize) -> Vec<u8> {
        let (mut bytes, mut received) = (vec![0; len], 0);
        let deadline = Instant::now() + PATIENCE;
        while received < len {
            match self.channel.read(&mut bytes[received..]) {
                Ok(0) => panic!("the other process ended"),
                Ok(count) => received += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            assert!(Instant::now() < deadline, "the other process says nothing");
            self.progress();
        }
        bytes
    }

    /// Returns when the other process has called it, too.
    #[track_caller]
    pub(crate) fn barrier(&mut self) {
        self.send_bytes(&[1]);
        assert_eq!(self.receive_bytes(), [1]);
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let is_clean = self.failed.is_empty() || std::thread::panicking();
        assert!(is_clean, "failures that no test asked for: {:?}", self.failed);
    }
}

/// Length of [`card`].
const CARD_BYTES: usize = 128;

/// Returns an endpoint's address behind its length, to send to the other process.
pub(crate) fn card(end: &Endpoint) -> [u8; CARD_BYTES] {
    let address = end.address().expect("address");
    let mut card = [0; CARD_BYTES];
    card[0] = u8::try_from(address.len()).expect("a short address");
    card[1..=address.len()].copy_from_slice(&address);
    card
}

fn insert(av: &AddressVector, card: &[u8; CARD_BYTES]) -> Peer {
    av.insert(&card[1..=usize::from(card[0])]).expect("an address")
}

/// Returns bytes that differ from seed to seed and from place to place.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let word =
        |at: usize| (at as u64 ^ seed << 32).wrapping_add(1).wrapping_mul(GOLDEN).to_be_bytes();
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(word).collect();
    bytes.truncate(len);
    bytes
}
