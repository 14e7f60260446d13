//! How much may be in flight.

mod delay;
mod fixed;

use crate::{Config, CongestionKind, Instant};
use core::fmt::Debug;

/// The news that one acknowledgement or refusal has for the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub(crate) now: Instant,
    /// Wire bytes newly settled.
    pub(crate) acked_bytes: u64,
    /// Median queueing delay, `None` when this acknowledgement measured nothing.
    pub(crate) delay_ns: Option<u64>,
    pub(crate) base_ns: u64,
    pub(crate) smoothed_ns: u64,
    /// Bytes the receiver has taken since the connection began, `None` when it refuses one.
    pub(crate) rcvd_bytes: Option<u64>,
    /// The window was not used, so nothing was learnt about it.
    pub(crate) app_limited: bool,
    /// The receiver's fair-share hint, log-coded bytes per microsecond, 0 for none.
    pub(crate) hint: u16,
}

/// Packets declared lost together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossSample {
    pub(crate) now: Instant,
    pub(crate) lost_bytes: u64,
    /// Losses are everywhere, not on one path.
    pub(crate) connection_wide: bool,
    /// No acknowledgement at all for a whole time-out.
    pub(crate) silent: bool,
    /// Shortest time between two large cuts.
    pub(crate) min_gap_ns: u64,
}

/// Sizes the window. One per connection; told everything, asked only for the result.
pub(crate) trait Controller: Debug + Send {
    /// Bytes that may be in flight.
    fn window_bytes(&self) -> u64;
    fn on_ack(&mut self, sample: &AckSample);
    fn on_loss(&mut self, sample: &LossSample);
    /// The latest loss was none.
    fn on_spurious(&mut self);
}

/// The controller that `config` asks for.
pub(crate) fn controller(config: &Config) -> Box<dyn Controller> {
    match config.congestion {
        CongestionKind::Delay => Box::new(delay::Delay::new(config)),
        CongestionKind::Fixed => Box::new(fixed::Fixed(u64::from(config.window_initial_bytes))),
    }
}
