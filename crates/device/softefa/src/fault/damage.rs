//! Damage: bytes altered on the way.

use super::random::Random;

/// The longest run of altered bytes, which CRC32C is certain to detect (SRD-2.10).
const BURST_BYTES_MAX: u64 = 4;

/// Alters one to four adjacent bytes. Every one of them gets another value.
pub(super) fn burst(bytes: &mut [u8], random: &mut Random) {
    assert!(!bytes.is_empty(), "there is something to alter");
    let start = random.below(bytes.len() as u64) as usize;
    let count = 1 + random.below(BURST_BYTES_MAX) as usize;
    for byte in bytes[start..].iter_mut().take(count) {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let mask = 1 + random.below(255) as u8;
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Use;
    use super::*;

    #[test]
    fn a_burst_alters_up_to_four_neighbours() {
        let mut random = Random::new(1, 2, Use::Mangling);
        for len in [1, 2, 100] {
            for _ in 0..1_000 {
                let mut bytes = vec![0; len];
                burst(&mut bytes, &mut random);
                let first = bytes.iter().position(|byte| *byte != 0).unwrap();
                let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
                assert!(last - first < 4 && bytes[first..=last].iter().all(|byte| *byte != 0));
            }
        }
    }
}
