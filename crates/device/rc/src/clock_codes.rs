//! Times as codes of a few bits (RC-4.1, RC-4.4).

/// RNR timers by their codes, in units of 10 us.
const RNR_10_US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Returns the time of an RNR timer code in nanoseconds; only the lower 5 bits count.
#[must_use]
pub fn rnr_timer_ns(code: u8) -> u64 {
    u64::from(RNR_10_US[usize::from(code & 31)]) * 10_000
}

/// Returns the time of an acknowledgement timeout code in nanoseconds; `None` for 0, which means
/// never. Only the lower 5 bits count.
#[must_use]
pub fn timeout_ns(code: u8) -> Option<u64> {
    let code = code & 31;
    (code > 0).then(|| 4096 << code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RC-4.1, RC-4.4.
    #[test]
    fn codes_stand_for_the_times_of_the_specification() {
        assert_eq!(timeout_ns(0), None);
        assert_eq!(timeout_ns(14), Some(67_108_864));
        assert_eq!(timeout_ns(31), Some(4096 << 31));
        assert_eq!(rnr_timer_ns(0), 655_360_000);
        assert_eq!(rnr_timer_ns(1), 10_000);
        assert_eq!(rnr_timer_ns(12), 640_000);
        assert_eq!(rnr_timer_ns(31), 491_520_000);
        assert!((2..32).all(|code| rnr_timer_ns(code) > rnr_timer_ns(code - 1)));
    }
}
