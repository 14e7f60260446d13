//! What of the address space the kernel would pin, from `/proc/self/maps`.

mod query;

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::descriptor::with_descriptor;

/// The text is read in pieces of this size; the kernel gives a page at a time.
const BUFFER_BYTES: usize = 16 << 10;

/// The first address of a range that cannot be used as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) addr: u64,
    pub(crate) why: &'static str,
}

/// A stretch of address space with one access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    is_readable: bool,
    is_writable: bool,
}

/// Whether `len` bytes at `addr` may be read, and written if `is_written`. Touches none of them.
/// Without a `/proc` nothing is known, and nothing refused.
pub(crate) fn check(addr: u64, len: u64, is_written: bool) -> Result<(), Hole> {
    // Other threads may map and unmap between two looks, so a hole is looked at twice.
    match find_unmapped(addr, len, is_written).and_then(|_| find_unmapped(addr, len, is_written)) {
        None => Ok(()),
        Some(hole) => Err(hole),
    }
}

fn find_unmapped(addr: u64, len: u64, is_written: bool) -> Option<Hole> {
    let file = with_descriptor(|| File::open("/proc/self/maps")).ok()?;
    let asked = AskedRange { addr, len, is_written };
    // Reading the text takes 0.1 ms and more; kernels before 6.11 offer nothing else.
    match find_hole(asked, |at| query::covering(&file, at)) {
        Ok(hole) => hole,
        Err(Unknown) => {
            let mut maps = BufReader::with_capacity(BUFFER_BYTES, file);
            find_hole(asked, |at| next_of(&mut maps, at)).unwrap_or(None)
        }
    }
}

/// The kernel does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unknown;

/// A range, and whether it is to be written.
#[derive(Debug, Clone, Copy)]
struct AskedRange {
    addr: u64,
    len: u64,
    is_written: bool,
}

/// Walks a range over the mappings that `covering` finds: the one at an
/// address, or any that does not cover it when there is none. Addresses only grow.
fn find_hole(
    asked: AskedRange,
    mut covering: impl FnMut(u64) -> Result<Option<Mapping>, Unknown>,
) -> Result<Option<Hole>, Unknown> {
    let (mut at, end) = (asked.addr, asked.addr.saturating_add(asked.len));
    while at < end {
        let mapping = covering(at)?.filter(|mapping| (mapping.start..mapping.end).contains(&at));
        let why = match mapping {
            None => Some("not mapped"),
            Some(mapping) if !mapping.is_readable => Some("not readable"),
            Some(mapping) if asked.is_written && !mapping.is_writable => Some("read-only"),
            Some(mapping) => {
                at = mapping.end;
                None
            }
        };
        if let Some(why) = why {
            return Ok(Some(Hole { addr: at, why }));
        }
    }
    Ok(None)
}

/// The first mapping that ends behind `at` in a text as `proc_pid_maps(5)` describes, which is
/// sorted.
fn next_of(maps: &mut impl BufRead, at: u64) -> Result<Option<Mapping>, Unknown> {
    let mut line = Vec::with_capacity(256);
    while maps.read_until(b'\n', &mut line).map_err(|_| Unknown)? > 0 {
        let mapping = parse(&line).ok_or(Unknown)?;
        if mapping.end > at {
            return Ok(Some(mapping));
        }
        line.clear();
    }
    Ok(None)
}

/// A line of that text; `None` for text of another kind.
fn parse(line: &[u8]) -> Option<Mapping> {
    // Two addresses of at most 16 digits and the access; a name may have any bytes, but comes last.
    let text = std::str::from_utf8(&line[..line.len().min(38)]).ok()?;
    let (range, access) = text.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let (is_readable, is_writable) = (access.starts_with('r'), access.get(1..2)? == "w");
    Some(Mapping { start: hex(start)?, end: hex(end)?, is_readable, is_writable })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "1000-3000 rw-p 00000000 00:00 0\n\
                        3000-4000 r--p 00000000 08:01 42 /lib/a file\n\
                        4000-5000 ---p 00000000 00:00 0\n\
                        8000-9000 rw-s 00000000 00:00 0\n\
                        ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

    fn hole(addr: u64, len: u64, is_written: bool) -> Option<(u64, &'static str)> {
        let mut maps = MAPS.as_bytes();
        let asked = AskedRange { addr, len, is_written };
        let hole = find_hole(asked, |at| next_of(&mut maps, at)).unwrap();
        hole.map(|hole| (hole.addr, hole.why))
    }

    #[test]
    fn ranges_may_cross_mappings_and_end_at_holes() {
        assert_eq!(hole(0x1000, 0x2000, true), None);
        assert_eq!(hole(0x1fff, 0x2001, false), None);
        assert_eq!(hole(0x1fff, 0x2001, true), Some((0x3000, "read-only")));
        assert_eq!(hole(0x3fff, 2, false), Some((0x4000, "not readable")));
        assert_eq!(hole(0x10, 0x1000, false), Some((0x10, "not mapped")));
        assert_eq!(hole(0x5000, 1, false), Some((0x5000, "not mapped")));
        assert_eq!(hole(0x8000, 0x1001, true), Some((0x9000, "not mapped")));
        assert_eq!(hole(u64::MAX - 1, 1, false), Some((u64::MAX - 1, "not mapped")));
    }

    #[test]
    fn both_ways_to_ask_agree() {
        let file = File::open("/proc/self/maps").unwrap();
        let mut maps = BufReader::new(File::open("/proc/self/maps").unwrap());
        let bytes = [0u8; 8];
        for at in [MAPS.as_ptr() as usize as u64, bytes.as_ptr() as usize as u64] {
            let Ok(queried) = query::covering(&file, at) else { return };
            let read = next_of(&mut maps, at).unwrap();
            assert_eq!(queried.map(|m| m.is_writable), read.map(|m| m.is_writable));
            assert!(queried.is_some_and(|m| m.is_readable && (m.start..m.end).contains(&at)));
        }
        assert_eq!(query::covering(&file, 4096), Ok(None));
    }

    #[test]
    fn text_of_another_kind_says_nothing() {
        let asked = AskedRange { addr: 1, len: 1, is_written: false };
        let ask = |mut text: &[u8]| find_hole(asked, |at| next_of(&mut text, at));
        assert_eq!(ask(b"# maps\n"), Err(Unknown));
        assert_eq!(ask(b"1-2\n"), Err(Unknown));
        assert_eq!(ask(b"1-2 r"), Err(Unknown));
    }

    #[test]
    fn memory_of_this_process_is_there() {
        let mut bytes = vec![0u8; 1 << 20];
        let addr = bytes.as_mut_ptr() as usize as u64;
        assert_eq!(check(addr, 1 << 20, true), Ok(()));
        assert!(check(4096, 1, false).is_err());
        assert!(check(MAPS.as_ptr() as usize as u64, MAPS.len() as u64, false).is_ok());
        assert!(check(MAPS.as_ptr() as usize as u64, MAPS.len() as u64, true).is_err());
    }
}
