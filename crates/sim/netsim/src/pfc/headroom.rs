//! Thresholds and headroom: how much a switch takes of a link before it asks for a pause, and what
//! it keeps free for packets that still come.

use crate::link::Link;

/// Bytes of a pause frame on the wire (IEEE 802.1Qbb: the smallest frame there is).
pub(super) const PAUSE_BYTES: u32 = 64;
/// Number of packets between the two thresholds, when a scenario does not say.
const SLACK_PACKETS: u32 = 2;

/// The scenario's settings of priority flow control; missing ones follow from buffer and headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PfcSetup {
    /// Bytes that a switch keeps for each link into it.
    pub(crate) buffer_bytes: u32,
    pub(crate) xoff_bytes: Option<u32>,
    pub(crate) xon_bytes: Option<u32>,
    /// The longest packet of the run.
    pub(crate) packet_bytes: u32,
}

/// The thresholds at which the sender of a link is paused, and may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    /// Bytes of the link's packets in the switch above which it asks for a pause.
    pub(super) xoff_bytes: u32,
    /// Bytes at or below which it lets the sender go on.
    pub(super) xon_bytes: u32,
}

impl PfcSetup {
    /// Returns the bytes that still come when a link's share has just passed the threshold: the
    /// packet that passed it; what the sender sends while the pause frame waits for one packet, is
    /// sent and travels; the packet that the sender has then begun; and what is on the cable.
    fn headroom_bytes(&self, link: &Link) -> u32 {
        let cable_bytes = link.delay_ps().div_ceil(link.ps_per_byte());
        2 * cable_bytes + 3 * self.packet_bytes + PAUSE_BYTES
    }

    /// Returns the thresholds for a link into a switch.
    pub(super) fn thresholds(&self, link: &Link) -> Thresholds {
        let most = self.buffer_bytes.saturating_sub(self.headroom_bytes(link));
        let xoff_bytes = self.xoff_bytes.unwrap_or(most);
        let slack = SLACK_PACKETS * self.packet_bytes;
        Thresholds {
            xoff_bytes,
            xon_bytes: self.xon_bytes.unwrap_or_else(|| xoff_bytes.saturating_sub(slack)),
        }
    }

    /// Returns the field and the problem of settings that would lose packets or stand still.
    pub(crate) fn check(&self, link: &Link) -> Result<(), (&'static str, String)> {
        let (headroom, buffer_bytes) = (self.headroom_bytes(link), self.buffer_bytes);
        let Some(most) = buffer_bytes.checked_sub(headroom).filter(|&most| most > 0) else {
            let problem =
                format!("{buffer_bytes} bytes are not more than the headroom of {headroom} bytes");
            return Err(("network.buffer_bytes", problem));
        };
        let Thresholds { xoff_bytes, xon_bytes } = self.thresholds(link);
        if xoff_bytes > most {
            let problem = format!(
                "{xoff_bytes} is not allowed, at most {most}: buffer_bytes less a headroom of {headroom}"
            );
            return Err(("network.pfc.xoff_bytes", problem));
        }
        if xon_bytes >= xoff_bytes {
            let problem = format!("{xon_bytes} is not less than xoff_bytes, which is {xoff_bytes}");
            return Err(("network.pfc.xon_bytes", problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_follows_from_delay_rate_and_packets() {
        let link = Link::new(80, 1_000_000);
        let headroom = 2 * 12_500 + 3 * 4150 + 64;
        let setup = PfcSetup {
            buffer_bytes: 100_000,
            xoff_bytes: None,
            xon_bytes: None,
            packet_bytes: 4150,
        };
        let thresholds = setup.thresholds(&link);
        assert_eq!(thresholds.xoff_bytes, 100_000 - headroom);
        assert_eq!(thresholds.xon_bytes, 100_000 - headroom - 2 * 4150);
        assert_eq!(setup.check(&link), Ok(()));
        let field = |setup: PfcSetup| setup.check(&link).unwrap_err().0;
        assert_eq!(field(PfcSetup { buffer_bytes: headroom, ..setup }), "network.buffer_bytes");
        let late = PfcSetup { xoff_bytes: Some(100_001 - headroom), ..setup };
        assert_eq!(field(late), "network.pfc.xoff_bytes");
        let stuck = PfcSetup { xon_bytes: Some(9000), xoff_bytes: Some(9000), ..setup };
        assert_eq!(field(stuck), "network.pfc.xon_bytes");
    }
}
