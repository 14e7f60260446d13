//! Shared parts of the test programs: random numbers, a device on plain memory, hand-made packets,
//! a faulty network.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part of the harness")]

pub mod craft;
pub mod host;
pub mod model;
pub mod oracle;
pub mod pair;

/// A small generator, so that tests depend on nothing but their seed.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True in `parts` of 1000 cases.
    pub fn permille(&mut self, parts: u32) -> bool {
        self.below(1000) < u64::from(parts)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `test` for many seeds; a failure names the command that repeats it.
pub fn explore(
    program: &str,
    name: &str,
    cases: u64,
    test: impl Fn(u64) + std::panic::RefUnwindSafe,
) {
    let (cases, seed) = (number("RC_CASES", cases), number("RC_SEED", 1));
    println!("RC_SEED={seed} RC_CASES={cases}");
    for seed in seed..seed + cases {
        let outcome = std::panic::catch_unwind(|| test(seed));
        if outcome.is_err() {
            panic!("RC_SEED={seed} RC_CASES=1 cargo test -p rc --test {program} {name}");
        }
    }
}
