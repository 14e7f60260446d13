//! The faults that a user may ask for: the one list behind the parser's messages, the help and
//! docs/FAULTS.md.

/// The side that a fault acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The fault acts on what this process sends.
    Sent,
    /// The fault acts on what arrives at this process.
    Arriving,
    /// The fault acts on the device itself, or its process.
    Device,
}

impl Side {
    /// Returns the side as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Arriving => "arriving",
            Self::Device => "device",
        }
    }
}

/// A fault that a user may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultKey {
    /// The name of the fault.
    pub name: &'static str,
    /// An example of how it is written.
    pub example: &'static str,
    /// The side on which it acts.
    pub side: Side,
    /// The effect of the fault in words.
    pub meaning: &'static str,
    /// The fault may begin while a device is in use; others are decided when the device is opened.
    pub is_live: bool,
}

const fn key(
    name: &'static str,
    example: &'static str,
    side: Side,
    meaning: &'static str,
) -> FaultKey {
    FaultKey { name, example, side, meaning, is_live: true }
}

/// Makes a fault that is decided when a device is opened.
const fn early_key(name: &'static str, example: &'static str, meaning: &'static str) -> FaultKey {
    FaultKey { name, example, side: Side::Device, meaning, is_live: false }
}

impl FaultKey {
    /// Every fault, in the order of the tables.
    pub const ALL: [Self; 16] = [
        key("loss", "loss=1%", Side::Sent, "this share of datagrams is dropped"),
        key("dup", "dup=1%", Side::Sent, "this share is sent twice"),
        key(
            "reorder",
            "reorder=20%",
            Side::Sent,
            "this share is held back up to 300 us behind later ones",
        ),
        key(
            "delay",
            "delay=50us±20us",
            Side::Sent,
            "each datagram is delayed; also delay=50us, delay=10us..2ms, +- for ±",
        ),
        key(
            "blackhole",
            "blackhole=path:3@1s+2s",
            Side::Sent,
            "path 3 swallows everything for 2 s, beginning at 1 s; all means every path; without +2s it lasts for ever, without @1s it begins at once; may be repeated",
        ),
        key(
            "mangle",
            "mangle=1%",
            Side::Sent,
            "header bytes of this share are altered; receivers drop and count them",
        ),
        key(
            "corrupt",
            "corrupt=0.1%",
            Side::Sent,
            "payload bytes of this share are altered and delivered, unless --integrity crc32c or icrc",
        ),
        key(
            "rnr",
            "rnr=5%",
            Side::Arriving,
            "this share of messages is refused as if no receive were posted; status 10 when the retries are used up",
        ),
        key(
            "internal",
            "internal=0.1%",
            Side::Device,
            "this share of posted sends ends with an internal error (status 2)",
        ),
        key(
            "ack-loss",
            "ack-loss=5%",
            Side::Sent,
            "RoCE: this share of acknowledgements and NAKs of connections is dropped",
        ),
        key(
            "nak",
            "nak=5%",
            Side::Sent,
            "RoCE: this share of acknowledgements says that the next packet is missing, though nothing is",
        ),
        key(
            "psn-gap",
            "psn-gap=1%",
            Side::Sent,
            "RoCE: this share of requests skips a PSN, so that the peer misses a packet; UC loses the message",
        ),
        early_key("mtu", "mtu=1400", "as on a link of this MTU, 640 to 65535: max_msg_sz shrinks"),
        early_key(
            "qpn-reuse",
            "qpn-reuse",
            "a new queue pair takes the number of the one destroyed last, at once",
        ),
        early_key(
            "peer-kill",
            "peer-kill@2s",
            "the process ends as by SIGKILL, 2 s after it first opened a device",
        ),
        key(
            "seed",
            "seed=7",
            Side::Device,
            "another seed hits other datagrams, the same seed the same ones; default 0",
        ),
    ];

    /// Returns all names, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(|key| key.name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::FaultSpec;
    use super::*;

    #[test]
    fn every_example_can_be_written() {
        let all = FaultKey::ALL.map(|key| key.example).join(",");
        let spec: FaultSpec = all.parse().unwrap();
        assert_eq!(spec.to_string().parse::<FaultSpec>(), Ok(spec));
    }

    #[test]
    fn the_book_has_a_row_for_each() {
        let page = include_str!("../../../../../../docs/FAULTS.md");
        for key in FaultKey::ALL {
            let row = format!("| `{}` | {} |", key.example, key.side.name());
            assert!(page.contains(&row), "docs/FAULTS.md lacks: {row}");
        }
    }
}
