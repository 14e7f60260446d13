//! The failures of a command: one line for people, and one exit code per kind for scripts.

use std::net::SocketAddr;

use thiserror::Error;

/// All failures of a command. The text says what happened and how to mend it.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Fabric(String),
    #[error("no server at {address} ({reason}): start one there with `efa-bench server`")]
    NoServer { address: String, reason: String },
    #[error("{0}")]
    NoRank(String),
    #[error(
        "{address} speaks control protocol {theirs} (efa-bench {tool}), this is protocol {ours}: \
         install the same efa-bench on both hosts"
    )]
    OtherVersion { address: String, theirs: u32, ours: u32, tool: String },
    #[error("{address} is not an efa-bench server ({reason}): check host and port")]
    NotAServer { address: String, reason: String },
    #[error(
        "{address} took the connection and said nothing for {seconds} s: it serves another client, \
         or it is no efa-bench server; look there or raise --timeout"
    )]
    SilentServer { address: String, seconds: f64 },
    #[error(
        "port {} is in use on {}: end the other server or choose a port with --port",
        .0.port(), .0.ip()
    )]
    PortInUse(SocketAddr),
    #[error("the other side went away while {doing}: {reason}")]
    PeerGone { doing: String, reason: String },
    #[error("nothing happened for {seconds} s while {doing}: raise --timeout or look at the peer")]
    Timeout { doing: String, seconds: f64 },
    #[error("{0}")]
    Data(String),
    #[error("cannot write {path}: {reason}; nothing was left half-written")]
    Output { path: String, reason: String },
    #[error("cannot read {path}: {reason}")]
    Input { path: String, reason: String },
    #[error("{0}")]
    Check(String),
    #[error("{0}")]
    Inconclusive(String),
    #[error("the other side failed: {0}")]
    Remote(String),
    #[error("interrupted: what was measured before is kept and marked as incomplete")]
    Interrupted,
}

/// The exit code after Ctrl-C or SIGTERM: that of a program that Ctrl-C ended, as shells report it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// The exit codes, for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes: 0 done; 2 bad arguments; 3 fabric or provider not usable; 4 no server, or a rank that did not come; 5 server of \
another version; 6 port in use; 7 the other side went away or failed; 8 timeout; 9 received data \
wrong; 10 a file cannot be written or read; 11 a check failed: of a plan, a limit of \
--assert, a comparison (results are kept); 12 a comparison cannot tell: more data is needed; 130 interrupted by Ctrl-C or SIGTERM (what was measured \
is kept).";

impl Failure {
    /// Returns the process's exit code.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Fabric(_) => 3,
            Self::NoServer { .. }
            | Self::NotAServer { .. }
            | Self::SilentServer { .. }
            | Self::NoRank(_) => 4,
            Self::OtherVersion { .. } => 5,
            Self::PortInUse(_) => 6,
            Self::PeerGone { .. } | Self::Remote(_) => 7,
            Self::Timeout { .. } => 8,
            Self::Data(_) => 9,
            Self::Output { .. } | Self::Input { .. } => 10,
            Self::Check(_) => 11,
            Self::Inconclusive(_) => 12,
            Self::Interrupted => EXIT_INTERRUPTED,
        }
    }
}

impl Failure {
    /// Makes the failure that the other side sent another message than the protocol has at this
    /// place.
    pub fn unexpected(doing: &str, wanted: &str, got: &impl std::fmt::Debug) -> Self {
        let reason = format!("expected {wanted}, got {got:?}");
        Self::PeerGone { doing: doing.to_owned(), reason }
    }

    /// Makes the failure that the control connection was closed.
    pub fn closed(doing: &str) -> Self {
        let reason = "it closed the control connection".to_owned();
        Self::PeerGone { doing: doing.to_owned(), reason }
    }

    /// Adds the name of the node at which the failure occurred.
    pub fn at(self, node: &str) -> Self {
        match self {
            Self::Usage(reason) => Self::Usage(format!("{node}: {reason}")),
            Self::Fabric(reason) => Self::Fabric(format!("{node}: {reason}")),
            Self::Data(reason) => Self::Data(format!("{node}: {reason}")),
            Self::Remote(reason) => Self::Remote(format!("{node}: {reason}")),
            Self::PeerGone { doing, reason } => {
                Self::PeerGone { doing: format!("{doing} ({node})"), reason }
            }
            Self::Timeout { doing, seconds } => {
                Self::Timeout { doing: format!("{doing} ({node})"), seconds }
            }
            other => other,
        }
    }

    /// Adds the text that the other side wrote to its standard error.
    pub fn with_words(self, words: &str) -> Self {
        match self {
            Self::Remote(reason) => Self::Remote(format!("{reason}{words}")),
            Self::PeerGone { doing, reason } => {
                Self::PeerGone { doing, reason: format!("{reason}{words}") }
            }
            Self::Timeout { doing, seconds } => {
                Self::Timeout { doing: format!("{doing}{words}"), seconds }
            }
            other => other,
        }
    }
}

/// Returns the text of an I/O error without the " (os error N)" tail.
#[must_use]
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
