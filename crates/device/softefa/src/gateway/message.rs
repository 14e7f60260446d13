//! What a program and the gateway say to each other, over a Unix socket that keeps messages apart
//! (RC-1.11).
//!
//! ```text
//!  0       1      2       4              20            24
//! +-------+------+-------+--------------+--------------+     a question; what is admitted comes with it
//! |version| kind | port  | address      | id           |
//! +-------+------+-------+--------------+--------------+
//! |version|status|   0   | key, 16 bytes, of what is admitted
//! +-------+------+-------+--------------
//! ```
//! The address is one of IPv6, or one of IPv4 that is mapped to it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustix::net::SocketAddrUnix;

use super::envelope::Key;
use super::mad::Id;
use crate::address::to_v6;

const VERSION: u8 = 2;
/// Bytes of a question.
pub(super) const QUESTION_LEN: usize = 24;
/// Bytes of an answer.
pub(super) const ANSWER_LEN: usize = 20;

/// The kind of traffic that a socket of a program receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatKind {
    /// Packets of the queue pairs whose numbers begin with its port.
    QueuePair,
    /// Messages of the connection manager: of the service at its port, and what answers the
    /// program.
    Connections,
}

/// The question of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Is this address served?
    Serves(IpAddr),
    /// Directs to the socket that comes along, from now on, what is for it; it is bound there.
    Admit(SocketAddr, SeatKind),
    /// No longer; without an answer.
    Release(SocketAddr),
    /// Directs to this program what answers this id of the connection manager.
    Claim(IpAddr, Id),
}

/// The answer of the gateway to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Done = 0,
    /// The gateway does not receive at that address.
    NotServed = 1,
    /// No socket came along, or one that is bound elsewhere.
    NoSocket = 2,
    /// Somebody else has it.
    Taken = 3,
    /// There is no room for more.
    Full = 4,
    /// The question was not understood.
    Strange = 5,
    /// The gateway has no file descriptor left, and lost the socket that came along.
    NoDescriptor = 6,
}

/// The name of the gateway of a UDP port, in the network namespace of both.
pub(super) fn name(port: u16) -> std::io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("softefa-gateway-{VERSION}-{port}").as_bytes())?)
}

impl Question {
    pub(super) fn emit(self) -> [u8; QUESTION_LEN] {
        let (kind, at, id) = match self {
            Self::Serves(addr) => (1, SocketAddr::new(addr, 0), 0),
            Self::Admit(at, SeatKind::QueuePair) => (2, at, 0),
            Self::Admit(at, SeatKind::Connections) => (3, at, 0),
            Self::Release(at) => (4, at, 0),
            Self::Claim(addr, Id { is_question: false, number }) => {
                (5, SocketAddr::new(addr, 0), number)
            }
            Self::Claim(addr, Id { is_question: true, number }) => {
                (6, SocketAddr::new(addr, 0), number)
            }
        };
        let mut out = [0; QUESTION_LEN];
        out[..2].copy_from_slice(&[VERSION, kind]);
        out[2..4].copy_from_slice(&at.port().to_be_bytes());
        out[4..20].copy_from_slice(&to_v6(at.ip()).octets());
        out[20..].copy_from_slice(&id.to_be_bytes());
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; QUESTION_LEN] = bytes.try_into().ok()?;
        let [VERSION, kind, high, low, rest @ ..] = *bytes else { return None };
        let (octets, id) = (rest.first_chunk::<16>()?, rest.last_chunk::<4>()?);
        let (port, number) = (u16::from_be_bytes([high, low]), u32::from_be_bytes(*id));
        let addr = IpAddr::V6(Ipv6Addr::from(*octets)).to_canonical();
        let at = SocketAddr::new(addr, port);
        Some(match kind {
            1 => Self::Serves(addr),
            2 => Self::Admit(at, SeatKind::QueuePair),
            3 => Self::Admit(at, SeatKind::Connections),
            4 => Self::Release(at),
            5 | 6 => Self::Claim(addr, Id { is_question: kind == 6, number }),
            _ => return None,
        })
    }
}

/// An answer; its key means something to who was admitted.
pub(super) fn answer(status: Status, key: Key) -> [u8; ANSWER_LEN] {
    let mut out = [0; ANSWER_LEN];
    out[..2].copy_from_slice(&[VERSION, status as u8]);
    out[4..].copy_from_slice(&key.0);
    out
}

/// Reads what [`answer`] has made.
pub(super) fn parse_answer(bytes: &[u8]) -> Option<(Status, Key)> {
    let bytes: &[u8; ANSWER_LEN] = bytes.try_into().ok()?;
    let [VERSION, status, 0, 0, key @ ..] = *bytes else { return None };
    let known = [
        Status::Done,
        Status::NotServed,
        Status::NoSocket,
        Status::Taken,
        Status::Full,
        Status::Strange,
        Status::NoDescriptor,
    ];
    Some((*known.get(usize::from(status))?, Key(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in() {
        let at = "10.0.0.1:40000".parse().unwrap();
        let id = |is_question| Id { is_question, number: 0xFEDC_BA98 };
        for question in [
            Question::Serves("10.0.0.1".parse().unwrap()),
            Question::Serves("2001:db8::7".parse().unwrap()),
            Question::Admit(at, SeatKind::QueuePair),
            Question::Admit(at, SeatKind::Connections),
            Question::Release(at),
            Question::Claim(at.ip(), id(false)),
            Question::Claim(at.ip(), id(true)),
        ] {
            assert_eq!(Question::parse(&question.emit()), Some(question));
        }
        let key = Key([9; 16]);
        for status in [Status::Done, Status::Taken, Status::NoDescriptor] {
            assert_eq!(parse_answer(&answer(status, key)), Some((status, key)));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let good = Question::Serves(IpAddr::from([127, 0, 0, 1])).emit();
        for (at, value) in [(0, 1), (1, 0), (1, 7), (1, 255)] {
            let mut bent = good;
            bent[at] = value;
            assert_eq!(Question::parse(&bent), None);
        }
        assert_eq!(Question::parse(&good[1..]), None);
        assert_eq!(Question::parse(&[&good[..], &[0]].concat()), None);
        assert_eq!(parse_answer(&[VERSION, 7, 0, 0]), None);
        assert_eq!(parse_answer(&[&[VERSION, 7][..], &[0; 18]].concat()), None);
    }
}
