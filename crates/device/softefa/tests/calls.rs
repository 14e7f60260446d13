//! Random sequences of calls with good and bad arguments, over real sockets.
//!
//! Whatever a program does: nothing panics or hangs, every work request that was accepted completes
//! exactly once (or is destroyed with its queue pair), and no byte changes outside registered
//! memory.
//!
//! `SOFTEFA_CASES=1000 SOFTEFA_SEED=7 cargo test -p softefa --test all calls` runs more cases, or
//! other ones.

use proptest::prelude::*;
use proptest::test_runner::{Config as RunnerConfig, RngAlgorithm, TestRng, TestRunner};
use softefa::{Config, QpKind, QpState};

use crate::world::{Call, RegionSpan, World};

fn place() -> impl Strategy<Value = RegionSpan> {
    let at = prop_oneof![4 => Just(0u32), 2 => 0..60_000u32, 1 => any::<u32>()];
    let len = prop_oneof![
        1 => Just(0u32),
        4 => 1..200u32,
        2 => Just(8_928),
        2 => 8_929..49_152u32,
        1 => any::<u32>(),
    ];
    let wrong_key = prop_oneof![9 => Just(0u32), 1 => any::<u32>()];
    (any::<u8>(), at, len, wrong_key).prop_map(|(region, at, len, wrong_key)| RegionSpan {
        region,
        at,
        len,
        wrong_key,
    })
}

fn state() -> impl Strategy<Value = QpState> {
    prop_oneof![
        Just(QpState::Reset),
        Just(QpState::Init),
        Just(QpState::ReadyToReceive),
        Just(QpState::ReadyToSend),
        Just(QpState::SendQueueDrained),
        Just(QpState::Error),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let index = any::<u8>;
    let kind = prop_oneof![4 => Just(QpKind::Srd), 1 => Just(QpKind::Ud)];
    prop_oneof![
        4 => (index(), index(), kind, any::<bool>(), any::<bool>()).prop_map(
            |(pd, cq, kind, unsolicited, sig_all)| Call::CreateQp { pd, cq, kind, unsolicited, sig_all }
        ),
        1 => index().prop_map(|qp| Call::DestroyQp { qp }),
        6 => (index(), 0..4u8).prop_map(|(qp, rnr_retry)| Call::Up { qp, rnr_retry }),
        2 => (index(), state(), index()).prop_map(|(qp, state, given)| Call::Modify { qp, state, given }),
        4 => (index(), index(), 0..8u8).prop_map(|(pd, slot, rights)| Call::Register { pd, slot, rights }),
        1 => index().prop_map(|region| Call::Deregister { region }),
        2 => (index(), 0..4u8).prop_map(|(pd, host)| Call::CreateAh { pd, host }),
        1 => index().prop_map(|ah| Call::DestroyAh { ah }),
        24 => (index(), index(), index(), index(), place(), place(), index()).prop_map(
            |(qp, to, ah, op, local, remote, flags)| Call::Send { qp, to, ah, op, local, remote, flags }
        ),
        10 => (index(), place(), 0..5u8).prop_map(|(qp, local, entries)| Call::Recv { qp, local, entries }),
        8 => index().prop_map(|max| Call::Poll { max }),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(strict, is_local, is_faulty)| {
        let faults = if is_faulty { "loss=2%,reorder=20%,dup=2%,seed=1" } else { "" };
        Config {
            strict,
            local_key: is_local.then_some(*b"any key of tests"),
            faults: faults.parse().expect("a fault"),
            ..Config::default()
        }
    })
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn any_sequence_of_calls_keeps_every_promise() {
    let (cases, seed) = (number("SOFTEFA_CASES", 60), number("SOFTEFA_SEED", 1));
    println!("SOFTEFA_SEED={seed} SOFTEFA_CASES={cases}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let runner_config = RunnerConfig {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..RunnerConfig::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(runner_config, rng);
    let strategy = (config(), prop::collection::vec(call(), 1..120));
    let outcome = runner.run(&strategy, |(config, calls)| {
        let mut world = World::new(&config);
        calls.iter().for_each(|call| world.apply(call));
        world.heal();
        Ok(())
    });
    if let Err(error) = outcome {
        panic!(
            "SOFTEFA_SEED={seed} SOFTEFA_CASES={cases} cargo test -p softefa --test all calls\n{error}"
        );
    }
}
