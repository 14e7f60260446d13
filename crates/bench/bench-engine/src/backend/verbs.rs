//! A backend for queue pairs of an RDMA device, without libfabric.

use std::time::Instant;

use bench_record::FabricRecord;
use bench_record::fabric_name::{self, FabricName};
use bench_record::failure::Failure;
use bench_record::spec::{EndpointKind, Operation};
use fabric::OutOfBand;
use rustix::event::{PollFd, PollFlags};
use verbs::{CompletionKind, Config, Endpoint, Post, PostOptions, Prepared, Remote, Transport};

use super::{
    Atomic, BURST, Backend, Completion, Kind, Lengths, PostFlags, Posted, Wants, Work, failed,
    word_at,
};
use crate::backend::unable::Unable;

/// A queue pair.
pub(crate) struct Verbs {
    endpoint: Endpoint,
    /// The memory of the peer.
    remote: Option<Remote>,
    setup_us: Vec<(String, f64)>,
}

/// A queue pair without a peer.
pub(crate) struct PreparedVerbs {
    prepared: Prepared,
    transport: fabric_name::Transport,
    open_us: f64,
}

impl From<Post> for Posted {
    fn from(post: Post) -> Self {
        match post {
            Post::Done => Self::Done,
            Post::Again => Self::Full,
        }
    }
}

/// Refuses requirements that verbs cannot meet.
fn check(wants: &Wants) -> Result<fabric_name::Transport, Failure> {
    let FabricName::Verbs(transport) = wants.fabric else {
        return Err(Unable::NotVerbs(wants.fabric.clone()).into());
    };
    if wants.operation == Operation::Tagged {
        return Err(Unable::Tags(wants.fabric.clone()).into());
    }
    if wants.operation == Operation::InjectWrite && transport == fabric_name::Transport::Srd {
        return Err(Unable::InlineWrites.into());
    }
    if wants.operation.is_atomic() && transport != fabric_name::Transport::Rc {
        return Err(Unable::Atomics(wants.fabric.clone()).into());
    }
    if wants.operation == Operation::Add {
        return Err(Unable::PlainAdd(wants.fabric.clone()).into());
    }
    if wants.endpoint != wants.fabric.endpoint() {
        let fabric = wants.fabric.clone();
        let unable = match wants.endpoint {
            EndpointKind::Rdm => Unable::Reliable(fabric, "verbs:srd"),
            EndpointKind::Dgram => Unable::Unreliable(fabric, "verbs:ud"),
        };
        return Err(unable.into());
    }
    Ok(transport)
}

/// Returns the kind of queue pair as the library names it.
const fn queue_pair(transport: fabric_name::Transport) -> Transport {
    match transport {
        fabric_name::Transport::Srd => Transport::Srd,
        fabric_name::Transport::Ud => Transport::Ud,
        fabric_name::Transport::Rc => Transport::Rc,
    }
}

fn elapsed_us(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64 / 1_000.0
}

impl Backend for Verbs {
    type Prepared = PreparedVerbs;

    fn prepare(wants: &Wants) -> Result<PreparedVerbs, Failure> {
        let transport = check(wants)?;
        let start = Instant::now();
        let config = Config {
            device: wants.domain.clone(),
            transport: queue_pair(transport),
            tx_slots: wants.tx_slots,
            tx_depth: wants.tx_depth,
            rx_slots: wants.rx_depth,
            payload_bytes: wants.payload_bytes,
            window_bytes: wants.window_bytes,
            atomics: wants.operation.is_atomic(),
            events: wants.events,
        };
        let prepared = match Prepared::open(&config) {
            // Longer messages are left out once this side has said what it takes.
            Err(verbs::Error::TooLong { max: payload_bytes @ 1.., .. }) => {
                Prepared::open(&Config { payload_bytes, ..config }).map_err(failed)?
            }
            prepared => prepared.map_err(failed)?,
        };
        Ok(PreparedVerbs { prepared, transport, open_us: elapsed_us(start) })
    }

    fn describe(prepared: &PreparedVerbs) -> FabricRecord {
        let PreparedVerbs { prepared, transport, .. } = prepared;
        let facts = prepared.facts();
        let (vendor, part) = (facts.vendor_id, facts.part_id);
        let (mtu, inline) = (facts.mtu_bytes, prepared.inline_bytes());
        let text = format!(
            "device {}, vendor {vendor:#06x} part {part:#06x}\ntransport {}\nlongest message {} B, \
             MTU {mtu} B, inline {inline} B, depth {}",
            facts.device,
            transport.name(),
            prepared.longest_bytes(),
            prepared.deepest(),
        );
        FabricRecord {
            provider: FabricName::Verbs(*transport).label(),
            fabric: "verbs".to_owned(),
            domain: facts.device.clone(),
            mtu_bytes: Some(mtu).filter(|m| *m > 0),
            max_message_bytes: prepared.longest_bytes(),
            inject_bytes: inline,
            tx_depth: prepared.deepest(),
            rx_depth: prepared.deepest(),
            text,
            numa_node: None,
        }
    }

    fn connect(prepared: PreparedVerbs, oob: &mut dyn OutOfBand) -> Result<Self, Failure> {
        let PreparedVerbs { prepared, open_us, .. } = prepared;
        let start = Instant::now();
        let theirs = oob.exchange(&prepared.address()).map_err(Failure::Fabric)?;
        let ours = prepared.window();
        let mut remote = None;
        if !ours.is_empty() {
            remote = Some(
                Remote::from_bytes(&oob.exchange(&ours).map_err(Failure::Fabric)?)
                    .map_err(failed)?,
            );
        }
        let exchange_us = elapsed_us(start);
        let start = Instant::now();
        let endpoint = prepared.connect(&theirs).map_err(failed)?;
        let connect_us = elapsed_us(start);
        oob.barrier().map_err(Failure::Fabric)?;
        let phases =
            [("open_device", open_us), ("address_exchange", exchange_us), ("connect", connect_us)];
        let setup_us = phases.map(|(name, took_us)| (name.to_owned(), took_us)).to_vec();
        Ok(Self { endpoint, remote, setup_us })
    }

    fn setup_us(&self) -> Vec<(String, f64)> {
        self.setup_us.clone()
    }

    fn tx_depth(&self) -> usize {
        self.endpoint.tx_depth()
    }

    fn tx_slots(&self) -> usize {
        self.endpoint.tx_slots()
    }

    fn rx_slots(&self) -> usize {
        self.endpoint.rx_slots()
    }

    fn begin(&mut self, _lengths: Lengths) {}

    #[inline]
    fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
        self.endpoint.payload(slot).map_err(failed)
    }

    #[inline]
    fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
        self.endpoint.payload_mut(slot).map_err(failed)
    }

    #[inline]
    fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
        self.endpoint.copy(from, to, len_bytes).map_err(failed)
    }

    #[inline]
    fn receive(&mut self, slot: usize) -> Result<Posted, Failure> {
        Ok(self.endpoint.receive(slot).map_err(failed)?.into())
    }

    fn freeze(&mut self, slot: usize) -> Result<(), Failure> {
        self.endpoint.freeze(slot).map_err(failed)
    }

    fn write_window(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.endpoint.write_window(bytes).map_err(failed)
    }

    fn read_window(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.endpoint.read_window(bytes).map_err(failed)
    }

    fn remote_bytes(&self) -> u64 {
        self.remote.map_or(0, Remote::len_bytes)
    }

    #[inline]
    fn post(
        &mut self,
        work: Work,
        slot: usize,
        len_bytes: usize,
        how: PostFlags,
    ) -> Result<Posted, Failure> {
        let inline = matches!(work, Work::Inject | Work::InjectWrite { .. });
        let options = PostOptions { more: how.more, inline, signaled: !how.quiet };
        let post = match work {
            Work::Send | Work::Inject => {
                self.endpoint.send(slot, len_bytes, options).map_err(failed)?
            }
            Work::Read { offset } => {
                let remote = self.remote()?;
                self.endpoint.read(slot, len_bytes, remote, offset, options).map_err(failed)?
            }
            Work::Write { offset } | Work::InjectWrite { offset } => {
                let remote = self.remote()?;
                self.endpoint.write(slot, len_bytes, remote, offset, options).map_err(failed)?
            }
        };
        Ok(post.into())
    }

    #[inline]
    fn post_atomic(&mut self, atomic: Atomic, offset: u64, slot: usize) -> Result<Posted, Failure> {
        let atomic = match atomic {
            // `check` has refused additions that fetch nothing (`Atomic::Add`).
            Atomic::FetchAdd | Atomic::Add => verbs::Atomic::FetchAdd { add: 1 },
            Atomic::CompareSwap { compare, swap } => verbs::Atomic::CompareSwap { compare, swap },
        };
        let remote = self.remote()?;
        let post = self.endpoint.atomic(slot, atomic, remote, offset, PostOptions::default());
        Ok(post.map_err(failed)?.into())
    }

    #[inline]
    fn fetched(&self, _operation: Operation, slot: usize) -> Result<u64, Failure> {
        word_at(self.endpoint.payload(slot).map_err(failed)?, 0)
    }

    #[inline]
    fn poll(&mut self, mut each: impl FnMut(Completion)) -> Result<usize, Failure> {
        let count = self
            .endpoint
            .poll(BURST, |done| {
                let kind = match done.kind {
                    CompletionKind::Send => Kind::Sent,
                    CompletionKind::Receive => Kind::Received,
                    CompletionKind::Read => Kind::Read,
                    CompletionKind::Write => Kind::Written,
                    CompletionKind::Atomic => Kind::Atomic,
                };
                each(Completion { kind, slot: done.slot, len_bytes: done.len_bytes });
            })
            .map_err(failed)?;
        Ok(count)
    }

    fn arm(&mut self) -> Result<(), Failure> {
        self.endpoint.arm().map_err(failed)
    }

    fn event(&self) -> Result<Option<PollFd<'_>>, Failure> {
        let channel = self.endpoint.events().map_err(failed)?;
        Ok(Some(PollFd::from_borrowed_fd(channel, PollFlags::IN)))
    }
}

impl Verbs {
    #[inline]
    fn remote(&self) -> Result<Remote, Failure> {
        self.remote.ok_or_else(|| Failure::Fabric("the peer has no window".to_owned()))
    }
}
