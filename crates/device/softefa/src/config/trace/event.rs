//! Kinds of events.

use std::str::FromStr;

use crate::config::ConfigError;

macro_rules! events {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// A kind of event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TraceEvent { $(#[doc = $doc] $variant,)* }

        impl TraceEvent {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The names of all kinds.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Returns the name in the trace and in the list of wanted kinds.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

events! {
    Post "post" "A send work request was posted.";
    Transmit "transmit" "A message was given to the wire for the first time.";
    Retransmit "retransmit" "A message was given to the wire again.";
    Receive "receive" "A message arrived, or arrived again.";
    Accept "accept" "The message was taken.";
    Reject "reject" "The message was refused.";
    Drop "drop" "A datagram was not used.";
    Ack "ack" "An acknowledgement was given to the wire or arrived.";
    Loss "loss" "A transmission was declared lost.";
    Timer "timer" "A timer of the engine expired.";
    Completion "completion" "A completion entered its queue.";
    State "state" "The queue pair changed its state.";
    Peer "peer" "A remote queue pair was heard of, or is in trouble.";
    Fault "fault" "A fault on purpose began, ended, or was dealt.";
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Events(u16);

impl Events {
    pub(crate) const ALL: Self = Self((1 << TraceEvent::ALL.len()) - 1);

    pub(crate) fn has(self, event: TraceEvent) -> bool {
        self.0 & 1 << event as u16 != 0
    }

    /// Returns the names of the kinds, separated by commas.
    pub(crate) fn names(self) -> String {
        let wanted = TraceEvent::ALL.iter().filter(|event| self.has(**event));
        wanted.map(|event| event.name()).collect::<Vec<_>>().join(",")
    }
}

impl FromStr for Events {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut events = Self(0);
        for name in text.split(',').map(str::trim) {
            let event = TraceEvent::ALL.iter().find(|event| event.name() == name);
            let event = event.ok_or_else(|| ConfigError::TraceEvent { value: name.to_owned() })?;
            events.0 |= 1 << *event as u16;
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_and_a_mistake_is_named() {
        let events: Events = "loss, retransmit".parse().unwrap();
        assert!(events.has(TraceEvent::Loss) && events.has(TraceEvent::Retransmit));
        assert!(!events.has(TraceEvent::Post));
        assert_eq!(events.names(), "retransmit,loss");
        assert_eq!(Events::ALL.names().parse(), Ok(Events::ALL));
        let error = "los".parse::<Events>().unwrap_err().to_string();
        assert!(error.contains("'los'") && error.contains("completion"), "{error}");
        assert!("".parse::<Events>().is_err());
    }
}
