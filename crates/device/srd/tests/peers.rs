//! Ten thousand peers of one endpoint: memory is in proportion, and is freed again.

use crate::common::hub::Hub;

const PEERS: u32 = 10_000;
/// Memory of an idle peer.
const IDLE_BYTES_MAX: usize = 2048;

#[test]
fn idle_peers_are_small_and_go() {
    let mut hub = Hub::new();
    (0..PEERS).for_each(|spoke| hub.round_trip(spoke));
    assert_eq!(hub.live_peers(), PEERS as usize);
    hub.pass_s(2);
    let bytes = hub.bytes_per_peer();
    println!("{PEERS} idle peers: {bytes} bytes each");
    assert!(bytes <= IDLE_BYTES_MAX, "{bytes} bytes per idle peer");
    hub.pass_s(60);
    assert_eq!(hub.live_peers(), 0, "idle peers are collected");
    // A peer that returns is served as if for the first time.
    hub.round_trip(PEERS / 2);
    assert_eq!(hub.live_peers(), 1);
}
