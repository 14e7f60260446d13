//! A backend for any libfabric provider, through the `fabric` crate.

use bench_record::FabricRecord;
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::spec::{EndpointKind, Operation};
use fabric::{
    AtomicOp, AtomicType, CompareOp, CompletionKind, EndpointType, Features, Hints, MessageKind,
    Node, NodeConfig, OutOfBand, Post, PostOptions, Prepared, RemoteMemory, Window,
};
use rustix::event::{PollFd, PollFlags};

use super::{
    Atomic, BURST, Backend, Completion, Kind, Lengths, PostFlags, Posted, WORD_BYTES, Wants, Work,
    failed, word_at,
};
use crate::backend::unable::Unable;

/// The tag of every message; one flow needs only one.
const TAG: u64 = 0x0efa;

/// An endpoint of a provider.
pub(crate) struct Libfabric {
    node: Node,
    /// The memory of this side, which lives as long as the peer may use it.
    window: Option<Window>,
    /// The memory of the peer.
    remote: Option<RemoteMemory>,
    /// True if only the calls with flags say which operations complete.
    with_flags: bool,
    found: [fabric::Completion; BURST],
}

impl From<Post> for Posted {
    fn from(post: Post) -> Self {
        match post {
            Post::Done => Self::Done,
            Post::Again => Self::Full,
        }
    }
}

/// An endpoint without a peer, and the parts of the request that are needed later.
pub(crate) struct PreparedLibfabric {
    prepared: Prepared,
    window_bytes: usize,
    quiet: bool,
}

fn features(wants: &Wants) -> Features {
    let mut features = Features::NONE;
    if wants.window_bytes > 0 {
        features = features | Features::RMA;
    }
    if wants.quiet {
        features = features | Features::QUIET;
    }
    if wants.operation.is_atomic() {
        features = features | Features::ATOMICS;
    }
    features
}

/// The fabric of libfabric's provider efa that hands messages to an EFA unchanged.
const EFA_DIRECT: &str = "efa-direct";

/// Splits the name that users have for a provider into the name of the libfabric provider and the
/// name of one of its fabrics.
fn names(provider: &str) -> (&str, Option<&str>) {
    if provider == EFA_DIRECT { ("efa", Some(EFA_DIRECT)) } else { (provider, None) }
}

/// Says why nothing could be opened, and how to get a device that this machine lacks.
fn unprepared(provider: &str, error: &fabric::Error) -> Failure {
    let wanted = match names(provider).0.split(';').next() {
        Some("efa") => "an EFA adapter: `softefa run --` before the command brings one",
        Some("verbs") => "an RDMA adapter: `softefa run --roce --` before the command brings one",
        _ => "",
    };
    match error {
        fabric::Error::NoProvider { .. } if !wanted.is_empty() => {
            Failure::Fabric(format!("{error}; it is for {wanted}"))
        }
        fabric::Error::OnlyPolled(_) => Unable::Events(error.to_string()).into(),
        _ => failed(error),
    }
}

/// Refuses an atomic operation that the provider does not support, although it supports others.
fn can_do(operation: Operation, prepared: &Prepared) -> Result<(), Failure> {
    let (endpoint, word) = (prepared.endpoint(), AtomicType::U64);
    let count = match operation {
        Operation::FetchAdd | Operation::Add => endpoint.atomic_count(AtomicOp::Sum, word),
        Operation::CompareSwap => endpoint.compare_count(CompareOp::Equal, word),
        _ => return Ok(()),
    };
    match count {
        Some(1..) => Ok(()),
        Some(0) | None => Err(Failure::Fabric(format!(
            "{} does no {} of 8 bytes: use another provider",
            prepared.info().provider(),
            operation.name()
        ))),
    }
}

impl Backend for Libfabric {
    type Prepared = PreparedLibfabric;

    fn prepare(wants: &Wants) -> Result<PreparedLibfabric, Failure> {
        let FabricName::Libfabric(provider) = &wants.fabric else {
            return Err(Unable::NotLibfabric(wants.fabric.clone()).into());
        };
        let (provider_name, fabric_name) = names(provider);
        let config = NodeConfig {
            hints: Hints {
                provider: Some(provider_name.to_owned()),
                domain: wants.domain.clone(),
                fabric: fabric_name.map(str::to_owned),
                endpoint: match wants.endpoint {
                    EndpointKind::Rdm => EndpointType::Rdm,
                    EndpointKind::Dgram => EndpointType::Dgram,
                },
                messages: match wants.operation {
                    Operation::Tagged => MessageKind::Tagged,
                    _ => MessageKind::Plain,
                },
                features: features(wants),
                source: wants.source.clone(),
            },
            tx_slots: wants.tx_depth,
            spare_slots: wants.tx_slots.saturating_sub(wants.tx_depth),
            rx_slots: wants.rx_depth,
            payload_bytes: wants.payload_bytes,
            events: wants.events,
        };
        let &Wants { window_bytes, quiet, .. } = wants;
        let prepared = match Node::prepare(&config) {
            // Longer messages are left out once this side has said what it takes.
            Err(fabric::Error::TooLong { max: payload_bytes @ 1.., .. }) => {
                Node::prepare(&NodeConfig { payload_bytes, ..config })
                    .map_err(|error| unprepared(provider, &error))?
            }
            prepared => prepared.map_err(|error| unprepared(provider, &error))?,
        };
        can_do(wants.operation, &prepared)?;
        Ok(PreparedLibfabric { prepared, window_bytes, quiet })
    }

    fn describe(prepared: &PreparedLibfabric) -> FabricRecord {
        let info = prepared.prepared.info();
        let fabric = info.fabric_name();
        // The figures differ from those of the provider's usual fabric, and the two cannot talk.
        let provider = if fabric == EFA_DIRECT { fabric.clone() } else { info.provider() };
        FabricRecord {
            provider,
            fabric,
            domain: info.domain_name(),
            mtu_bytes: info.mtu_bytes().filter(|m| *m > 0),
            max_message_bytes: info.max_message_bytes(),
            inject_bytes: info.inject_bytes(),
            tx_depth: info.tx_depth(),
            rx_depth: info.rx_depth(),
            text: info.describe(),
            numa_node: None,
        }
    }

    fn connect(prepared: PreparedLibfabric, oob: &mut dyn OutOfBand) -> Result<Self, Failure> {
        let PreparedLibfabric { prepared, window_bytes, quiet } = prepared;
        let node = prepared.connect(oob).map_err(failed)?;
        let (mut window, mut remote) = (None, None);
        if window_bytes > 0 {
            let ours = node.open_window(window_bytes).map_err(failed)?;
            let theirs = oob.exchange(&ours.remote().to_bytes()).map_err(Failure::Fabric)?;
            let theirs = theirs.as_slice().try_into();
            let theirs = theirs.map_err(|_| Failure::Fabric("the peer's window is garbled".into()));
            remote = Some(RemoteMemory::from_bytes(theirs?));
            window = Some(ours);
        }
        let found = [fabric::Completion::NONE; BURST];
        Ok(Self { node, window, remote, with_flags: quiet, found })
    }

    fn setup_us(&self) -> Vec<(String, f64)> {
        let phases = self.node.phases().iter();
        phases.map(|p| (p.phase.to_owned(), p.took.as_nanos() as f64 / 1_000.0)).collect()
    }

    fn tx_depth(&self) -> usize {
        self.node.tx_slots()
    }

    fn tx_slots(&self) -> usize {
        self.node.tx_slots() + self.node.spare_slots()
    }

    fn rx_slots(&self) -> usize {
        self.node.rx_slots()
    }

    fn begin(&mut self, _lengths: Lengths) {}

    #[inline]
    fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
        self.node.buffers().payload(slot).map_err(failed)
    }

    #[inline]
    fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
        self.node.buffers_mut().payload_mut(slot).map_err(failed)
    }

    #[inline]
    fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
        self.node.buffers_mut().copy(from, to, len_bytes).map_err(failed)
    }

    #[inline]
    fn receive(&mut self, slot: usize) -> Result<Posted, Failure> {
        Ok(self.node.post_receive(slot, TAG, 0).map_err(failed)?.into())
    }

    fn freeze(&mut self, slot: usize) -> Result<(), Failure> {
        self.node.endpoint_mut().freeze(slot).map_err(failed)
    }

    fn write_window(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.window {
            Some(window) => window.write(0, bytes).map_err(failed),
            None => Err(Failure::Fabric("there is no window to write to".to_owned())),
        }
    }

    fn read_window(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        match &self.window {
            Some(window) => window.read(0, bytes).map_err(failed),
            None => Err(Failure::Fabric("there is no window to read from".to_owned())),
        }
    }

    fn remote_bytes(&self) -> u64 {
        self.remote.map_or(0, RemoteMemory::len_bytes)
    }

    #[inline]
    fn post(
        &mut self,
        work: Work,
        slot: usize,
        len_bytes: usize,
        how: PostFlags,
    ) -> Result<Posted, Failure> {
        let peer = self.node.peer();
        let is_plain = !how.more && !self.with_flags;
        let options = PostOptions { more: how.more, quiet: how.quiet, ..PostOptions::default() };
        let post = match work {
            Work::Send if is_plain => self.node.post_send(slot, len_bytes, TAG).map_err(failed)?,
            Work::Send => self
                .node
                .endpoint_mut()
                .send_with(slot, len_bytes, peer, TAG, options)
                .map_err(failed)?,
            Work::Inject => {
                return Ok(copied(self.node.inject(slot, len_bytes, TAG).map_err(failed)?));
            }
            Work::Read { offset } => {
                let remote = self.part(offset, len_bytes)?;
                let endpoint = self.node.endpoint_mut();
                match is_plain {
                    true => endpoint.read(slot, peer, remote).map_err(failed)?,
                    false => endpoint.read_with(slot, peer, remote, options).map_err(failed)?,
                }
            }
            Work::Write { offset } => {
                let remote = self.part(offset, len_bytes)?;
                let endpoint = self.node.endpoint_mut();
                match is_plain {
                    true => endpoint.write(slot, peer, remote).map_err(failed)?,
                    false => endpoint.write_with(slot, peer, remote, options).map_err(failed)?,
                }
            }
            Work::InjectWrite { offset } => {
                let remote = self.part(offset, len_bytes)?;
                let endpoint = self.node.endpoint_mut();
                return Ok(copied(endpoint.inject_write(slot, peer, remote).map_err(failed)?));
            }
        };
        Ok(post.into())
    }

    #[inline]
    fn post_atomic(&mut self, atomic: Atomic, offset: u64, slot: usize) -> Result<Posted, Failure> {
        let (remote, peer) = (self.part(offset, WORD_BYTES)?, self.node.peer());
        // The operands come first, then the values to compare with, then room for fetched values.
        let operands = match atomic {
            Atomic::FetchAdd | Atomic::Add => [1, 0],
            Atomic::CompareSwap { compare, swap } => [swap, compare],
        };
        let payload = self.node.buffers_mut().payload_mut(slot).map_err(failed)?;
        for (place, operand) in payload.chunks_exact_mut(WORD_BYTES).zip(operands) {
            place.copy_from_slice(&operand.to_ne_bytes());
        }
        let (endpoint, word) = (self.node.endpoint_mut(), AtomicType::U64);
        let post = match atomic {
            Atomic::FetchAdd => endpoint.fetch_atomic(slot, AtomicOp::Sum, word, peer, remote),
            Atomic::Add => endpoint.atomic(slot, AtomicOp::Sum, word, peer, remote),
            Atomic::CompareSwap { .. } => {
                endpoint.compare_atomic(slot, CompareOp::Equal, word, peer, remote)
            }
        };
        Ok(post.map_err(failed)?.into())
    }

    #[inline]
    fn fetched(&self, operation: Operation, slot: usize) -> Result<u64, Failure> {
        let before = if operation == Operation::CompareSwap { 2 } else { 1 };
        word_at(self.payload(slot)?, before * WORD_BYTES)
    }

    #[inline]
    fn poll(&mut self, mut each: impl FnMut(Completion)) -> Result<usize, Failure> {
        let count = self.node.poll(&mut self.found).map_err(failed)?;
        for done in &self.found[..count] {
            let kind = match done.kind {
                CompletionKind::Send => Kind::Sent,
                CompletionKind::Receive => Kind::Received,
                CompletionKind::Read => Kind::Read,
                CompletionKind::Write => Kind::Written,
                CompletionKind::Atomic => Kind::Atomic,
                _ => Kind::Other,
            };
            each(Completion { kind, slot: done.slot, len_bytes: done.len_bytes });
        }
        Ok(count)
    }

    /// Does nothing: the library arms its events in [`Backend::event`].
    fn arm(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn event(&self) -> Result<Option<PollFd<'_>>, Failure> {
        let event = self.node.events().map_err(failed)?;
        Ok(event.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)))
    }
}

impl Libfabric {
    #[inline]
    fn part(&self, offset: u64, len_bytes: usize) -> Result<RemoteMemory, Failure> {
        let remote = self.remote.ok_or_else(|| Failure::Fabric("the peer has no window".into()))?;
        remote.part(offset, len_bytes as u64).map_err(failed)
    }
}

/// Translates the result of a call that copied the bytes.
fn copied(post: Post) -> Posted {
    match post {
        Post::Done => Posted::Free,
        Post::Again => Posted::Full,
    }
}
