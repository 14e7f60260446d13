//! Sides with the same key, or with different ones.

use std::fs;

use softefa::counters::Counter;
use softefa::seal::SealKey;
use softefa::{Config, QpKind};

use super::{Side, side_of};

/// Returns the key of a file that holds this byte 32 times.
pub fn key(byte: u8) -> SealKey {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("key");
    fs::write(&path, [byte; 32]).expect("a file");
    SealKey::read(&path).expect("a key")
}

pub fn keyed(byte: u8, fault: &str) -> Config {
    Config { faults: fault.parse().expect("faults"), key: Some(key(byte)), ..Config::default() }
}

pub fn sealed_side(kind: QpKind, fault: &str) -> Side {
    side_of(kind, &keyed(1, fault))
}

/// Makes two sides with SRD queue pairs and one key.
pub fn sealed_pair(fault: &str) -> (Side, Side) {
    (sealed_side(QpKind::Srd, fault), sealed_side(QpKind::Srd, fault))
}

pub fn count(of: &Side, counter: Counter) -> u64 {
    of.device.counters().get(counter)
}
