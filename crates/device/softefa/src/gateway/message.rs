//! The messages between a program and the gateway, over a Unix socket that preserves message
//! boundaries (RC-1.11).
//!
//! ```text
//!  0       1      2       4              20            24
//! +-------+------+-------+--------------+--------------+     a question; a socket is sent with it
//! |version| kind | port  | address      | id           |
//! +-------+------+-------+--------------+--------------+
//! |version|status|   0   | key, 16 bytes, of the registered socket
//! +-------+------+-------+--------------
//! ```
//! The address is an IPv6 address, or an IPv4 address that is mapped to IPv6.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustix::net::SocketAddrUnix;

use super::envelope::Key;
use super::mad::Id;
use crate::address::to_v6;

const VERSION: u8 = 2;
/// The length of a question.
pub(super) const QUESTION_LEN: usize = 24;
/// The length of an answer.
pub(super) const ANSWER_LEN: usize = 20;

/// The traffic that a program's socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    /// Packets of the queue pairs whose numbers begin with the socket's port.
    QueuePair,
    /// Messages of the connection manager: those for the service at the socket's port, and answers
    /// to the program.
    ConnectionManager,
}

/// A question of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Asks whether this address is served.
    Serves(IpAddr),
    /// Registers the UDP socket that comes with the question and is bound to this address: the
    /// gateway forwards what arrives for it.
    Register(SocketAddr, SocketKind),
    /// Unregisters a socket. There is no answer.
    Release(SocketAddr),
    /// Claims answers to this id of the connection manager for this program.
    Claim(IpAddr, Id),
}

/// The gateway's answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Done = 0,
    /// The gateway does not serve that address.
    NotServed = 1,
    /// No socket came with the question, or it is not bound to the address.
    NoSocket = 2,
    /// Another program has it.
    Taken = 3,
    /// A bound of the gateway is reached.
    Full = 4,
    /// The question is malformed, or its program is not registered.
    Invalid = 5,
    /// The gateway has no file descriptor left, and has lost the socket that came with the
    /// question.
    NoDescriptor = 6,
}

/// Returns the name of the gateway of a UDP port, in the network namespace that it shares with its
/// programs.
pub(super) fn name(port: u16) -> std::io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("softefa-gateway-{VERSION}-{port}").as_bytes())?)
}

impl Question {
    pub(super) fn emit(self) -> [u8; QUESTION_LEN] {
        let (kind, at, id) = match self {
            Self::Serves(addr) => (1, SocketAddr::new(addr, 0), 0),
            Self::Register(at, SocketKind::QueuePair) => (2, at, 0),
            Self::Register(at, SocketKind::ConnectionManager) => (3, at, 0),
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
            2 => Self::Register(at, SocketKind::QueuePair),
            3 => Self::Register(at, SocketKind::ConnectionManager),
            4 => Self::Release(at),
            5 | 6 => Self::Claim(addr, Id { is_question: kind == 6, number }),
            _ => return None,
        })
    }
}

/// Writes an answer. The key counts only for a socket that was registered.
pub(super) fn emit_answer(status: Status, key: Key) -> [u8; ANSWER_LEN] {
    let mut out = [0; ANSWER_LEN];
    out[..2].copy_from_slice(&[VERSION, status as u8]);
    out[4..].copy_from_slice(&key.0);
    out
}

/// Parses what [`emit_answer`] has written.
pub(super) fn parse_answer(bytes: &[u8]) -> Option<(Status, Key)> {
    let bytes: &[u8; ANSWER_LEN] = bytes.try_into().ok()?;
    let [VERSION, status, 0, 0, key @ ..] = *bytes else { return None };
    let known = [
        Status::Done,
        Status::NotServed,
        Status::NoSocket,
        Status::Taken,
        Status::Full,
        Status::Invalid,
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
            Question::Register(at, SocketKind::QueuePair),
            Question::Register(at, SocketKind::ConnectionManager),
            Question::Release(at),
            Question::Claim(at.ip(), id(false)),
            Question::Claim(at.ip(), id(true)),
        ] {
            assert_eq!(Question::parse(&question.emit()), Some(question));
        }
        let key = Key([9; 16]);
        for status in [Status::Done, Status::Taken, Status::NoDescriptor] {
            assert_eq!(parse_answer(&emit_answer(status, key)), Some((status, key)));
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
