//! The one place where errors of the adapter become errno values.

use std::ffi::c_int;

use softefa::{
    AllocMwError, AllocPdError, CreateAhError, CreateCqError, CreateQpError, LocalError,
    ModifyError, OpenError, PostError, PostSrqError, RegMrError, ReregMrError, ResizeCqError,
    SrqError, StillBound,
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

    /// What the last failed system call left.
    pub(crate) fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Stores the value in the calling thread's `errno`.
    pub(crate) fn store(self) {
        // SAFETY: the location is valid for the calling thread for as long as it lives.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<AllocPdError> for Errno {
    fn from(_: AllocPdError) -> Self {
        Self::ENOMEM
    }
}

impl From<AllocMwError> for Errno {
    fn from(error: AllocMwError) -> Self {
        match error {
            AllocMwError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EOPNOTSUPP,
        }
    }
}

/// As the manual of `ibv_advise_mr` has them.
impl From<LocalError> for Errno {
    fn from(error: LocalError) -> Self {
        match error {
            LocalError::NoRegion(_) => Self::ENOENT,
            LocalError::NotPermitted(_) => Self::EPERM,
            _ => Self::EFAULT,
        }
    }
}

impl From<ResizeCqError> for Errno {
    fn from(_: ResizeCqError) -> Self {
        Self::EINVAL
    }
}

impl From<SrqError> for Errno {
    fn from(error: SrqError) -> Self {
        match error {
            SrqError::Unsupported => Self::EOPNOTSUPP,
            SrqError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<PostSrqError> for Errno {
    fn from(error: PostSrqError) -> Self {
        match error {
            PostSrqError::Full => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<StillBound> for Errno {
    fn from(_: StillBound) -> Self {
        Self::EBUSY
    }
}

impl From<ReregMrError> for Errno {
    fn from(error: ReregMrError) -> Self {
        match error {
            ReregMrError::Invalid(error) => error.into(),
            ReregMrError::StillBound(error) => error.into(),
            _ => Self::EINVAL,
        }
    }
}

impl From<CreateAhError> for Errno {
    fn from(error: CreateAhError) -> Self {
        match error {
            CreateAhError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<CreateCqError> for Errno {
    fn from(error: CreateCqError) -> Self {
        match error {
            CreateCqError::TooMany { .. } => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<CreateQpError> for Errno {
    fn from(error: CreateQpError) -> Self {
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
    fn from(_: ModifyError) -> Self {
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
        match error {
            PostError::Full => Self::ENOMEM,
            _ => Self::EINVAL,
        }
    }
}

impl From<RegMrError> for Errno {
    fn from(error: RegMrError) -> Self {
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
