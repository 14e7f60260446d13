//! What idle peers cost: bytes of memory each, and the time of what goes on beside them.
//!
//! `cargo run --release -p srd --example peers [peers] [round trips]`
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../tests/common/hub.rs"]
mod hub;

use hub::Hub;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().ok());
    let peers: u32 = arguments.next().flatten().unwrap_or(10_000);
    let rounds: u32 = arguments.next().flatten().unwrap_or(10_000);
    let mut hub = Hub::new();
    (0..peers).for_each(|spoke| hub.round_trip(spoke));
    println!("{peers} peers, bytes each just after a message: {}", hub.bytes_per_peer());
    hub.pass_s(2);
    println!("after two idle seconds: {}", hub.bytes_per_peer());
    let start = std::time::Instant::now();
    (0..rounds).for_each(|_| hub.round_trip(0));
    let ns = start.elapsed().as_nanos() / u128::from(rounds.max(1));
    println!("{rounds} round trips with one of them: {ns} ns each, both ends");
    let steps = (0..1000).map(|_| {
        let start = std::time::Instant::now();
        hub.pass_at_hub_ms(1);
        start.elapsed().as_micros()
    });
    let (sum, longest) = steps.fold((0, 0), |(sum, max), us| (sum + us, max.max(us)));
    println!("an idle second costs {sum} us, its longest millisecond {longest} us");
    hub.pass_s(60);
    println!("after another minute {} peers are left", hub.live_peers());
}
