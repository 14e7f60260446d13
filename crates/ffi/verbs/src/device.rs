//! Devices: finding, opening, asking.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::rc::Rc;

use verbs_abi::*;

use crate::error::{Error, check};
use crate::gid;
use crate::library::Functions;
use crate::prepare::Transport;
use crate::sys;

/// Number of the only port that any of these programs use.
pub(crate) const PORT: u8 = 1;

/// The facts that a device states of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name of the device.
    pub device: String,
    /// Longest message of a port in bytes; see [`Facts::longest_bytes`].
    pub max_message_bytes: usize,
    /// MTU of the link in bytes.
    pub mtu_bytes: usize,
    /// Maximum number of operations that one queue may hold.
    pub max_depth: usize,
    /// Maximum number of entries that one completion queue may hold.
    pub max_completions: usize,
    /// Maximum number of READs and atomics that a connection may have in flight at its target.
    pub max_connection_reads: usize,
    /// Whether connections do atomics on 8 bytes.
    pub has_atomics: bool,
    /// Longest READ or WRITE in bytes; 0 where the device has none. Known for EFA devices only,
    /// `None` elsewhere.
    pub max_rdma_bytes: Option<usize>,
    /// PCI id of the vendor.
    pub vendor_id: u32,
    /// PCI id of the part, among those of the vendor.
    pub part_id: u32,
}

impl Facts {
    /// Returns the longest message of a queue pair of that kind in bytes: of a SEND, or of a READ
    /// or WRITE where it `has_rdma`.
    #[must_use]
    pub const fn longest_bytes(&self, transport: Transport, has_rdma: bool) -> usize {
        match (transport, self.max_rdma_bytes) {
            (Transport::Srd, Some(max_rdma_bytes)) if has_rdma => max_rdma_bytes,
            // Only EFA says so; elsewhere the limit of a port is that of connections, and a
            // datagram is one packet.
            (Transport::Ud, None) if self.mtu_bytes > 0 => self.mtu_bytes,
            _ => self.max_message_bytes,
        }
    }
}

/// An open device; cheap to clone.
#[derive(Clone)]
pub(crate) struct Device(Rc<Inner>);

struct Inner {
    context: NonNull<ibv_context>,
    facts: Facts,
    port: ibv_port_attr,
    gid: ibv_gid,
    gid_index: u8,
    inline_bytes: Option<u32>,
}

/// The list of devices, released on drop.
struct List {
    start: Option<NonNull<*mut ibv_device>>,
    count: usize,
}

impl List {
    /// Gets the list. Opens the libraries, since nothing of them is called before.
    fn get() -> Result<Self, Error> {
        sys::Verbs::open()?;
        // Devices of other kinds do without it; whoever needs it is told.
        let _ = sys::Efa::open();
        // Older libraries do not have it: then there is no choice among GIDs.
        let _ = sys::GidTable::open();
        let mut count = 0;
        // SAFETY: the count can be written.
        let start = unsafe { sys::ibv_get_device_list(&raw mut count) };
        let Some(start) = NonNull::new(start) else {
            let error = std::io::Error::last_os_error();
            return match error.raw_os_error() {
                // A kernel that knows nothing of RDMA.
                Some(libc::ENOSYS) => Ok(Self { start: None, count: 0 }),
                _ => Err(Error::last("ibv_get_device_list")),
            };
        };
        Ok(Self { start: Some(start), count: usize::try_from(count).unwrap_or(0) })
    }

    /// Returns the devices with their names.
    fn devices(&self) -> Vec<(*mut ibv_device, String)> {
        let Some(start) = self.start else { return Vec::new() };
        let one = |index| {
            // SAFETY: the list has `count` entries.
            let device = unsafe { *start.as_ptr().add(index) };
            // SAFETY: a device of a list that is alive has a name.
            let name = unsafe { CStr::from_ptr(sys::ibv_get_device_name(device)) };
            (device, name.to_string_lossy().into_owned())
        };
        (0..self.count).map(one).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: from ibv_get_device_list, released once; open devices keep what they need.
            unsafe { sys::ibv_free_device_list(start.as_ptr()) }
        }
    }
}

impl Device {
    /// Opens the device of that name, or the first.
    pub(crate) fn open(wanted: Option<&str>) -> Result<Self, Error> {
        let list = List::get()?;
        let devices = list.devices();
        let found = devices.iter().find(|(_, name)| wanted.is_none_or(|w| w == name));
        let Some((device, name)) = found else {
            let names: Vec<&str> = devices.iter().map(|(_, name)| name.as_str()).collect();
            return Err(Error::NoDevice {
                wanted: wanted.map_or_else(String::new, |w| format!(" named {w}")),
                found: if names.is_empty() {
                    "is none".to_owned()
                } else {
                    format!("are {}", names.join(", "))
                },
            });
        };
        // SAFETY: a device of a list that is alive.
        let context = unsafe { sys::ibv_open_device(*device) };
        let context = NonNull::new(context).ok_or_else(|| Error::last("ibv_open_device"))?;
        Ok(Self(Rc::new(Inner::ask(context, name.clone())?)))
    }

    pub(crate) fn context(&self) -> *mut ibv_context {
        self.0.context.as_ptr()
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.0.facts
    }

    pub(crate) fn port(&self) -> &ibv_port_attr {
        &self.0.port
    }

    pub(crate) fn gid(&self) -> ibv_gid {
        self.0.gid
    }

    /// Returns the index of the GID to use in the port's table.
    pub(crate) fn gid_index(&self) -> u8 {
        self.0.gid_index
    }

    /// Returns the bytes that the device takes inline, where it tells.
    pub(crate) fn inline_bytes(&self) -> Option<u32> {
        self.0.inline_bytes
    }
}

impl Inner {
    /// Queries an open device, and closes it when something cannot be learned.
    fn ask(context: NonNull<ibv_context>, name: String) -> Result<Self, Error> {
        let raw = context.as_ptr();
        // SAFETY: all-zero is a value of each of these plain C structures.
        let (mut attr, mut port, mut gid, mut efa): (
            ibv_device_attr,
            ibv_port_attr,
            ibv_gid,
            efadv_device_attr,
        ) = unsafe { (zeroed(), zeroed(), zeroed(), zeroed()) };
        let efa_len = size_of::<efadv_device_attr>() as u32;
        // SAFETY: the device is open, the structures can be written.
        let (asked, is_efa) = unsafe {
            let asked = check("ibv_query_device", sys::ibv_query_device(raw, &raw mut attr))
                .and_then(|()| check("ibv_query_port", sys::query_port(raw, PORT, &raw mut port)));
            (asked, sys::efadv_query_device(raw, &raw mut efa, efa_len) == 0)
        };
        // An EFA has one GID.
        let is_choice = asked.is_ok() && !is_efa;
        let gid_index = if is_choice { gid::index(raw, attr.phys_port_cnt, &port) } else { 0 };
        let asked = asked.and_then(|()| {
            let index = c_int::from(gid_index);
            // SAFETY: as above.
            check("ibv_query_gid", unsafe { sys::ibv_query_gid(raw, PORT, index, &raw mut gid) })
        });
        let facts = Facts {
            device: name,
            max_message_bytes: port.max_msg_sz as usize,
            mtu_bytes: mtu_bytes(port.active_mtu),
            max_depth: usize::try_from(attr.max_qp_wr).unwrap_or(0),
            max_completions: usize::try_from(attr.max_cqe).unwrap_or(0),
            max_connection_reads: usize::try_from(attr.max_qp_rd_atom).unwrap_or(0),
            has_atomics: attr.atomic_cap != IBV_ATOMIC_NONE,
            max_rdma_bytes: is_efa.then_some(efa.max_rdma_size as usize),
            vendor_id: attr.vendor_id,
            part_id: attr.vendor_part_id,
        };
        let inline_bytes = is_efa.then(|| u32::from(efa.inline_buf_size));
        let this = Self { context, facts, port, gid, gid_index, inline_bytes };
        asked.map(|()| this)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; everything made of it holds a clone of the device.
        unsafe { sys::ibv_close_device(self.context.as_ptr()) };
    }
}

/// # Safety
/// All-zero must be a value of the type.
unsafe fn zeroed<T>() -> T {
    // SAFETY: promised by the caller.
    unsafe { std::mem::zeroed() }
}

/// Returns the bytes of an `ibv_mtu`.
const fn mtu_bytes(mtu: c_int) -> usize {
    match mtu {
        IBV_MTU_256..=IBV_MTU_4096 => 128 << mtu,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_message_is_that_of_the_kind_of_queue_pair() {
        let efa = Facts {
            device: "efa".to_owned(),
            max_message_bytes: 8760,
            mtu_bytes: 4096,
            max_depth: 4096,
            max_completions: 32768,
            max_connection_reads: 0,
            has_atomics: false,
            max_rdma_bytes: Some(1 << 30),
            vendor_id: 0x1d0f,
            part_id: 0xefa1,
        };
        assert_eq!(efa.longest_bytes(Transport::Srd, false), 8760);
        assert_eq!(efa.longest_bytes(Transport::Srd, true), 1 << 30);
        assert_eq!(efa.longest_bytes(Transport::Ud, false), 8760);
        let other = Facts { max_rdma_bytes: None, max_message_bytes: 1 << 30, ..efa };
        assert_eq!(other.longest_bytes(Transport::Ud, false), 4096);
        assert_eq!(other.longest_bytes(Transport::Rc, true), 1 << 30);
    }

    #[test]
    fn mtus_are_powers_of_two() {
        assert_eq!((mtu_bytes(IBV_MTU_256), mtu_bytes(IBV_MTU_4096)), (256, 4096));
        assert_eq!((mtu_bytes(0), mtu_bytes(6)), (0, 0));
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = Device::open(Some("no-such-device")).err().expect("an error").to_string();
        assert!(error.contains("named no-such-device"), "{error}");
    }
}
