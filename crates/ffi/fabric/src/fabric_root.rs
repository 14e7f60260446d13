//! The root object of a provider.

use std::rc::Rc;

use fabric_sys as sys;

use crate::error::Error;
use crate::info::Info;
use crate::object::Owned;

/// An open fabric; cheap to clone.
#[derive(Debug, Clone)]
pub struct Fabric(pub(crate) Rc<Owned<sys::fid_fabric>>);

impl Fabric {
    /// Opens the fabric that `info` describes.
    ///
    /// # Errors
    /// Returns [`Error::Call`] with the provider's reason.
    pub fn open(info: &Info) -> Result<Self, Error> {
        // SAFETY: `info` is alive during the call and has a fabric_attr.
        let fabric = Owned::open("fi_fabric", |out| unsafe {
            sys::fi_fabric((*info.raw()).fabric_attr, out, std::ptr::null_mut())
        })?;
        Ok(Self(Rc::new(fabric)))
    }
}
