//! Conversion of the adapter's errors to errno values.

use std::ffi::c_int;

use softefa::{
    AllocMwError, AllocPdError, CreateAhError, CreateCqError, CreateQpError, GroupError,
    LocalError, ModifyError, OpenError, OpenTargetError, OpenXrcdError, Pitfall, PostError,
    PostSrqError, RegMrError, ReregMrError, ResizeCqError, SrqError, StillBound, lint,
};

/// An errno value, as the verbs API returns or stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const EAGAIN: Self = Self(libc::EAGAIN);
    pub(crate) const EBADF: Self = Self(libc::EBADF);
    pub(crate) const EBUSY: Self = Self(libc::EBUSY);
    pub(crate) const EFAULT: Self = Self(libc::EFAULT);
    pub(crate) const EDEADLK: Self = Self(libc::EDEADLK);
    pub(crate) const EINVAL: Self = Self(libc::EINVAL);
    pub(crate) const EIO: Self = Self(libc::EIO);
    pub(crate) const EPERM: Self = Self(libc::EPERM);
    pub(crate) const ENODEV: Self = Self(libc::ENODEV);
    pub(crate) const ENOENT: Self = Self(libc::ENOENT);
    pub(crate) const ENOMEM: Self = Self(libc::ENOMEM);
    pub(crate) const EOPNOTSUPP: Self = Self(libc::EOPNOTSUPP);

    /// Returns the errno value of the last system call that failed.
    pub(crate) fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Stores the value in the calling thread's `errno`.
    pub(crate) fn store(self) {
        // SAFETY: the location is valid for the calling thread for as long as it lives.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Logs why `call` fails, for users who enabled that.
fn refused(call: &'static str, why: &impl std::error::Error) {
    lint(|| {
        let cause = why.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        Pitfall::Refused { call, why: format!("{why}{cause}") }
    });
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<AllocPdError> for Errno {
    fn from(error: AllocPdError) -> Self {
        refused("ibv_alloc_pd", &error);
        Self::ENOMEM
    }
}

impl From<AllocMwError> for Errno {
    fn from(error: AllocMwError) -> Self {
        refused("ibv_alloc_mw", &error);
        match error {
            AllocMwError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EOPNOTSUPP,
        }
    }
}

/// As in the manual of `ibv_advise_mr`.
impl From<LocalError> for Errno {
    fn from(error: LocalError) -> Self {
        refused("ibv_advise_mr", &error);
        match error {
            LocalError::NoRegion(_) => Self::ENOENT,
            LocalError::NotPermitted(_) => Self::EPERM,
            _ => Self::EFAULT,
        }
    }
}

impl From<ResizeCqError> for Errno {
    fn from(error: ResizeCqError) -> Self {
        refused("ibv_resize_cq", &error);
        Self::EINVAL
    }
}

impl From<SrqError> for Errno {
    fn from(error: SrqError) -> Self {
        refused("ibv_create_srq or ibv_modify_srq", &error);
        match error {
            SrqError::Unsupported => Self::EOPNOTSUPP,
            SrqError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

/// As in the kernel's `ib_uverbs_open_xrcd`.
impl From<OpenXrcdError> for Errno {
    fn from(error: OpenXrcdError) -> Self {
        refused("ibv_open_xrcd", &error);
        match error {
            OpenXrcdError::Unsupported => Self::EOPNOTSUPP,
            OpenXrcdError::File(io) => io.into(),
            OpenXrcdError::NotThere => Self::EAGAIN,
            OpenXrcdError::Pd(error) => error.into(),
            OpenXrcdError::Cq(error) => error.into(),
            _ => Self::EINVAL,
        }
    }
}

impl From<OpenTargetError> for Errno {
    fn from(error: OpenTargetError) -> Self {
        refused("ibv_open_qp", &error);
        Self::EINVAL
    }
}

/// As in the kernel's `ib_attach_mcast`.
impl From<GroupError> for Errno {
    fn from(error: GroupError) -> Self {
        refused("ibv_attach_mcast or ibv_detach_mcast", &error);
        match error {
            GroupError::Unsupported | GroupError::Loopback => Self::EOPNOTSUPP,
            GroupError::TooMany { .. } => Self::ENOMEM,
            GroupError::Socket(io) => io.into(),
            _ => Self::EINVAL,
        }
    }
}

impl From<PostSrqError> for Errno {
    fn from(error: PostSrqError) -> Self {
        refused("ibv_post_srq_recv", &error);
        match error {
            PostSrqError::Full => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<StillBound> for Errno {
    fn from(error: StillBound) -> Self {
        refused("ibv_dereg_mr", &error);
        Self::EBUSY
    }
}

impl From<ReregMrError> for Errno {
    fn from(error: ReregMrError) -> Self {
        refused("ibv_rereg_mr", &error);
        match error {
            ReregMrError::Invalid(error) => error.into(),
            ReregMrError::StillBound(error) => error.into(),
            _ => Self::EINVAL,
        }
    }
}

impl From<CreateAhError> for Errno {
    fn from(error: CreateAhError) -> Self {
        refused("ibv_create_ah", &error);
        match error {
            CreateAhError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<CreateCqError> for Errno {
    fn from(error: CreateCqError) -> Self {
        refused("ibv_create_cq", &error);
        match error {
            CreateCqError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<CreateQpError> for Errno {
    fn from(error: CreateQpError) -> Self {
        refused("ibv_create_qp", &error);
        match error {
            CreateQpError::TooMany { .. } => Self::ENOMEM,
            CreateQpError::NoUnsolicited(_) => Self::EOPNOTSUPP,
            CreateQpError::DeviceFailed { .. } => Self::EIO,
            CreateQpError::Socket(io) | CreateQpError::Random(io) => io.into(),
            _ => Self::EINVAL,
        }
    }
}

impl From<ModifyError> for Errno {
    fn from(error: ModifyError) -> Self {
        refused("ibv_modify_qp", &error);
        Self::EINVAL
    }
}

impl From<OpenError> for Errno {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Io { source, .. } => source.into(),
            _ => Self::ENODEV,
        }
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        refused("ibv_post_send or ibv_post_recv", &error);
        match error {
            PostError::Full => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<RegMrError> for Errno {
    fn from(error: RegMrError) -> Self {
        refused("ibv_reg_mr", &error);
        match error {
            RegMrError::TooMany { .. } => Self::ENOMEM,
            RegMrError::NotThere { .. } => Self::EFAULT,
            _ => Self::EINVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queues_and_full_tables_differ_from_bad_arguments() {
        assert_eq!(Errno::from(PostError::Full), Errno::ENOMEM);
        assert_eq!(Errno::from(PostError::TooManySges(9)), Errno::EINVAL);
        assert_eq!(Errno::from(CreateCqError::TooMany { max: 1 }), Errno::ENOMEM);
        assert_eq!(Errno::from(CreateCqError::BadDepth { depth: 0, max: 1 }), Errno::EINVAL);
    }
}
