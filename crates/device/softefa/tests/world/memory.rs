//! Memory in slots with guards between them, registered in any way.

use std::sync::Arc;

use softefa::{Access, Mr, Pd, Sge};

use super::{RegionSpan, pick_of};

const SLOTS: usize = 8;
const SLOT_BYTES: usize = 64 << 10;
/// Length of the unregistered bytes in front of and behind those of a slot.
const GUARD_BYTES: usize = 8 << 10;
const OPEN_BYTES: usize = SLOT_BYTES - 2 * GUARD_BYTES;
const FILL: u8 = 0x5a;

struct Region {
    mr: Arc<Mr>,
    pd: Arc<Pd>,
    slot: usize,
    is_live: bool,
}

pub(super) struct Memory {
    /// The bytes, which are only read here; the adapter writes to them.
    bytes: Box<[u8]>,
    regions: Vec<Region>,
    /// The contents of a slot when its last registration ended.
    frozen: [Option<Vec<u8>>; SLOTS],
}

impl Memory {
    /// Makes memory with one region per domain that permits everything.
    pub(super) fn new(pds: &[Arc<Pd>]) -> Self {
        let bytes = vec![FILL; SLOTS * SLOT_BYTES].into_boxed_slice();
        let mut memory = Self { bytes, regions: Vec::new(), frozen: Default::default() };
        memory.frozen = std::array::from_fn(|slot| Some(memory.open(slot).to_vec()));
        pds.iter().enumerate().for_each(|(slot, pd)| memory.register(pd, slot as u8, 7));
        memory
    }

    fn open(&self, slot: usize) -> &[u8] {
        &self.bytes[slot * SLOT_BYTES + GUARD_BYTES..][..OPEN_BYTES]
    }

    pub(super) fn register(&mut self, pd: &Arc<Pd>, slot: u8, rights: u8) {
        let slot = usize::from(slot) % SLOTS;
        let access = Access {
            local_write: rights & 1 != 0,
            remote_read: rights & 2 != 0,
            remote_write: rights & 4 != 0,
            ..Access::default()
        };
        let (addr, len) = (self.open(slot).as_ptr() as u64, OPEN_BYTES as u64);
        match pd.reg_mr(addr, len, access) {
            Ok(mr) => {
                self.thaw(slot);
                self.regions.push(Region { mr, pd: Arc::clone(pd), slot, is_live: true });
            }
            Err(error) => {
                assert!(access.remote_write && !access.local_write, "{access:?}: {error}");
            }
        }
    }

    pub(super) fn deregister(&mut self, region: u8) {
        let count = self.regions.len();
        let region = &mut self.regions[usize::from(region) % count];
        region.mr.deregister();
        region.is_live = false;
        let slot = region.slot;
        if self.frozen[slot].is_none() && !self.is_registered(slot) {
            self.frozen[slot] = Some(self.open(slot).to_vec());
        }
    }

    fn is_registered(&self, slot: usize) -> bool {
        self.regions.iter().any(|region| region.is_live && region.slot == slot)
    }

    /// Checks that bytes that are not registered have not changed.
    fn thaw(&mut self, slot: usize) {
        if let Some(before) = self.frozen[slot].take() {
            assert!(self.open(slot) == before, "slot {slot} changed while it was not registered");
        }
    }

    /// Returns address and key, mostly of a region of `pd`.
    pub(super) fn address(&self, pd: &Arc<Pd>, place: RegionSpan) -> (u64, u32) {
        let fits = |region: &Region| region.is_live && Arc::ptr_eq(&region.pd, pd);
        let region = pick_of(&self.regions, place.region, fits);
        (region.mr.addr().wrapping_add(u64::from(place.at)), region.mr.rkey() ^ place.wrong_key)
    }

    pub(super) fn sge(&self, pd: &Arc<Pd>, place: RegionSpan) -> Sge {
        let (addr, lkey) = self.address(pd, place);
        Sge { addr, len: place.len, lkey }
    }

    /// Returns a place where queue pairs of `pd` may receive.
    pub(super) fn whole_of(&mut self, pd: &Arc<Pd>) -> RegionSpan {
        let fits = |region: &Region| region.is_live && Arc::ptr_eq(&region.pd, pd);
        if !self.regions.iter().any(fits) {
            self.register(pd, 0, 7);
        }
        RegionSpan { region: 0, at: 0, len: 8_968, wrong_key: 0 }
    }

    /// Checks that no byte has changed that was not registered.
    pub(super) fn check(&mut self) {
        (0..SLOTS).for_each(|slot| self.thaw(slot));
        for slot in 0..SLOTS {
            let all = &self.bytes[slot * SLOT_BYTES..][..SLOT_BYTES];
            let (front, back) = (&all[..GUARD_BYTES], &all[SLOT_BYTES - GUARD_BYTES..]);
            let is_whole = front.iter().chain(back).all(|byte| *byte == FILL);
            assert!(is_whole, "the guards of slot {slot} were written");
        }
    }
}
