//! One fabric that `fi_getinfo` found.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use fabric_sys::{self as sys, fi_info};

use crate::error::Error;
use crate::hints::{Hints, RawHints, c_text};

/// Providers whose addresses are IP addresses, so that a source address means something to them.
const IP_PROVIDERS: [&str; 5] = ["tcp", "udp", "sockets", "net", "verbs"];

/// Provider and name of the fabric that hands messages to the efa device as they are: it has no
/// tags, no order and nothing longer than a packet. From libfabric 2.1 on it is found before the
/// provider's own, which has them.
const DIRECT: (&str, &str) = ("efa", "efa-direct");

/// Lock that allows one search at a time. Providers write state of the whole process in it: two
/// crashes in fi_getinfo of libfabric 1.17 were seen, both where threads opened the efa provider at
/// once.
static SEARCH: Mutex<()> = Mutex::new(());

/// Properties of one fabric, as the provider offers them for the hints given.
#[derive(Debug)]
pub struct Info(NonNull<fi_info>);

impl Info {
    /// Searches for fabrics; the best is first.
    ///
    /// # Errors
    /// Returns [`Error::NoLibrary`] where there is none, [`Error::ZeroByte`] for a name or address
    /// with one, [`Error::NoProvider`] when nothing fits; [`Error::Call`] when the search itself
    /// failed.
    pub fn find(hints: &Hints) -> Result<Vec<Self>, Error> {
        let speaks_ip = hints
            .provider
            .as_deref()
            .is_some_and(|name| IP_PROVIDERS.contains(&name.split(';').next().unwrap_or_default()));
        if let Some(source) = hints.source.as_deref().filter(|_| speaks_ip) {
            match Self::search(hints, Some(source)) {
                Err(Error::NoProvider { .. }) => {}
                found => return found,
            }
        }
        Self::search(hints, None)
    }

    /// Searches for fabrics, and returns the one that programs expect by the provider's name.
    pub(crate) fn find_usual(hints: &Hints) -> Result<Self, Error> {
        let mut found = Self::find(hints)?;
        let names: Vec<_> =
            found.iter().map(|info| (info.provider(), info.fabric_name())).collect();
        let index = choose(&names);
        let index = index.ok_or_else(|| Error::NoProvider { wanted: hints.in_words() })?;
        Ok(found.swap_remove(index))
    }

    fn search(hints: &Hints, source: Option<&str>) -> Result<Vec<Self>, Error> {
        let raw_hints = RawHints::new(hints)?;
        let node = c_text("source address", source)?;
        let node_ptr = node.as_ref().map_or(std::ptr::null(), |n| n.as_ptr());
        let flags = if source.is_some() { sys::FI_SOURCE | sys::FI_NUMERICHOST } else { 0 };
        let mut list: *mut fi_info = std::ptr::null_mut();
        let _alone = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the strings and hints outlive the call; the result is stored in `list`.
        let ret = unsafe {
            sys::fi_getinfo(
                sys::fi_make_version(1, 17),
                node_ptr,
                std::ptr::null(),
                flags,
                raw_hints.raw(),
                &raw mut list,
            )
        };
        if ret == -sys::FI_ENODATA {
            return Err(Error::NoProvider { wanted: hints.in_words() });
        }
        if ret != 0 {
            return Err(Error::call("fi_getinfo", ret as isize));
        }
        let mut found = Vec::new();
        let mut next = list;
        while !next.is_null() {
            // SAFETY: `next` walks the list that fi_getinfo made; fi_dupinfo copies one entry.
            let copy = unsafe { sys::fi_dupinfo(next) };
            found.extend(NonNull::new(copy).map(Self));
            // SAFETY: as above.
            next = unsafe { (*next).next };
        }
        // SAFETY: the list is ours and the copies do not point into it.
        unsafe { sys::fi_freeinfo(list) };
        Ok(found)
    }

    pub(crate) const fn raw(&self) -> *mut fi_info {
        self.0.as_ptr()
    }

    const fn get(&self) -> &fi_info {
        // SAFETY: owned by self, never changed after fi_dupinfo.
        unsafe { self.0.as_ref() }
    }

    /// Returns the full provider name, for example "tcp;ofi_rxm".
    #[must_use]
    pub fn provider(&self) -> String {
        // SAFETY: fi_getinfo fills fabric_attr; its names are null or C strings.
        unsafe { text((*self.get().fabric_attr).prov_name) }
    }

    /// Returns the name of the fabric.
    #[must_use]
    pub fn fabric_name(&self) -> String {
        // SAFETY: as in `provider`.
        unsafe { text((*self.get().fabric_attr).name) }
    }

    /// Returns the name of the domain (the device).
    #[must_use]
    pub fn domain_name(&self) -> String {
        // SAFETY: fi_getinfo fills domain_attr; its name is null or a C string.
        unsafe { text((*self.get().domain_attr).name) }
    }

    /// Returns the device's MTU in bytes, if the provider reports it.
    #[must_use]
    pub fn mtu_bytes(&self) -> Option<usize> {
        // SAFETY: nic and link_attr are null or valid for the life of the entry.
        unsafe { self.get().nic.as_ref()?.link_attr.as_ref().map(|link| link.mtu) }
    }

    /// Returns the length of the longest message in bytes, without any prefix.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        // SAFETY: fi_getinfo fills ep_attr.
        let max = unsafe { (*self.get().ep_attr).max_msg_size };
        max.saturating_sub(if self.get().mode & sys::FI_MSG_PREFIX != 0 {
            self.prefix_bytes()
        } else {
            0
        })
    }

    /// Returns the bytes in front of each message that belong to the provider (`FI_MSG_PREFIX`),
    /// else 0.
    #[must_use]
    pub fn prefix_bytes(&self) -> usize {
        if self.get().mode & sys::FI_MSG_PREFIX == 0 {
            return 0;
        }
        // SAFETY: fi_getinfo fills ep_attr.
        unsafe { (*self.get().ep_attr).msg_prefix_size }
    }

    /// Returns the length of the longest message that can be injected, in bytes.
    #[must_use]
    pub fn inject_bytes(&self) -> usize {
        // SAFETY: fi_getinfo fills tx_attr.
        unsafe { (*self.get().tx_attr).inject_size }.saturating_sub(self.prefix_bytes())
    }

    /// Returns the number of sends that may be outstanding.
    #[must_use]
    pub fn tx_depth(&self) -> usize {
        // SAFETY: fi_getinfo fills tx_attr.
        unsafe { (*self.get().tx_attr).size }
    }

    /// Returns the number of receives that may be outstanding.
    #[must_use]
    pub fn rx_depth(&self) -> usize {
        // SAFETY: fi_getinfo fills rx_attr.
        unsafe { (*self.get().rx_attr).size }
    }

    /// Returns whether buffers must be registered (`FI_MR_LOCAL`).
    #[must_use]
    pub fn needs_registration(&self) -> bool {
        // SAFETY: fi_getinfo fills domain_attr.
        unsafe { (*self.get().domain_attr).mr_mode & sys::FI_MR_LOCAL != 0 }
    }

    /// Returns whether remote memory is named by its address (`FI_MR_VIRT_ADDR`), else by its
    /// offset.
    #[must_use]
    pub fn needs_virtual_addresses(&self) -> bool {
        // SAFETY: fi_getinfo fills domain_attr.
        unsafe { (*self.get().domain_attr).mr_mode & sys::FI_MR_VIRT_ADDR != 0 }
    }

    /// Returns whether operations in flight need contexts of their own (`FI_CONTEXT`,
    /// `FI_CONTEXT2`).
    pub(crate) fn needs_contexts(&self) -> bool {
        self.get().mode & (sys::FI_CONTEXT | sys::FI_CONTEXT2) != 0
    }

    /// Returns the mode bits that this wrapper does not know and therefore cannot honour.
    pub(crate) fn unknown_mode(&self) -> u64 {
        self.get().mode & !(sys::FI_CONTEXT | sys::FI_CONTEXT2 | sys::FI_MSG_PREFIX)
    }

    /// Returns the text that `fi_info -v` prints.
    #[must_use]
    pub fn describe(&self) -> String {
        const SPACE: usize = 16 * 1024;
        let mut space = vec![0_u8; SPACE];
        // SAFETY: `space` has SPACE bytes, the entry is alive; the text is cut to fit with a
        // closing zero (fi_tostr(3)).
        unsafe {
            sys::fi_tostr_r(
                space.as_mut_ptr().cast(),
                SPACE,
                self.raw().cast_const().cast(),
                sys::FI_TYPE_INFO,
            );
        }
        CStr::from_bytes_until_nul(&space)
            .map(|t| t.to_string_lossy().into_owned())
            .unwrap_or_default()
    }
}

/// Chooses among fabrics by provider and name: the first that is not [`DIRECT`], or the first where
/// there is no other, as when that was asked for; `None` when there is none at all.
fn choose<T: AsRef<str>>(fabrics: &[(T, T)]) -> Option<usize> {
    let is_usual = |(provider, name): &(T, T)| (provider.as_ref(), name.as_ref()) != DIRECT;
    fabrics.iter().position(is_usual).or_else(|| (!fabrics.is_empty()).then_some(0))
}

impl Clone for Info {
    fn clone(&self) -> Self {
        // SAFETY: the entry is alive.
        let copy = unsafe { sys::fi_dupinfo(self.raw()) };
        Self(NonNull::new(copy).unwrap_or_else(|| {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<fi_info>())
        }))
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made by fi_dupinfo, released once.
        unsafe { sys::fi_freeinfo(self.raw()) }
    }
}

/// Returns a C string as text; "" for null.
///
/// # Safety
/// `raw` is null or a valid C string.
unsafe fn text(raw: *const c_char) -> String {
    if raw.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The option `-p efa` once measured it without a word, with libfabric 2.1 and later ones.
    #[test]
    fn efa_direct_is_taken_only_where_there_is_nothing_else() {
        let (direct, efa) = (("efa", "efa-direct"), ("efa", "efa"));
        assert_eq!(choose(&[direct, efa]), Some(1));
        assert_eq!(choose(&[direct, direct, efa, efa]), Some(2), "two devices");
        assert_eq!(choose(&[efa, direct]), Some(0));
        assert_eq!(choose(&[("efa", "EFA-fe80::fe:b7ff:fe0a:1")]), Some(0), "an older libfabric");
        assert_eq!(choose(&[direct]), Some(0), "it was asked for");
        assert_eq!(choose(&[("tcp", "127.0.0.0/8"), ("tcp", "::1/128")]), Some(0));
        assert_eq!(choose::<&str>(&[]), None);
    }
}
