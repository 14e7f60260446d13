//! Whole distributions inside a result file, in the format of HdrHistogram's tools.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// The kind of time that a histogram holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimesOf {
    /// Whole round trips; figures of latency are half of them.
    RoundTrips,
    /// Operations, from posting to completion.
    Operations,
    /// Requests of an open loop, from the moment for which they were intended.
    Responses,
}

impl TimesOf {
    /// Returns the divisor of a time for the figures of its point.
    pub const fn ways(self) -> u32 {
        match self {
            Self::RoundTrips => 2,
            Self::Operations | Self::Responses => 1,
        }
    }
}

/// A histogram of times in ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedTimes {
    pub of: TimesOf,
    /// The histogram in HdrHistogram V2, deflated, in base64.
    hdr_v2_deflate: String,
}

impl PackedTimes {
    /// Packs a histogram; `None` if it is empty.
    pub fn pack(of: TimesOf, times_ns: &Histogram<u64>) -> Option<Self> {
        if times_ns.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        // A vector takes everything, and counts of one run fit the format.
        V2DeflateSerializer::new().serialize(times_ns, &mut bytes).ok()?;
        Some(Self { of, hdr_v2_deflate: STANDARD.encode(bytes) })
    }

    /// Returns the histogram; `None` if the text is no histogram, as in a file that was edited.
    pub fn unpack(&self) -> Option<Histogram<u64>> {
        let bytes = STANDARD.decode(&self.hdr_v2_deflate).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_being_packed() {
        let mut times = Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("bounds");
        for time_ns in (1..10_000).map(|n| n * n) {
            times.saturating_record(time_ns);
        }
        let packed = PackedTimes::pack(TimesOf::RoundTrips, &times).expect("not empty");
        assert_eq!(packed.unpack(), Some(times));
        assert!(packed.hdr_v2_deflate.starts_with("HISTFAAA"), "{}", packed.hdr_v2_deflate);
    }

    #[test]
    fn nothing_and_nonsense_are_no_histogram() {
        let empty = Histogram::new_with_bounds(1, 1000, 3).expect("bounds");
        assert_eq!(PackedTimes::pack(TimesOf::Operations, &empty), None);
        for text in ["", "HISTFAAA", "not base64!"] {
            let packed = PackedTimes { of: TimesOf::Operations, hdr_v2_deflate: text.to_owned() };
            assert!(packed.unpack().is_none(), "{text}");
        }
    }
}
