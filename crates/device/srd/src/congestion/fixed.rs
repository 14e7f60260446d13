//! A window that never changes.

use super::{AckSample, Controller, LossSample};

#[derive(Debug)]
pub(super) struct Fixed(pub(super) u64);

impl Controller for Fixed {
    fn window_bytes(&self) -> u64 {
        self.0
    }

    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_loss(&mut self, _sample: &LossSample) {}

    fn on_spurious(&mut self) {}
}
