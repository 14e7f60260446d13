//! Messages on standard error about datagrams that cannot be opened.

use std::net::IpAddr;

/// The most lines of one device: more peers than that have one cause.
const LINES_MAX: usize = 4;

/// The peers about which one device has complained.
#[derive(Debug, Default)]
pub struct Complaints {
    peers: Vec<IpAddr>,
}

impl Complaints {
    /// Returns the line to write because a datagram from `peer` cannot be opened; `None` if the
    /// peer had one, or other peers had enough.
    pub fn line(&mut self, device: &str, peer: IpAddr) -> Option<String> {
        if self.peers.len() == LINES_MAX || self.peers.contains(&peer) {
            return None;
        }
        self.peers.push(peer);
        Some(format!(
            "softefa: device {device}: datagrams from {peer} cannot be opened: does its program use the same key file? (counter rx_seal_errors)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_is_named_once_and_a_few_at_most() {
        let mut complaints = Complaints::default();
        let mut say = |last| complaints.line("rdmap0s6", IpAddr::from([10, 0, 0, last]));
        let line = say(2).unwrap();
        assert!(line.contains("device rdmap0s6") && line.contains("10.0.0.2"), "{line}");
        assert_eq!(say(2), None);
        assert_eq!((3..100).filter_map(&mut say).count(), 3);
        assert_eq!(say(2), None);
    }
}
