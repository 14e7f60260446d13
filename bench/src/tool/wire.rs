//! What messages of the software device go over.

use clap::ValueEnum;

/// As `softefa run --wire` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wire {
    /// The default: memory between programs of one user on one machine.
    Auto,
    Udp,
}

impl Wire {
    /// Options of `softefa run`. The default is measured as everybody gets it: without a word.
    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Auto => &[],
            Self::Udp => &["--wire", "udp"],
        }
    }
}
