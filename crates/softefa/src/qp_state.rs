//! What a queue pair is and where it stands.

/// Transport of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpKind {
    /// Scalable Reliable Datagram.
    Srd,
    /// Unreliable Datagram.
    Ud,
}

/// State of a queue pair, as InfiniBand names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QpState {
    /// Fresh, or taken back.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// Messages are taken.
    ReadyToReceive,
    /// Messages are sent, too.
    ReadyToSend,
    /// Sends are still taken and sent; programs use it as a stop on their way to an error.
    SendQueueDrained,
    /// Unusable; what was posted is flushed.
    Error,
}

/// Present attributes of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QpQuery {
    /// State.
    pub state: QpState,
    /// Queue key.
    pub qkey: u32,
    /// Sequence number given by the program.
    pub sq_psn: u32,
    /// Tries when the receiver is not ready.
    pub rnr_retry: u8,
}
