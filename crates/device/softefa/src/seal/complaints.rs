//! What is said on standard error when datagrams cannot be opened.

use std::net::IpAddr;

/// Lines of one device: more peers than that have one reason.
const LINES_MAX: usize = 4;

/// Remembers about whom one device has complained.
#[derive(Debug, Default)]
pub struct Complaints {
    peers: Vec<IpAddr>,
}

impl Complaints {
    /// The line to write because a datagram from `peer` cannot be opened; `None` when there was one
    /// for it, or enough for others.
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
