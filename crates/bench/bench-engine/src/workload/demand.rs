//! The operations that a lane asks for, drawn at random by certain rules.

use bench_record::workload::WorkSpec;

use super::popularity::Popularity;
use crate::lane::Task;
use crate::measure::Random;

/// The source that a lane's operations are drawn from.
pub(super) struct Demand {
    pub(super) work: WorkSpec,
    pub(super) random: Random,
    pub(super) keys: Popularity,
}

impl Demand {
    pub(super) fn new(task: &Task) -> Self {
        let work = task.job.work;
        let keys = Popularity::new(keys(task), work.zipf_hundredths);
        Self { work, random: task.random(), keys }
    }

    /// Draws the number of a key.
    #[inline]
    pub(super) fn draw(&mut self) -> u64 {
        self.keys.draw(&mut self.random)
    }
}

/// Returns the number of keys that belong to a lane.
pub(super) fn keys(task: &Task) -> usize {
    (task.job.work.keys / task.job.threads.max(1)).max(1)
}
