//! Congestion control: how many bytes may be in flight.

mod delay;
mod fixed;

use crate::{Config, CongestionKind, Instant};
use core::fmt::Debug;

/// The input to the congestion controller from one acknowledgement or refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub(crate) now: Instant,
    /// Wire bytes newly settled by it.
    pub(crate) acked_bytes: u64,
    /// Median queueing delay, `None` when this acknowledgement measured nothing.
    pub(crate) delay_ns: Option<u64>,
    pub(crate) base_ns: u64,
    pub(crate) smoothed_ns: u64,
    /// Bytes the receiver has taken since the connection began, `None` when it refuses one.
    pub(crate) rcvd_bytes: Option<u64>,
    /// The window was not fully used, so the sample says nothing about its size.
    pub(crate) app_limited: bool,
    /// The receiver's fair-share hint, log-coded bytes per microsecond, 0 for none.
    pub(crate) hint: u16,
}

/// Packets declared lost together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossSample {
    pub(crate) now: Instant,
    pub(crate) lost_bytes: u64,
    /// Packets are lost on many paths, not on a single one.
    pub(crate) connection_wide: bool,
    /// No acknowledgement at all for a whole time-out.
    pub(crate) silent: bool,
    /// Shortest time between two large cuts.
    pub(crate) min_gap_ns: u64,
}

/// Sizes the window of one connection. It receives every sample and returns only the result.
pub(crate) trait Controller: Debug + Send {
    /// Bytes that may be in flight.
    fn window_bytes(&self) -> u64;
    fn on_ack(&mut self, sample: &AckSample);
    fn on_loss(&mut self, sample: &LossSample);
    /// The latest loss was spurious: undo its cut.
    fn on_spurious(&mut self);
}

/// The controller that `config` asks for.
pub(crate) fn controller(config: &Config) -> Box<dyn Controller> {
    match config.congestion {
        CongestionKind::Delay => Box::new(delay::Delay::new(config)),
        CongestionKind::Fixed => Box::new(fixed::Fixed(u64::from(config.window_initial_bytes))),
    }
}
