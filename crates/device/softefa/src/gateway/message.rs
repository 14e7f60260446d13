//! What a program and the gateway say to each other, over a Unix socket that keeps messages apart
//! (RC-1.11).
//!
//! ```text
//!  0       1      2       4              8             12
//! +-------+------+-------+--------------+--------------+     a question; what is admitted comes with it
//! |version| kind | port  | IPv4 address | id           |
//! +-------+------+-------+--------------+--------------+
//! |version|status|   0   | key, 16 bytes, of what is admitted
//! +-------+------+-------+--------------
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::net::SocketAddrUnix;

use super::envelope::Key;
use super::mad::Id;

const VERSION: u8 = 1;
/// Bytes of a question.
pub(super) const QUESTION_LEN: usize = 12;
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
    Serves(Ipv4Addr),
    /// Directs to the socket that comes along, from now on, what is for it; it is bound there.
    Admit(SocketAddrV4, SeatKind),
    /// No longer; without an answer.
    Release(SocketAddrV4),
    /// Directs to this program what answers this id of the connection manager.
    Claim(Ipv4Addr, Id),
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
}

/// The name of the gateway of a UDP port, in the network namespace of both.
pub(super) fn name(port: u16) -> std::io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("softefa-gateway-{VERSION}-{port}").as_bytes())?)
}

impl Question {
    pub(super) fn emit(self) -> [u8; QUESTION_LEN] {
        let (kind, at, id) = match self {
            Self::Serves(addr) => (1, SocketAddrV4::new(addr, 0), 0),
            Self::Admit(at, SeatKind::QueuePair) => (2, at, 0),
            Self::Admit(at, SeatKind::Connections) => (3, at, 0),
            Self::Release(at) => (4, at, 0),
            Self::Claim(addr, Id { is_question: false, number }) => {
                (5, SocketAddrV4::new(addr, 0), number)
            }
            Self::Claim(addr, Id { is_question: true, number }) => {
                (6, SocketAddrV4::new(addr, 0), number)
            }
        };
        let mut out = [0; QUESTION_LEN];
        out[..2].copy_from_slice(&[VERSION, kind]);
        out[2..4].copy_from_slice(&at.port().to_be_bytes());
        out[4..8].copy_from_slice(&at.ip().octets());
        out[8..].copy_from_slice(&id.to_be_bytes());
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; QUESTION_LEN] = bytes.try_into().ok()?;
        let [VERSION, kind, high, low, a, b, c, d, id @ ..] = *bytes else { return None };
        let (port, number) = (u16::from_be_bytes([high, low]), u32::from_be_bytes(id));
        let addr = Ipv4Addr::new(a, b, c, d);
        let at = SocketAddrV4::new(addr, port);
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
            Question::Serves(*"10.0.0.1:0".parse::<SocketAddrV4>().unwrap().ip()),
            Question::Admit(at, SeatKind::QueuePair),
            Question::Admit(at, SeatKind::Connections),
            Question::Release(at),
            Question::Claim(*at.ip(), id(false)),
            Question::Claim(*at.ip(), id(true)),
        ] {
            assert_eq!(Question::parse(&question.emit()), Some(question));
        }
        let key = Key([9; 16]);
        for status in [Status::Done, Status::Taken, Status::Strange] {
            assert_eq!(parse_answer(&answer(status, key)), Some((status, key)));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let good = Question::Serves(Ipv4Addr::LOCALHOST).emit();
        for (at, value) in [(0, 2), (1, 0), (1, 7), (1, 255)] {
            let mut bent = good;
            bent[at] = value;
            assert_eq!(Question::parse(&bent), None);
        }
        assert_eq!(Question::parse(&good[1..]), None);
        assert_eq!(Question::parse(&[&good[..], &[0]].concat()), None);
        assert_eq!(parse_answer(&[1, 6, 0, 0]), None);
        assert_eq!(parse_answer(&[&[1, 6][..], &[0; 18]].concat()), None);
    }
}
