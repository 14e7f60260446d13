//! The recent loss rate, which tells a bad path from a congested network.

/// Above this loss rate, losses are not blamed on paths (SRD-8.5).
const CONNECTION_WIDE: f32 = 0.5;
const GAIN: f32 = 1.0 / 16.0;

/// Moving average of the share of packets that were lost.
#[derive(Debug, Default)]
pub(crate) struct LossShare(f32);

impl LossShare {
    pub(crate) fn note_acked(&mut self, packets: u32) {
        if self.0 > 1e-6 {
            self.0 *= (1.0 - GAIN).powi(packets.min(1000) as i32);
        } else {
            self.0 = 0.0;
        }
    }

    pub(crate) fn note_lost(&mut self) {
        self.0 += (1.0 - self.0) * GAIN;
    }

    /// Returns whether losses affect the connection as a whole: slow down rather than change paths.
    pub(crate) fn is_connection_wide(&self) -> bool {
        self.0 > CONNECTION_WIDE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lossy_path_is_not_a_lossy_network() {
        let mut share = LossShare::default();
        for _ in 0..100 {
            share.note_lost();
            share.note_acked(3);
        }
        assert!(!share.is_connection_wide());
        for _ in 0..20 {
            share.note_lost();
        }
        assert!(share.is_connection_wide());
        share.note_acked(200);
        assert!(!share.is_connection_wide());
    }
}
