//! The window of unacknowledged packets (RC-3.5).

use crate::Config;

/// A window in packets, limited in bytes. It doubles until the first gap and then grows by one
/// packet per window, unless it is fixed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    packets: u32,
    /// Below this it grows by each packet acknowledged.
    threshold: u32,
    /// Packets acknowledged since it last grew, above the threshold.
    credit: u32,
    packets_max: u32,
    bytes_max: u64,
    is_fixed: bool,
}

impl Window {
    pub(crate) fn new(config: &Config) -> Self {
        let packets_max = config.window_max_packets.clamp(1, 1 << 22);
        let initial = config.window_initial_packets.clamp(1, packets_max);
        Self {
            packets: if config.is_window_fixed { packets_max } else { initial },
            threshold: packets_max,
            credit: 0,
            packets_max,
            bytes_max: config.window_max_bytes,
            is_fixed: config.is_window_fixed,
        }
    }

    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// Returns whether `more` numbers and `bytes` may join what is in flight. One request always
    /// may.
    #[inline]
    pub(crate) fn admits(&self, flight: u64, flight_bytes: u64, more: u64, bytes: u64) -> bool {
        flight == 0
            || (flight + more <= u64::from(self.packets) && flight_bytes + bytes <= self.bytes_max)
    }

    /// Returns the packets and bytes that may still join what is in flight.
    pub(crate) fn room(&self, flight: u64, flight_bytes: u64) -> (u64, u64) {
        let packets = u64::from(self.packets).saturating_sub(flight);
        (packets, self.bytes_max.saturating_sub(flight_bytes))
    }

    #[inline]
    pub(crate) fn grow(&mut self, acknowledged: u64) {
        if self.packets >= self.packets_max {
            return;
        }
        let more = u32::try_from(acknowledged).unwrap_or(u32::MAX);
        if self.packets < self.threshold {
            self.packets = self.packets.saturating_add(more).min(self.threshold);
            return;
        }
        self.credit = self.credit.saturating_add(more);
        if self.credit >= self.packets {
            self.credit = 0;
            self.packets += 1;
        }
    }

    /// Reduces the window to one packet after an overdue answer; when that is answered, half of the
    /// old window follows.
    pub(crate) fn collapse(&mut self) {
        if self.is_fixed {
            return;
        }
        self.threshold = (self.packets / 2).max(1);
        (self.packets, self.credit) = (1, 0);
    }

    /// Halves the window after a gap or silence.
    pub(crate) fn shrink(&mut self) {
        if self.is_fixed {
            return;
        }
        self.packets = (self.packets / 2).max(1);
        self.threshold = self.packets;
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RC-3.5.
    #[test]
    fn it_doubles_until_the_first_gap_and_then_creeps() {
        let mut window = Window::new(&Config::socket());
        assert_eq!(window.packets(), 16);
        window.grow(16);
        assert_eq!(window.packets(), 32);
        window.grow(1 << 40);
        assert_eq!(window.packets(), 128, "the bound");
        window.shrink();
        assert_eq!(window.packets(), 64);
        window.grow(63);
        assert_eq!(window.packets(), 64);
        window.grow(1);
        assert_eq!(window.packets(), 65);
        (0..20).for_each(|_| window.shrink());
        assert_eq!(window.packets(), 1);
    }

    #[test]
    fn one_request_is_always_admitted() {
        let config = Config { window_max_bytes: 100, ..Config::socket() };
        let window = Window::new(&config);
        assert!(window.admits(0, 0, 1 << 22, 1 << 30));
        assert!(window.admits(1, 60, 1, 40) && !window.admits(1, 60, 1, 41));
        assert!(window.admits(15, 0, 1, 0) && !window.admits(15, 0, 2, 0));
    }
}
