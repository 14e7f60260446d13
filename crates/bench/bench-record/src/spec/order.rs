//! The order of a stream's messages: its treatment, and the marks in messages that the treatment
//! needs.

use serde::{Deserialize, Serialize};

use super::PointSpec;

/// The treatment of the order in which the messages of a stream were posted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Nobody asks.
    #[default]
    Any,
    /// Messages carry numbers, and the receiver counts those that a later one has overtaken.
    Numbered,
    /// The receiver puts aside what came early and hands messages on in order.
    Kept,
}

impl Order {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Numbered => "numbered",
            Self::Kept => "kept",
        }
    }

    pub const fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }
}

/// The mark that tells a message of a stream from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    Nothing,
    Number,
    /// The number of the message, and bytes that follow from the number.
    Content,
}

impl PointSpec {
    /// Returns the mark that the sender of a stream writes into each message.
    pub const fn stamp(&self) -> Stamp {
        match (self.validate, self.order) {
            (true, _) => Stamp::Content,
            (false, Order::Any) => Stamp::Nothing,
            (false, Order::Numbered | Order::Kept) => Stamp::Number,
        }
    }
}
