//! A process of the same user writes arbitrary data into a ring while it is read: records, sizes,
//! headers, the reader's own words. It is a peer whose ring was accepted, so that all of the
//! adapter is behind the ring.
//!
//! `SOFTEFA_SEED` sets another seed, `SOFTEFA_HOSTILE_SECONDS` a longer time.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::exchange::exchange;
use crate::common::sealing::keyed;
use crate::common::{self, Side, only, side_of};
use softefa::counters::Counter;
use softefa::{Config, QpKind, SendOp, SendWr, Status};

const ENEMY: &str = "SOFTEFA_TEST_HOSTILE_RING";
const RECEIVES: u64 = 64;
const RECEIVE_BYTES: usize = 4096;
/// The part of the victim's memory that must not change.
const UNTOUCHED: std::ops::Range<usize> = RECEIVES as usize * RECEIVE_BYTES..1 << 20;
/// Length of the head of a ring, followed by its lines, and the mark of a record (SRD-12.3).
/// Mappings end with a page.
const HEAD: u64 = 256;
const LINE: u64 = 64;
const PUBLISHED: u64 = 1 << 63;
const PAGE: u64 = 4096;
/// The time that an enemy spends on one ring before it opens the next.
const ROUND: Duration = Duration::from_millis(10);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn roll(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let bits = *state ^ *state >> 31;
    bits.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Returns the first and the last address of each ring that this process has.
fn rings() -> Vec<(u64, u64)> {
    let maps = fs::read_to_string("/proc/self/maps").expect("its memory");
    let ring = |line: &str| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        line.contains("memfd:softefa-ring").then_some((number(from)?, number(to)?))
    };
    maps.lines().filter_map(ring).collect()
}

/// Writes into all rings until told to stop; the layout is in docs/PROTOCOL.md, chapter 12.
fn scribble(mut dice: u64, is_over: &AtomicBool) {
    let memory = File::options().read(true).write(true).open("/proc/self/mem").expect("its memory");
    while !is_over.load(Ordering::Relaxed) {
        for (from, to) in rings() {
            // The ring may have been given up meanwhile, and there is nothing to write to.
            while strike(&memory, &mut dice, from, (to - from - PAGE) / LINE).is_ok()
                && roll(&mut dice) & 255 > 0
            {}
        }
    }
}

/// Writes once where the reader will look next: a record that resembles an earlier one, or a
/// changed bit.
fn strike(memory: &File, dice: &mut u64, ring: u64, lines: u64) -> std::io::Result<()> {
    let mut freed = [0; 8];
    memory.read_exact_at(&mut freed, ring)?;
    let freed = u64::from_le_bytes(freed);
    let line_at = |line: u64| ring + HEAD + line % lines * LINE;
    // The place is that of the reader, or somewhere ahead of it.
    let ahead = if roll(dice) & 3 > 0 { 0 } else { roll(dice) % 64 };
    let at = freed.wrapping_add(ahead);
    let mut record = [0; 4 * LINE as usize];
    match roll(dice) % 64 {
        0 => memory.write_all_at(&roll(dice).to_le_bytes(), ring + 8 * (roll(dice) % (HEAD / 8))),
        1..=3 => {
            let (place, mut word) = (line_at(at) + 8 * (roll(dice) % 16), [0; 8]);
            memory.read_exact_at(&mut word, place)?;
            let bent = u64::from_le_bytes(word) ^ 1 << (roll(dice) % 64);
            memory.write_all_at(&bent.to_le_bytes(), place)
        }
        _ => {
            memory.read_exact_at(&mut record, line_at(freed.wrapping_sub(1 + roll(dice) % 256)))?;
            for _ in 0..roll(dice) % 3 {
                record[8 + roll(dice) as usize % 80] ^= 1 << (roll(dice) % 8);
            }
            let said = u64::from(record[0]) | u64::from(record[1]) << 8;
            let len = match roll(dice) % 4 {
                0 => roll(dice) >> 50,
                1 => 40 + roll(dice) % 100,
                _ => said.min(9000),
            };
            memory.write_all_at(&[0; 8], line_at(at.wrapping_add((8 + len).div_ceil(LINE))))?;
            memory.write_all_at(&record[8..], line_at(at) + 8)?;
            memory.write_all_at(&(PUBLISHED | len).to_le_bytes(), line_at(at))
        }
    }
}

/// Opens one ring after the other to `qpn`, sends as any peer does, and changes the bytes sent.
fn be_enemy(qpn: u16, config: &Config) {
    let mut dice = number("SOFTEFA_SEED", 1);
    loop {
        let h = side_of(QpKind::Srd, config);
        let ah = h.ah(&h);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let own = roll(&mut dice);
            let is_over = &is_over;
            scope.spawn(move || scribble(own, is_over));
            let begin = Instant::now();
            let mut on_its_way = 0;
            while begin.elapsed() < ROUND {
                while on_its_way < 32 {
                    let len = (roll(&mut dice) % RECEIVE_BYTES as u64) as u32;
                    let sges = [h.sge(0, len)];
                    let wr: SendWr<'_> = common::wr(0, &ah, qpn, SendOp::Send, &sges);
                    h.qp.post_send(&wr).expect("there is room");
                    on_its_way += 1;
                }
                on_its_way -= h.cq.poll(64, |_| ());
            }
            is_over.store(true, Ordering::Relaxed);
        });
        h.qp.destroy();
    }
}

struct Enemy(Child);

impl Enemy {
    fn start(test: &str, qpn: u16) -> Self {
        let child =
            only(module_path!(), test).env(ENEMY, qpn.to_string()).stdout(Stdio::null()).spawn();
        Self(child.expect("a second process"))
    }
}

impl Drop for Enemy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes all messages, and posts each receive again.
fn take_all(c: &Side) -> u64 {
    let mut free = Vec::new();
    c.cq.poll(64, |done| {
        let len = done.byte_len as usize;
        assert!(done.status != Status::Ok || len <= RECEIVE_BYTES, "{done:?}");
        free.push(done.wr_id);
    });
    for slot in &free {
        c.post_recv(*slot, *slot as usize * RECEIVE_BYTES, RECEIVE_BYTES as u32);
    }
    free.len() as u64
}

#[test]
fn a_hostile_process_on_the_other_side_of_a_ring_harms_nobody() {
    harms_nobody("a_hostile_process_on_the_other_side_of_a_ring_harms_nobody", &Config::default());
}

/// SRD-12.9: a holder of the key may put datagrams into a ring that neither a check nor a seal
/// covers.
#[test]
fn a_hostile_holder_of_the_key_harms_nobody() {
    harms_nobody("a_hostile_holder_of_the_key_harms_nobody", &keyed(1, ""));
}

fn harms_nobody(test: &str, config: &Config) {
    if let Ok(qpn) = std::env::var(ENEMY) {
        return be_enemy(qpn.parse().expect("a number"), config);
    }
    let (seed, seconds) = (number("SOFTEFA_SEED", 1), number("SOFTEFA_HOSTILE_SECONDS", 2));
    println!(
        "SOFTEFA_SEED={seed} SOFTEFA_HOSTILE_SECONDS={seconds} cargo test -p softefa --test all hostile_ring"
    );
    let (mut a, b) = (side_of(QpKind::Srd, config), side_of(QpKind::Srd, config));
    let mut c = side_of(QpKind::Srd, config);
    c.fill(UNTOUCHED.start, &vec![0xA5; UNTOUCHED.len()]);
    for slot in 0..RECEIVES {
        c.post_recv(slot, slot as usize * RECEIVE_BYTES, RECEIVE_BYTES as u32);
    }
    let mut enemy = Enemy::start(test, c.qp.port());
    let count = |counter| c.device.counters().get(counter);
    let begin = Instant::now();
    let (mut taken, mut exchanged) = (0, 0);
    // The loop runs until there were enough hits, whatever else the machine does.
    while begin.elapsed() < Duration::from_secs(seconds)
        || count(Counter::RxDrops) < 1000
        || taken < 1000
    {
        assert!(begin.elapsed() < Duration::from_secs(60 + seconds), "{taken} taken");
        for _ in 0..1000 {
            taken += take_all(&c);
        }
        // Other traffic through rings of the same process is intact.
        exchange(&mut a, &b, 200);
        exchanged += 200;
    }
    assert!(enemy.0.try_wait().expect("a child").is_none(), "the enemy has ended by itself");
    drop(enemy);
    let (through, dropped) = (count(Counter::RxMemoryPkts), count(Counter::RxDrops));
    println!(
        "{taken} messages of the enemy, {through} packets through memory, {dropped} dropped; {exchanged} of others"
    );
    assert!(through > 1000, "{through}");
    let untouched = c.bytes(UNTOUCHED.start, UNTOUCHED.len());
    assert!(untouched.iter().all(|byte| *byte == 0xA5), "bytes that nobody may write");
    // A peer that comes later is served.
    let mut later = side_of(QpKind::Srd, config);
    while take_all(&c) > 0 {}
    let ah = later.ah(&c);
    later.fill(0, b"a friend");
    later.send(1, &c, &ah, 0, 8);
    let mut has_come = false;
    let begin = Instant::now();
    while !has_come || later.cq.poll_one().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(20), "nobody comes in any more");
        c.cq.poll(64, |done| {
            let at = done.wr_id as usize * RECEIVE_BYTES;
            has_come |= done.src_qpn == later.qp.qpn() && c.bytes(at, 8) == b"a friend";
        });
    }
}
