//! An index that its owner holds and others look up: the owner walks the tree for each call, or the
//! client READs its nodes, or each does a part.

mod owner;
mod tree;
mod walker;

use bench_record::workload::{KEPT_MAX, KEY_BYTES, LookupMethod};

use self::owner::{Names, Owner};
use self::tree::{NODE_BYTES, TREE_BYTES, Tree, VALUE_BYTES_MAX};
use self::walker::Inner;
use super::caller;
use super::demand::Demand;
use super::message::HEADER_BYTES;
use super::popularity::Popularity;
use super::server;
use crate::pattern::SEQUENCE_BYTES;
use crate::workload::prelude::*;

/// A lane of the workload, with the upper levels of the tree (client) or the whole tree.
pub(super) struct Index {
    side: Side,
    tree: Tree,
    demand: Demand,
}

impl Workload for Index {
    // A value tells its key.
    const LEAST_BYTES: usize = SEQUENCE_BYTES;

    fn message_bytes(job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        let body_bytes = match job.work.way {
            LookupMethod::Rpc => job.work.request_bytes.max(size_bytes.saturating_add(KEY_BYTES)),
            LookupMethod::Read | LookupMethod::Hybrid => NODE_BYTES,
        };
        body_bytes.saturating_add(HEADER_BYTES)
    }

    fn window_bytes(_job: &JobSpec, side: Side) -> usize {
        match side {
            Side::Client => NODE_BYTES,
            Side::Server => TREE_BYTES,
        }
    }

    fn refusal(size_bytes: usize, _parameter: usize, _rx_depth: usize) -> Option<String> {
        let room = VALUE_BYTES_MAX;
        (size_bytes > room)
            .then(|| format!("a value of {size_bytes} B is more than the {room} B of a leaf"))
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let (side, demand) = (task.side, Demand::new(task));
        Ok(Self { side, tree: Tree::new(side == Side::Server)?, demand })
    }

    fn begin<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        point: PointSpec,
    ) -> Result<(), Failure> {
        let Demand { work, keys, .. } = &mut self.demand;
        if !self.tree.begin(point.size_bytes) {
            return Ok(());
        }
        match self.side {
            Side::Client => {
                *keys = Popularity::new(tree::keys(point.size_bytes), work.zipf_hundredths);
                Ok(())
            }
            Side::Server if work.way == LookupMethod::Rpc => Ok(()),
            Side::Server => {
                links.iter_mut().try_for_each(|link| link.write_window(self.tree.bytes()))
            }
        }
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        let Self { side, tree, demand } = self;
        match (side, demand.work.way) {
            (Side::Client, LookupMethod::Rpc) => caller::call(part, demand, Names),
            (Side::Client, LookupMethod::Read) => {
                let inner = Inner::Client { kept: part.point.parameter.min(KEPT_MAX) };
                walker::look_up(part, inner, tree, demand)
            }
            (Side::Client, LookupMethod::Hybrid) => {
                walker::look_up(part, Inner::Owner, tree, demand)
            }
            (Side::Server, LookupMethod::Read) => owner::stand_by(part),
            (Side::Server, LookupMethod::Rpc | LookupMethod::Hybrid) => {
                server::answer(part, &mut Owner { tree })
            }
        }
    }
}
