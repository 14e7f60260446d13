//! Settings of an agent.

use std::time::Duration;

/// The shortest wait for an answer, whatever a message says (CM-4.6).
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Time between requests to a port without a listener.
pub(crate) const NO_LISTENER_WAIT: Duration = Duration::from_millis(10);

/// A network without a route may find one within this time; Linux takes 3 s for a neighbour that
/// does not answer.
pub(crate) const NO_ROUTE_WAIT: Duration = Duration::from_secs(2);

/// Times and limits of an [`Agent`](crate::Agent). Exponents are those of messages: 4.096 us x 2^n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Exponent of the time within which both sides answer a message, at most 31.
    pub response_timeout: u8,
    /// The number of times that a message without answer is repeated, at most 15.
    pub retries_max: u8,
    /// Exponent of the longest life of a datagram, at most 30. Ended connections are remembered
    /// for twice as long.
    pub packet_life_time: u8,
    /// Exponent of this side's delay before it acknowledges a packet.
    pub ack_delay: u8,
    /// Exponent of the time that this side asks for when its program has not decided yet.
    pub service_timeout: u8,
    /// How long requests are repeated to a port without a listener: the peer's program may be about
    /// to listen.
    pub no_listener_wait: Duration,
    /// The longest time that a peer's message can make this side wait for an answer.
    pub wait_max: Duration,
    /// Time between keepalives on an established connection (CM-4.10), when there are few
    /// connections; zero for no keepalives.
    pub keepalive: Duration,
    /// The most keepalives that an agent sends per second, at least 1: with more connections each
    /// gets them less often.
    pub keepalives_per_second_max: u32,
    /// Connections in every state, and unanswered service resolutions.
    pub connections_max: usize,
    /// Connections of peers that are not established yet, of all listeners.
    pub half_open_max: usize,
    /// Answers that may wait for transmission; what exceeds them counts as lost on the way.
    pub answers_max: usize,
}

impl Default for Config {
    /// Linux's times (an unanswered request ends after 16 x 4.8 s), and limits that a process holds
    /// in about 100 MB.
    fn default() -> Self {
        Self {
            response_timeout: 20,
            retries_max: 15,
            packet_life_time: 16,
            ack_delay: 15,
            service_timeout: 24,
            no_listener_wait: Duration::from_millis(200),
            wait_max: Duration::from_secs(300),
            keepalive: Duration::from_secs(1),
            keepalives_per_second_max: 256,
            connections_max: 65_536,
            half_open_max: 8_192,
            answers_max: 1_024,
        }
    }
}

impl Config {
    /// Returns how long an ended connection is remembered (CM-5.4).
    pub(crate) fn timewait(&self) -> Duration {
        time_of(self.packet_life_time + 1)
    }

    /// Returns the time until a message is repeated when its answer may take 4.096 us x
    /// 2^`exponent`.
    pub(crate) fn wait(&self, exponent: u8) -> Duration {
        time_of(exponent).clamp(WAIT_MIN, self.wait_max.max(WAIT_MIN))
    }

    /// Returns the time between keepalives on each of `connections` connections; `None` for no
    /// keepalives.
    pub(crate) fn keepalive_wait(&self, connections: usize) -> Option<Duration> {
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        let fair = Duration::from_secs(1) * connections / self.keepalives_per_second_max.max(1);
        (!self.keepalive.is_zero()).then(|| self.keepalive.max(fair))
    }

    /// Returns the time until a REQ or SIDR_REQ is repeated: the way there, the answer, and the way
    /// back.
    pub(crate) fn request_wait(&self) -> Duration {
        time_of(self.packet_life_time) * 2 + time_of(self.response_timeout)
    }
}

/// Returns 4.096 us x 2^`exponent`; exponents above 31 count as 31.
fn time_of(exponent: u8) -> Duration {
    Duration::from_nanos(4096 << exponent.min(31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_linuxs() {
        let config = Config::default();
        assert_eq!(config.wait(20).as_millis(), 4294);
        assert_eq!(config.request_wait().as_millis(), 4294 + 2 * 268 + 1);
        assert_eq!(config.timewait().as_millis(), 536);
    }

    #[test]
    fn many_connections_have_fewer_keepalives_each() {
        let config = Config::default();
        assert_eq!(config.keepalive_wait(1), Some(Duration::from_secs(1)));
        assert_eq!(config.keepalive_wait(256), Some(Duration::from_secs(1)));
        assert_eq!(config.keepalive_wait(65_536), Some(Duration::from_secs(256)));
        let never = Config { keepalive: Duration::ZERO, ..Config::default() };
        assert_eq!(never.keepalive_wait(1), None);
    }

    #[test]
    fn a_peer_can_make_nobody_hurry_or_wait_for_ever() {
        let config = Config::default();
        assert_eq!(config.wait(0), WAIT_MIN);
        assert_eq!(config.wait(255), config.wait_max);
    }
}
