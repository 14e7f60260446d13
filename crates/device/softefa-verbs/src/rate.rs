//! Conversions between link rates and their numbers in the verbs API.

use std::ffi::c_int;

/// A link rate.
struct Rate {
    /// The number in `enum ibv_rate`.
    number: c_int,
    mbps: c_int,
    /// The multiple of 2.5 Gbit/s, or [`UNKNOWN`].
    mult: c_int,
}

/// The result for rates without a number or multiple.
const UNKNOWN: c_int = -1;
/// `IBV_RATE_MAX`: the result for numbers of no rate.
const RATE_MAX: c_int = 0;

const fn rate(number: c_int, mbps: c_int, mult: c_int) -> Rate {
    Rate { number, mbps, mult }
}

const RATES: [Rate; 23] = [
    rate(2, 2_500, 1),
    rate(5, 5_000, 2),
    rate(3, 10_000, 4),
    rate(6, 20_000, 8),
    rate(4, 30_000, 12),
    rate(7, 40_000, 16),
    rate(8, 60_000, 24),
    rate(9, 80_000, 32),
    rate(10, 120_000, 48),
    rate(11, 14_062, UNKNOWN),
    rate(12, 56_250, UNKNOWN),
    rate(13, 112_500, UNKNOWN),
    rate(14, 168_750, UNKNOWN),
    rate(15, 25_781, UNKNOWN),
    rate(16, 103_125, UNKNOWN),
    rate(17, 206_250, UNKNOWN),
    rate(18, 309_375, UNKNOWN),
    rate(19, 28_125, 11),
    rate(20, 53_125, 20),
    rate(21, 425_000, 160),
    rate(22, 637_500, 240),
    rate(23, 850_000, 320),
    rate(24, 1_275_000, 480),
];

fn look_up(answer: c_int, found: impl Fn(&Rate) -> bool, take: impl Fn(&Rate) -> c_int) -> c_int {
    RATES.iter().find(|rate| found(rate)).map_or(answer, take)
}

/// Returns the number of the slowest rate that is at least as fast.
pub(crate) fn number_of_at_least(mbps: c_int) -> c_int {
    let enough = RATES.iter().filter(|rate| rate.mbps >= mbps);
    enough.min_by_key(|rate| rate.mbps).map_or(RATE_MAX, |rate| rate.number)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mult(number: c_int) -> c_int {
    look_up(UNKNOWN, |rate| rate.number == number, |rate| rate.mult)
}

#[unsafe(no_mangle)]
extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_int {
    look_up(RATE_MAX, |rate| rate.mult == mult && mult != UNKNOWN, |rate| rate.number)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mbps(number: c_int) -> c_int {
    look_up(UNKNOWN, |rate| rate.number == number, |rate| rate.mbps)
}

#[unsafe(no_mangle)]
extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    look_up(RATE_MAX, |rate| rate.mbps == mbps, |rate| rate.number)
}
