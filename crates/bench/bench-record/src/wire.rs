//! The wire that messages of the software device go over.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The wire, as `softefa run --wire` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Memory where both programs are one user's on one machine, else UDP.
    Auto,
    /// UDP only.
    Udp,
    /// Memory only: where it cannot be, nothing runs.
    Shm,
}

impl Wire {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Udp, Self::Shm];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Shm => "shm",
        }
    }

    /// Returns the options of `softefa run` for a wire; none if no wire is asked for.
    pub fn words(wire: Option<Self>) -> Vec<String> {
        wire.map_or_else(Vec::new, |wire| vec!["--wire".to_owned(), wire.name().to_owned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_has_one_name_everywhere() {
        for wire in Wire::ALL {
            let name = wire.name();
            assert_eq!(Wire::from_str(name, false), Ok(wire));
            let encoded = serde_json::to_value(wire).expect("encode");
            assert_eq!(encoded, name);
            assert_eq!(Wire::words(Some(wire)), ["--wire", name]);
        }
        assert!(Wire::words(None).is_empty());
    }
}
