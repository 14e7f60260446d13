//! Is it the path or the network? The recent share of packets that got lost.

/// Above this share a loss is no path's fault (SRD-8.5).
const CONNECTION_WIDE: f32 = 0.5;
const GAIN: f32 = 1.0 / 16.0;

/// Moving average of lost against answered packets.
#[derive(Debug, Default)]
pub(crate) struct LossShare(f32);

impl LossShare {
    pub(crate) fn acked(&mut self, packets: u32) {
        if self.0 > 1e-6 {
            self.0 *= (1.0 - GAIN).powi(packets.min(1000) as i32);
        } else {
            self.0 = 0.0;
        }
    }

    pub(crate) fn lost(&mut self) {
        self.0 += (1.0 - self.0) * GAIN;
    }

    /// Losses hit the connection as a whole: slow down rather than change paths.
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
            share.lost();
            share.acked(3);
        }
        assert!(!share.is_connection_wide());
        for _ in 0..20 {
            share.lost();
        }
        assert!(share.is_connection_wide());
        share.acked(200);
        assert!(!share.is_connection_wide());
    }
}
