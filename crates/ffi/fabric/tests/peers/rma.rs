use fabric::{CompletionKind, Features, PostOptions, RemoteMemory};

use crate::harness::{Setting, Side, pattern};

const MIB: usize = 1 << 20;
/// Sizes at which providers and devices change their ways.
const SIZES: [usize; 8] = [1, 64, 4096, 8929, 65_536, MIB, 4 * MIB + 1, 16 * MIB];
/// Length of the margin around each place that is written.
const MARGIN: usize = 64;

fn setting(test: &'static str) -> Setting {
    Setting { features: Features::RMA, ..Setting::plain(test, 2, 16 * MIB) }
}

/// Returns the `size` bytes between two margins.
fn middle(whole: RemoteMemory, size: usize) -> RemoteMemory {
    whole.part(MARGIN as u64, size as u64).expect("inside the window")
}

#[test]
fn reads_what_is_there() {
    setting("rma::reads_what_is_there").run(
        |side| {
            let whole = side.receive_window();
            let content = pattern(3, 16 * MIB);
            for size in SIZES {
                side.fill(0, &vec![0; size + MARGIN.min(16 * MIB - size)]);
                side.post(|end, peer| end.read(0, peer, middle(whole, size)));
                assert_eq!(side.wait(CompletionKind::Read).slot, 0);
                assert!(side.bytes(0, size) == &content[..size], "{size} bytes differ");
                let rest = &side.end.buffers().payload(0).expect("free")[size..];
                assert!(rest.iter().take(MARGIN).all(|&byte| byte == 0), "read beyond {size}");
            }
            side.barrier();
        },
        |side| {
            let mut window = side.window(16 * MIB + 2 * MARGIN);
            window.write(MARGIN, &pattern(3, 16 * MIB)).expect("inside");
            side.send_bytes(&window.remote().to_bytes());
            side.barrier();
        },
    );
}

/// A write that is complete upon delivery is in the peer's memory when it has completed.
#[test]
fn writes_and_nothing_else() {
    fn check(side: &mut Side, window: &mut fabric::Window, size: usize, seed: u64) {
        let mut found = vec![0; size + 2 * MARGIN];
        window.read(0, &mut found).expect("inside");
        assert!(found[MARGIN..][..size] == pattern(seed, size), "{size} bytes differ");
        let margins = found[..MARGIN].iter().chain(&found[MARGIN + size..]);
        assert!(margins.into_iter().all(|&byte| byte == 0x5a), "written around {size} bytes");
        window.write(0, &vec![0x5a; size + 2 * MARGIN]).expect("inside");
        side.barrier();
    }
    let delivered = |data| PostOptions { data, delivery_complete: true, ..PostOptions::default() };
    setting("rma::writes_and_nothing_else").run(
        |side| {
            let whole = side.receive_window();
            for size in SIZES {
                side.fill(0, &pattern(1, size));
                side.post(|end, peer| {
                    end.write_with(0, peer, middle(whole, size), delivered(None))
                });
                assert_eq!(side.wait(CompletionKind::Write).slot, 0);
                side.barrier();
                side.barrier();
                let data = 0xda7a_0000 + size as u64;
                side.fill(0, &pattern(2, size));
                side.post(|end, peer| {
                    end.write_with(0, peer, middle(whole, size), delivered(Some(data)))
                });
                side.wait(CompletionKind::Write);
                side.barrier();
                // Without any wish; the next meeting is later than its arrival only because a read
                // of the same bytes shows it.
                side.fill(0, &pattern(4, size));
                side.post(|end, peer| end.write(0, peer, middle(whole, size)));
                side.wait(CompletionKind::Write);
                await_bytes(side, middle(whole, size), &pattern(4, size));
                side.barrier();
                side.barrier();
            }
        },
        |side| {
            let mut window = side.window(16 * MIB + 2 * MARGIN);
            window.write(0, &vec![0x5a; 16 * MIB + 2 * MARGIN]).expect("inside");
            side.send_bytes(&window.remote().to_bytes());
            for size in SIZES {
                side.barrier();
                check(side, &mut window, size, 1);
                let done = side.wait(CompletionKind::RemoteWrite);
                let data = Some(0xda7a_0000 + size as u64);
                assert_eq!((done.data, done.slot), (data, fabric::NO_SLOT));
                check(side, &mut window, size, 2);
                side.barrier();
                check(side, &mut window, size, 4);
            }
        },
    );
}

/// Reads a peer's memory until it has these bytes.
fn await_bytes(side: &mut Side, remote: RemoteMemory, wanted: &[u8]) {
    for _ in 0..10_000 {
        side.post(|end, peer| end.read(1, peer, remote));
        side.wait(CompletionKind::Read);
        if side.bytes(1, wanted.len()) == wanted {
            return;
        }
    }
    panic!("{} bytes never arrived", wanted.len());
}
