use fabric::{AtomicOp, AtomicType, CompareOp, CompletionKind, Features, RemoteMemory};

use crate::harness::{Setting, Side};

fn setting(test: &'static str) -> Setting {
    let features = Features::RMA | Features::ATOMICS;
    Setting { features, ..Setting::plain(test, 1, 4096) }
}

/// Offers a window with these elements until the other side has worked on them; then they are as
/// `wanted`.
fn offer(side: &mut Side, elements: &[u8], wanted: &[u8]) {
    let mut window = side.window(elements.len());
    window.write(0, elements).expect("inside");
    side.send_bytes(&window.remote().to_bytes());
    side.barrier();
    let mut found = vec![0; elements.len()];
    window.read(0, &mut found).expect("inside");
    assert_eq!(found, wanted);
    side.barrier();
}

/// Works on the elements that the other side offers.
fn work(side: &mut Side, job: impl FnOnce(&mut Side, RemoteMemory)) {
    let remote = side.receive_window();
    job(side, remote);
    side.barrier();
    side.barrier();
}

fn bytes(elements: &[u64]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_ne_bytes()).collect()
}

/// Results of each operation on 12 with our 10.
const OPS: [(AtomicOp, u64); 11] = [
    (AtomicOp::Min, 10),
    (AtomicOp::Max, 12),
    (AtomicOp::Sum, 22),
    (AtomicOp::Product, 120),
    (AtomicOp::LogicalOr, 1),
    (AtomicOp::LogicalAnd, 1),
    (AtomicOp::LogicalXor, 0),
    (AtomicOp::BitOr, 14),
    (AtomicOp::BitAnd, 8),
    (AtomicOp::BitXor, 6),
    (AtomicOp::Write, 10),
];

#[test]
fn do_what_they_say() {
    let element = AtomicType::U64;
    setting("atomics::do_what_they_say").run(
        |side| {
            for (op, _) in OPS {
                work(side, |side, remote| {
                    assert!(side.end.atomic_count(op, element).is_some(), "{op:?}");
                    side.fill(0, &bytes(&[10, 10, 10]));
                    side.post(|end, peer| end.atomic(0, op, element, peer, remote));
                    side.wait(CompletionKind::Atomic);
                    // Its bytes are in place when a later one on them is done.
                    side.post(|end, peer| {
                        end.fetch_atomic(0, AtomicOp::Read, element, peer, remote)
                    });
                    side.wait(CompletionKind::Atomic);
                });
            }
        },
        |side| {
            for (_, wanted) in OPS {
                offer(side, &bytes(&[12; 3]), &bytes(&[wanted; 3]));
            }
        },
    );
}

#[test]
fn of_every_type() {
    const TYPES: [AtomicType; 10] = [
        AtomicType::I8,
        AtomicType::U8,
        AtomicType::I16,
        AtomicType::U16,
        AtomicType::I32,
        AtomicType::U32,
        AtomicType::I64,
        AtomicType::U64,
        AtomicType::F32,
        AtomicType::F64,
    ];
    /// Returns `value` as an element.
    fn as_bytes(element: AtomicType, value: i8) -> Vec<u8> {
        match element {
            AtomicType::I8 | AtomicType::U8 => value.to_ne_bytes().to_vec(),
            AtomicType::I16 | AtomicType::U16 => i16::from(value).to_ne_bytes().to_vec(),
            AtomicType::I32 | AtomicType::U32 => i32::from(value).to_ne_bytes().to_vec(),
            AtomicType::I64 | AtomicType::U64 => i64::from(value).to_ne_bytes().to_vec(),
            AtomicType::F32 => f32::from(value).to_ne_bytes().to_vec(),
            AtomicType::F64 => f64::from(value).to_ne_bytes().to_vec(),
        }
    }
    setting("atomics::of_every_type").run(
        |side| {
            for element in TYPES {
                work(side, |side, remote| {
                    let size = element.size_bytes();
                    side.fill(0, &as_bytes(element, 30));
                    side.post(|end, peer| {
                        end.fetch_atomic(0, AtomicOp::Sum, element, peer, remote)
                    });
                    side.wait(CompletionKind::Atomic);
                    assert_eq!(side.bytes(0, 2 * size)[size..], as_bytes(element, 70), "before");
                });
            }
        },
        |side| {
            for element in TYPES {
                offer(side, &as_bytes(element, 70), &as_bytes(element, 100));
            }
        },
    );
}

/// Each addition is seen once: the values fetched are all different and none is missing.
#[test]
fn count() {
    const COUNT: u64 = 300;
    let element = AtomicType::U64;
    setting("atomics::count").run(
        |side| {
            work(side, |side, remote| {
                for number in 0..COUNT {
                    side.fill(0, &bytes(&[1]));
                    side.post(|end, peer| {
                        end.fetch_atomic(0, AtomicOp::Sum, element, peer, remote)
                    });
                    side.wait(CompletionKind::Atomic);
                    assert_eq!(side.bytes(0, 16)[8..], number.to_ne_bytes());
                }
            });
        },
        |side| offer(side, &bytes(&[0]), &bytes(&[COUNT])),
    );
}

#[test]
fn swap_where_a_comparison_holds() {
    let element = AtomicType::U64;
    // Compared with 5: the elements are 4, 5 and 6.
    const OPS: [(CompareOp, [u64; 3]); 7] = [
        (CompareOp::Equal, [4, 99, 6]),
        (CompareOp::NotEqual, [99, 5, 99]),
        (CompareOp::LessOrEqual, [4, 99, 99]),
        (CompareOp::Less, [4, 5, 99]),
        (CompareOp::GreaterOrEqual, [99, 99, 6]),
        (CompareOp::Greater, [99, 5, 6]),
        // 99 in the bits of 5, the element's own in the others.
        (CompareOp::Masked, [1, 1, 3]),
    ];
    setting("atomics::swap_where_a_comparison_holds").run(
        |side| {
            for (op, _) in OPS {
                work(side, |side, remote| {
                    assert!(side.end.compare_count(op, element).is_some(), "{op:?}");
                    side.fill(0, &bytes(&[99, 99, 99, 5, 5, 5]));
                    side.post(|end, peer| end.compare_atomic(0, op, element, peer, remote));
                    side.wait(CompletionKind::Atomic);
                    assert_eq!(side.bytes(0, 72)[48..], bytes(&[4, 5, 6]), "{op:?}: before");
                });
            }
        },
        |side| {
            for (_, wanted) in OPS {
                offer(side, &bytes(&[4, 5, 6]), &bytes(&wanted));
            }
        },
    );
}
