/// The end of a work request: the status numbers of the device (`efa_io_defs.h`), which verbs hands
/// out as `vendor_err`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Status {
    /// Done.
    #[default]
    Ok = 0,
    /// The queue pair went to the error state, or the last address handle for the peer was
    /// destroyed.
    Flushed = 1,
    /// The adapter failed.
    LocalQpInternalError = 2,
    /// The operation is not possible on this queue pair.
    LocalUnsupportedOp = 3,
    /// The address handle is destroyed, or of another protection domain.
    LocalInvalidAh = 4,
    /// A local key is not registered in the queue pair's protection domain, does not cover the
    /// entry, or does not permit the access.
    LocalInvalidLkey = 5,
    /// The message is longer than the device takes.
    LocalBadLength = 6,
    /// The remote key, address or access is wrong, or the key is of another protection domain
    /// than the queue pair asked.
    RemoteBadAddress = 7,
    /// The connection was reset by the remote side.
    RemoteAbort = 8,
    /// The remote queue pair does not exist.
    RemoteBadDestQpn = 9,
    /// No receive was posted, as often as was tried.
    RemoteRnr = 10,
    /// The remote buffer is too short.
    RemoteBadLength = 11,
    /// The remote side answered something unexpected.
    RemoteBadStatus = 12,
    /// The remote side answered once and is silent now.
    LocalUnrespRemote = 13,
    /// The remote side has no address handle for us, which RDMA needs there: on a strict device.
    RemoteUnknownPeer = 14,
    /// The remote side never answered.
    LocalUnreachRemote = 15,
    /// The two sides differ in a feature that both must have: unsolicited receiving of WRITEs.
    RemoteFeatureMismatch = 18,
    /// A memory window could not be bound. From here on: what only a RoCE device says, 128 plus the
    /// number of verbs.
    BindError = 134,
    /// The responder says that the request is invalid; at a responder: it was.
    RemoteInvalidRequest = 137,
    /// The responder could not do it, for a reason of its own.
    RemoteOperation = 139,
    /// No answer, or packets were missing too often.
    RetryExceeded = 140,
    /// The responder has no such shared receive queue in its XRC domain; at a responder: it has
    /// none any more.
    RemoteInvalidQueue = 143,
}

impl Status {
    /// The device's number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<srd::Status> for Status {
    fn from(status: srd::Status) -> Self {
        match status {
            srd::Status::Ok => Self::Ok,
            srd::Status::Flushed => Self::Flushed,
            srd::Status::BadAddress => Self::RemoteBadAddress,
            srd::Status::RemoteAbort => Self::RemoteAbort,
            srd::Status::BadDestQpn => Self::RemoteBadDestQpn,
            srd::Status::Rnr => Self::RemoteRnr,
            srd::Status::BadLength => Self::RemoteBadLength,
            srd::Status::BadStatus => Self::RemoteBadStatus,
            srd::Status::UnrespRemote => Self::LocalUnrespRemote,
            srd::Status::UnknownPeer => Self::RemoteUnknownPeer,
            srd::Status::UnreachRemote => Self::LocalUnreachRemote,
            srd::Status::FeatureMismatch => Self::RemoteFeatureMismatch,
        }
    }
}

impl From<rc::Status> for Status {
    fn from(status: rc::Status) -> Self {
        match status {
            rc::Status::Ok => Self::Ok,
            rc::Status::LocalLength => Self::LocalBadLength,
            rc::Status::LocalOperation => Self::LocalQpInternalError,
            rc::Status::LocalProtection => Self::LocalInvalidLkey,
            rc::Status::Flushed => Self::Flushed,
            rc::Status::Bind => Self::BindError,
            rc::Status::BadResponse => Self::RemoteBadStatus,
            rc::Status::RemoteInvalidRequest => Self::RemoteInvalidRequest,
            rc::Status::RemoteAccess => Self::RemoteBadAddress,
            rc::Status::RemoteOperation => Self::RemoteOperation,
            rc::Status::RetryExceeded => Self::RetryExceeded,
            rc::Status::RnrRetryExceeded => Self::RemoteRnr,
            rc::Status::RemoteInvalidQueue => Self::RemoteInvalidQueue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_and_the_device_agree_on_numbers() {
        for status in [
            srd::Status::Ok,
            srd::Status::Flushed,
            srd::Status::BadDestQpn,
            srd::Status::Rnr,
            srd::Status::UnrespRemote,
            srd::Status::UnreachRemote,
            srd::Status::FeatureMismatch,
        ] {
            assert_eq!(Status::from(status).code(), status.code());
        }
    }
}
