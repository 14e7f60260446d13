//! Costs of an adapter, its host and its network: the parameters of the model, from a TOML file.

use crate::scenario::{line_at, line_of};
use published::Fabric;
use serde::{Deserialize, Deserializer, de};
use thiserror::Error;

/// Profiles that are built in: name and file.
const BUILT_IN: [(&str, &str); 3] = [
    ("c5n", include_str!("../../profiles/c5n.toml")),
    ("rc", include_str!("../../profiles/rc.toml")),
    ("tcp", include_str!("../../profiles/tcp.toml")),
];

/// The reason why a profile is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, {field}: {problem}")]
pub struct ProfileError {
    /// Line of the file, from 1.
    pub line: usize,
    /// The text of the line.
    pub field: String,
    /// The problem: what is wrong, and what is allowed.
    pub problem: String,
}

/// All parameters of a modelled adapter. `docs/NIC-MODEL.md` says what each one means and how to
/// find it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// A line that says what is modelled.
    pub title: String,
    /// The column of the published tables that it stands for: `efa`, `rc` or `tcp`.
    #[serde(deserialize_with = "fabric")]
    pub fabric: Fabric,
    pub(super) link: Link,
    pub(super) path: Path,
    #[serde(default)]
    pub(super) datagram: Datagram,
    pub(super) adapter: Costs,
    pub(super) verbs: Api,
    /// Calls of a library over verbs; without them the program calls verbs.
    pub(super) library: Option<Api>,
    /// Calls of the library for the other side's memory; without them it makes its ordinary ones.
    pub(super) remote_memory: Option<Api>,
}

fn fabric<'de, D: Deserializer<'de>>(from: D) -> Result<Fabric, D::Error> {
    String::deserialize(from)?.parse().map_err(de::Error::custom)
}

/// The wire.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// Time of a byte; the inverse of the rate of all lanes together.
    pub(super) ns_per_byte: Ns,
    /// Number of lanes that share the rate; a packet takes any one of them, busy or not.
    pub(super) lanes: u32,
    /// Bytes that a packet takes on the wire besides its payload.
    pub(super) overhead_bytes: Bytes,
    /// Payload of the longest packet; a longer message is cut.
    pub(super) mtu_bytes: Bytes,
    /// Time of a byte into the receiver's memory, where it is written while it arrives. Without it
    /// a packet is stored first.
    pub(super) memory_ns_per_byte: Option<Ns>,
}

/// The way between two adapters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Path {
    /// Time from the end of the link to the other adapter, without what depends on the length.
    pub(super) one_way_ns: Ns,
    /// Time from the decision to acknowledge to the adapter that waits for it.
    pub(super) acknowledgement_ns: Ns,
    /// Mean of the random (exponential) time added to both.
    pub(super) jitter_ns: Ns,
    /// Number of times that a packet is stored as a whole before it goes on, each at the link's
    /// rate. The lane of the sender's link counts as many as there are lanes, the receiver's memory
    /// one unless it has a rate of its own.
    pub(super) stages: f64,
}

/// The time that an unreliable datagram saves.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Datagram {
    /// Time saved one way.
    pub(super) saved_ns: Ns,
    /// Number of stages of the path that are saved.
    pub(super) saved_stages: f64,
}

/// The adapter, which works in rounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Costs {
    /// Maximum time after which an idle adapter sees work (evenly distributed).
    pub(super) wake_ns: Ns,
    /// Mean pause between two rounds.
    pub(super) pause_ns: Ns,
    /// Fraction of the pause that is random (exponential); the rest is constant.
    pub(super) pause_random: f64,
    /// Time once per round for each queue pair that has work, one queue pair after the other.
    pub(super) visit_ns: Ns,
    /// Time per packet, all queue pairs one after the other.
    pub(super) shared: PerPacket,
    /// Time per packet, packets of one queue pair one after the other, queue pairs in parallel.
    pub(super) queue_pair: PerPacket,
    /// Maximum number of packets that one acknowledgement covers.
    pub(super) acknowledged_max: u32,
    /// Number of messages of a queue pair that it takes and acknowledges ahead of the receiving
    /// program. Without it the program of a stream always keeps up.
    pub(super) taken_ahead: Option<u32>,
}

/// Time of each kind of work per packet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PerPacket {
    pub(super) send_ns: Ns,
    pub(super) receive_ns: Ns,
    pub(super) complete_ns: Ns,
}

/// Processor time of a program's calls.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Api {
    /// Time of posting a message.
    pub(super) post_ns: Ns,
    /// Time of posting per byte, where it is copied.
    #[serde(default)]
    pub(super) post_ns_per_byte: Ns,
    /// Time of taking a completion.
    pub(super) poll_ns: Ns,
    /// Time of taking a received message.
    pub(super) receive_ns: Ns,
    /// Time of receiving per byte, where it is copied.
    #[serde(default)]
    pub(super) receive_ns_per_byte: Ns,
    /// Time of receiving per packet after the first.
    #[serde(default)]
    pub(super) segment_ns: Ns,
    /// Time of posting a receive again, which a ping-pong does while its answer is on the way.
    #[serde(default)]
    pub(super) repost_ns: Ns,
    /// Length up to which messages go to the adapter with their request.
    #[serde(default)]
    pub(super) inline_bytes: u32,
    /// Time in which the adapter fetches a longer message first.
    #[serde(default)]
    pub(super) fetch_ns: Ns,
}

impl Profile {
    /// Returns the profile that is built in by this name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        #[expect(clippy::expect_used, reason = "a test parses all of them")]
        Some(Self::parse(text).expect("built-in profiles are right"))
    }

    /// Returns the names of the profiles that are built in.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// Returns the first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let refuse = |line, field: &str, problem: String| ProfileError {
            line,
            field: field.to_owned(),
            problem,
        };
        let profile: Self = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let field = line_at(text, span.clone());
            refuse(line_of(text, span), &field, error.message().replace('\n', " "))
        })?;
        let outside = profile.bounds().into_iter().find(|b| !(b.1..=b.2).contains(&b.3));
        if let Some((field, min, max, value)) = outside {
            let line = text.lines().position(|line| line.trim_start().starts_with(field));
            let problem = format!("{value} is not allowed, only {min} to {max}");
            return Err(refuse(line.map_or(1, |index| index + 1), field, problem));
        }
        Ok(profile)
    }

    /// Returns the bounds of fields where not every number of the type is allowed: field, least,
    /// most, value. A post and the way take some time, or a window would turn without end at one
    /// point in time.
    fn bounds(&self) -> [(&'static str, f64, f64, f64); 11] {
        let (link, path, adapter) = (&self.link, &self.path, &self.adapter);
        let apis = [Some(&self.verbs), self.library.as_ref(), self.remote_memory.as_ref()];
        let posts = apis.into_iter().flatten().map(|api| api.post_ns.0);
        let lanes = f64::from(link.lanes);
        [
            ("lanes", 1.0, 64.0, lanes),
            ("overhead_bytes", 0.0, 100_000.0, link.overhead_bytes.into()),
            ("mtu_bytes", 64.0, f64::from(1 << 30), link.mtu_bytes.into()),
            ("one_way_ns", 100.0, NS_MAX, path.one_way_ns.0),
            ("acknowledgement_ns", 100.0, NS_MAX, path.acknowledgement_ns.0),
            ("stages", self.outer_stages(), 100.0, path.stages),
            ("saved_stages", 0.0, self.inner_stages(), self.datagram.saved_stages),
            ("pause_random", 0.0, 1.0, adapter.pause_random),
            ("acknowledged_max", 1.0, 65_536.0, adapter.acknowledged_max.into()),
            ("taken_ahead", 1.0, 65_536.0, adapter.taken_ahead.unwrap_or(1).into()),
            ("post_ns", 10.0, NS_MAX, posts.fold(NS_MAX, f64::min)),
        ]
    }

    /// Returns the stages of the path without the sender's link and the receiver's memory.
    pub(super) fn inner_stages(&self) -> f64 {
        self.path.stages - self.outer_stages()
    }

    fn outer_stages(&self) -> f64 {
        let memory = if self.link.memory_ns_per_byte.is_some() { 0.0 } else { 1.0 };
        f64::from(self.link.lanes) + memory
    }

    /// Returns the time of `bytes` in each of `stages` stages of the path.
    pub(super) fn staged_ps(&self, stages: f64, bytes: u32) -> u64 {
        (self.link.ns_per_byte.ps_f64() * f64::from(bytes) * stages).round() as u64
    }
}

impl Api {
    pub(super) fn post_ps(&self, bytes: u32) -> u64 {
        self.post_ns.ps() + self.post_ns_per_byte.of(bytes)
    }

    pub(super) fn receive_ps(&self, bytes: u32, packets: u32) -> u64 {
        let segments = self.segment_ns.of(packets.saturating_sub(1));
        self.receive_ns.ps() + self.receive_ns_per_byte.of(bytes) + segments
    }
}

/// Nanoseconds, with a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ns(f64);

const NS_MAX: f64 = 1e6;
const PS_PER_NS: f64 = 1000.0;

impl Ns {
    pub(super) fn ps(self) -> u64 {
        self.ps_f64().round() as u64
    }

    pub(super) fn ps_f64(self) -> f64 {
        self.0 * PS_PER_NS
    }

    /// Returns `count` times the value, in picoseconds.
    pub(super) fn of(self, count: u32) -> u64 {
        (self.ps_f64() * f64::from(count)).round() as u64
    }
}

impl<'de> Deserialize<'de> for Ns {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(source)?;
        if (0.0..=NS_MAX).contains(&value) {
            return Ok(Self(value));
        }
        let problem = format!("{value} ns is not allowed, only 0 to {NS_MAX}");
        Err(de::Error::custom(problem))
    }
}

/// A length in bytes.
pub(super) type Bytes = u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_right() {
        for (name, text) in BUILT_IN {
            let profile = Profile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(Profile::built_in(name), Some(profile));
        }
        assert_eq!(Profile::built_in("c6n"), None);
    }

    #[test]
    fn wrong_profiles_are_refused_with_line_and_what_is_allowed() {
        let text = BUILT_IN[0].1;
        let refusal = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Profile::parse(&text.replacen(from, to, 1)).unwrap_err().to_string()
        };
        let expect = |message: String, parts: &[&str]| {
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        };
        expect(refusal("wake_ns", "woke_ns"), &["line", "woke_ns", "wake_ns"]);
        expect(refusal("jitter_ns = ", "jitter_ns = -"), &["line", "jitter_ns", "0 to 1000000"]);
        expect(refusal("stages = ", "stages = 1000"), &["line", "stages", "to 100"]);
        expect(refusal("pause_random = ", "pause_random = 9"), &["pause_random", "0 to 1"]);
        expect(refusal("mtu_bytes = 8850", "mtu_bytes = 0"), &["mtu_bytes", "64 to"]);
        expect(refusal("one_way_ns = ", "one_way_ns = 0 #"), &["one_way_ns", "100 to"]);
        expect(refusal("stages = 14.4", "stages = nan"), &["stages", "NaN", "6 to 100"]);
        expect(refusal("[library]\npost_ns = ", "[library]\npost_ns = 0 #"), &["post_ns", "10 to"]);
    }
}
