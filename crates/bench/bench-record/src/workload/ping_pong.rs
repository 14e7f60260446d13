//! Ping-pong whose round trips are only counted.

pub(super) use super::NoArgs as Args;
use super::about::{About, Figures, SLEEPS};
use crate::names::Preset;
use crate::spec::Benchmark;

const PING_PONG: Preset = Preset::of(
    Benchmark::PingPong,
    "ping_pong",
    "Ping-pong; round trips counted, not timed one by one",
);

pub(super) const ABOUT: About = About {
    name: PING_PONG.name,
    names: &[Preset { aliases: &["ping-pong"], ..PING_PONG }],
    figures: Figures::RoundTrips,
    reads: &[&["threads", "validate", "iterations"], SLEEPS],
    ..About::MESSAGES
};
