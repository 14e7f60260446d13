//! The device list. It is created once per process and lives until the process ends, so that device
//! pointers are always valid, in destructors too.

use std::error::Error;
use std::ffi::{c_char, c_int};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use softefa::seal::SealKey;
use softefa::{Adapter, Config, DeviceSpec, Identity, PerProcess, RoceAttr};

use crate::devnode;
use crate::errno::Errno;
use crate::handle::{self, Handle};
use crate::panic;
use crate::rdmacm;
use crate::sys::{self, ibv_device, verbs_device};
use crate::sysfs;

/// A device of the list, open or not.
#[repr(C)]
pub(crate) struct Device {
    verbs: verbs_device,
    spec: DeviceSpec,
    config: Arc<Config>,
    opened: PerProcess<Mutex<Opened>>,
}

/// The adapter while it is in use, and the number of contexts that have it open.
#[derive(Default)]
struct Opened {
    adapter: Weak<softefa::Device>,
    contexts: usize,
}

// SAFETY: `verbs` is the first member of a `repr(C)` structure and starts with `ibv_device`. It is
// not in an `UnsafeCell`, but programs only read it.
unsafe impl Handle for Device {
    type C = ibv_device;
}

impl Device {
    fn new(index: usize, spec: &DeviceSpec, config: &Arc<Config>, sysfs_root: &Path) -> Self {
        let class = sysfs_root.join("class");
        let uverbs = format!("uverbs{index}");
        // SAFETY: null function pointers and zero bytes are valid in every member.
        let mut verbs: verbs_device = unsafe { std::mem::zeroed() };
        let device = &mut verbs.device;
        (device.node_type, device.transport_type) = match config.adapter_of(spec) {
            Adapter::Efa => (sys::IBV_NODE_UNSPECIFIED, sys::IBV_TRANSPORT_UNSPECIFIED),
            Adapter::Roce => (sys::IBV_NODE_CA, sys::IBV_TRANSPORT_IB),
        };
        fill(&mut device.name, spec.name.as_bytes());
        fill(&mut device.dev_name, uverbs.as_bytes());
        let dev_path = class.join("infiniband_verbs").join(&uverbs);
        fill(&mut device.dev_path, dev_path.as_os_str().as_bytes());
        let ibdev_path = class.join("infiniband").join(&spec.name);
        fill(&mut device.ibdev_path, ibdev_path.as_os_str().as_bytes());
        Self { verbs, spec: spec.clone(), config: Arc::clone(config), opened: PerProcess::new() }
    }

    /// Opens the adapter; contexts of one process share it, as they share hardware.
    pub(crate) fn open(&self) -> Result<Arc<softefa::Device>, Errno> {
        let mut opened = self.opened();
        let adapter = match opened.adapter.upgrade() {
            Some(adapter) => adapter,
            None => self.open_anew()?,
        };
        *opened = Opened { adapter: Arc::downgrade(&adapter), contexts: opened.contexts + 1 };
        Ok(adapter)
    }

    /// Returns the adapter while the program has it open.
    pub(crate) fn adapter(&self) -> Option<Arc<softefa::Device>> {
        self.opened().adapter.upgrade()
    }

    /// Closes a context of `adapter` that belongs to this process.
    pub(crate) fn close(&self, adapter: &Arc<softefa::Device>) {
        let mut opened = self.opened();
        opened.contexts -= 1;
        if opened.contexts == 0 {
            drop(opened);
            adapter.close();
        }
    }

    fn opened(&self) -> MutexGuard<'static, Opened> {
        let opened = self.opened.get_or_init(Mutex::default);
        opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_anew(&self) -> Result<Arc<softefa::Device>, Errno> {
        softefa::Device::open(&self.spec, &self.config).map_err(|error| {
            let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
            softefa::say(&format!("softefa: {error}{cause}"));
            Errno::from(error)
        })
    }

    pub(crate) fn addr(&self) -> IpAddr {
        self.spec.addr
    }

    /// Returns the UDP port of the network, if it is behind a gateway.
    pub(crate) fn gateway(&self) -> Option<u16> {
        self.spec.port.gateway
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the sealing key, which all devices of the process share.
    pub(crate) fn key(&self) -> Option<&SealKey> {
        self.config.key.as_ref()
    }

    /// Returns its limits if it is a RoCE device at an address of this machine.
    pub(crate) fn roce_attr(&self) -> Option<RoceAttr> {
        softefa::roce_attr(&self.spec, &self.config)
    }

    /// Returns the GUID, which distinguishes devices without opening them.
    pub(crate) fn guid(&self) -> [u8; 8] {
        Identity::of(&self.config, &self.spec).node_guid
    }
}

/// Copies as much as fits, with a terminating zero.
fn fill(field: &mut [c_char], bytes: &[u8]) {
    let room = field.len() - 1;
    for (to, from) in field[..room].iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
}

/// Returns the devices of this process, from its environment; `None` when that is invalid.
pub(crate) fn devices() -> Option<&'static [Device]> {
    static DEVICES: PerProcess<Option<Vec<Device>>> = PerProcess::new();
    // A child has the list of its parent, so that device pointers stay good there.
    let devices = DEVICES.inherit_or_init(|| {
        let config = Config::from_env();
        let config = config.map_err(|error| softefa::say(&format!("softefa: {error}"))).ok()?;
        let config = Arc::new(config);
        let root = sysfs::prepare(&config);
        let specs = config.devices.iter().enumerate();
        let devices: Vec<_> =
            specs.map(|(index, spec)| Device::new(index, spec, &config, &root)).collect();
        devnode::publish(devices.len());
        let is_roce = |device| config.adapter_of(device) == Adapter::Roce;
        rdmacm::publish(config.devices.iter().any(is_roce));
        Some(devices)
    });
    devices.as_deref()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    panic::pointer(|| {
        let devices = devices().ok_or(Errno::EINVAL);
        if !num_devices.is_null() {
            let count = devices.map_or(0, <[Device]>::len);
            // SAFETY: not null, so the program wants the number there.
            unsafe { num_devices.write(c_int::try_from(count).unwrap_or(c_int::MAX)) };
        }
        let mut list: Vec<*mut ibv_device> = devices?.iter().map(handle::c_of).collect();
        list.push(ptr::null_mut());
        // The C allocator, because the length is not known when the list is freed.
        // SAFETY: `calloc` has no precondition; the result is checked.
        let copy = unsafe { libc::calloc(list.len(), size_of::<*mut ibv_device>()) };
        let copy = copy.cast::<*mut ibv_device>();
        if copy.is_null() {
            return Err(Errno::ENOMEM);
        }
        // SAFETY: the new block holds as many pointers and does not overlap the vector.
        unsafe { copy.copy_from_nonoverlapping(list.as_ptr(), list.len()) };
        Ok(copy)
    })
}

/// Frees only the array: the devices in it stay.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: the program passes null or an array that `ibv_get_device_list` allocated.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return ptr::null();
    }
    // SAFETY: not null, so a device of the list; those are never freed.
    unsafe { (&raw const (*device).name).cast() }
}

/// Not known without netlink, which answers -1 on older kernels too.
#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_index(_device: *mut ibv_device) -> c_int {
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    panic::value(0, || {
        // SAFETY: the program passes a device of the list; those are never freed.
        let device = unsafe { handle::borrow::<Device>(device) };
        device.map_or(0, |device| u64::from_ne_bytes(device.guid()))
    })
}
