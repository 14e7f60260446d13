//! Any libfabric provider, by the `fabric` crate.

use fabric::{
    CompletionKind, EndpointType, Features, Hints, MessageKind, Node, NodeConfig, OutOfBand, Post,
    Prepared,
};

use super::{BURST, Backend, Completion, Kind, Posted, Wants};
use crate::fabric_name::FabricName;
use crate::failure::Failure;
use crate::record::FabricRecord;
use crate::spec::{EndpointKind, Operation};

/// The tag of every message; one flow needs only one.
const TAG: u64 = 0x0efa;

/// One endpoint of a provider.
pub(crate) struct Libfabric {
    node: Node,
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

impl Backend for Libfabric {
    type Prepared = Prepared;

    fn prepare(wants: &Wants) -> Result<Prepared, Failure> {
        let FabricName::Libfabric(provider) = &wants.fabric else {
            return Err(Failure::Usage(format!("{} is no libfabric provider", wants.fabric)));
        };
        let config = NodeConfig {
            hints: Hints {
                provider: Some(provider.clone()),
                domain: wants.domain.clone(),
                endpoint: match wants.endpoint {
                    EndpointKind::Rdm => EndpointType::Rdm,
                    EndpointKind::Dgram => EndpointType::Dgram,
                },
                messages: match wants.operation {
                    Operation::Tagged => MessageKind::Tagged,
                    Operation::Send | Operation::Inject => MessageKind::Plain,
                },
                features: Features::NONE,
                source: wants.source.clone(),
            },
            tx_slots: wants.tx_depth,
            rx_slots: wants.rx_depth,
            payload_bytes: wants.payload_bytes,
        };
        Ok(Node::prepare(&config)?)
    }

    fn describe(prepared: &Prepared) -> FabricRecord {
        let info = prepared.info();
        FabricRecord {
            provider: info.provider(),
            fabric: info.fabric_name(),
            domain: info.domain_name(),
            mtu_bytes: info.mtu_bytes().filter(|m| *m > 0),
            max_message_bytes: info.max_message_bytes(),
            inject_bytes: info.inject_bytes(),
            tx_depth: info.tx_depth(),
            rx_depth: info.rx_depth(),
            text: info.describe(),
        }
    }

    fn connect(prepared: Prepared, oob: &mut dyn OutOfBand) -> Result<Self, Failure> {
        let node = prepared.connect(oob)?;
        Ok(Self { node, found: [fabric::Completion::NONE; BURST] })
    }

    fn setup_us(&self) -> Vec<(String, f64)> {
        let phases = self.node.phases().iter();
        phases.map(|p| (p.phase.to_owned(), p.took.as_nanos() as f64 / 1_000.0)).collect()
    }

    fn tx_depth(&self) -> usize {
        self.node.tx_slots()
    }

    fn tx_slots(&self) -> usize {
        self.node.tx_slots()
    }

    fn rx_slots(&self) -> usize {
        self.node.rx_slots()
    }

    fn begin(&mut self, _size_bytes: usize) {}

    #[inline]
    fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
        Ok(self.node.buffers().payload(slot)?)
    }

    #[inline]
    fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
        Ok(self.node.buffers_mut().payload_mut(slot)?)
    }

    #[inline]
    fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
        Ok(self.node.buffers_mut().copy(from, to, len_bytes)?)
    }

    #[inline]
    fn receive(&mut self, slot: usize) -> Result<Posted, Failure> {
        Ok(self.node.post_receive(slot, TAG, 0)?.into())
    }

    #[inline]
    fn send(&mut self, slot: usize, len_bytes: usize) -> Result<Posted, Failure> {
        Ok(self.node.post_send(slot, len_bytes, TAG)?.into())
    }

    #[inline]
    fn inject(&mut self, slot: usize, len_bytes: usize) -> Result<Posted, Failure> {
        Ok(match self.node.inject(slot, len_bytes, TAG)? {
            Post::Done => Posted::Free,
            Post::Again => Posted::Full,
        })
    }

    #[inline]
    fn poll(&mut self, found: &mut [Completion; BURST]) -> Result<usize, Failure> {
        let count = self.node.poll(&mut self.found)?;
        for (done, place) in self.found[..count].iter().zip(found.iter_mut()) {
            let kind = match done.kind {
                CompletionKind::Send => Kind::Sent,
                CompletionKind::Receive => Kind::Received,
                _ => Kind::Other,
            };
            *place = Completion { kind, slot: done.slot, len_bytes: done.len_bytes };
        }
        Ok(count)
    }
}
