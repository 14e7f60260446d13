//! Commands as bytes.

use super::abi::{
    Accept, Bind, BindIp, Connect, CreateId, DestroyId, Disconnect, GetEvent, InitQpAttr,
    JoinIpMcast, JoinMcast, Listen, MigrateId, Notify, Query, Reject, ResolveAddr, ResolveIp,
    ResolveRoute, SetOption,
};
use super::errno::Errno;

/// Length of the header.
const HEADER_LEN: usize = 8;
/// Length of CONNECT without the extensions of vendors.
const CONNECT_MIN: usize = 280;
/// Length of ACCEPT without the extensions of vendors.
const ACCEPT_MIN: usize = 288;

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the structures say what they are")]
#[allow(clippy::large_enum_variant, reason = "one lives at a time, on the stack")]
pub enum Command {
    CreateId(CreateId),
    DestroyId(DestroyId),
    BindIp(BindIp),
    ResolveIp(ResolveIp),
    ResolveRoute(ResolveRoute),
    QueryRoute(Query),
    Connect(Connect),
    Listen(Listen),
    Accept(Accept),
    Reject(Reject),
    Disconnect(Disconnect),
    InitQpAttr(InitQpAttr),
    GetEvent(GetEvent),
    SetOption(SetOption),
    Notify(Notify),
    JoinIpMcast(JoinIpMcast),
    LeaveMcast(DestroyId),
    MigrateId(MigrateId),
    Query(Query),
    Bind(Bind),
    ResolveAddr(ResolveAddr),
    JoinMcast(JoinMcast),
}

/// A command and the room that its caller has for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The command.
    pub command: Command,
    /// Bytes of room where the command says that the answer goes.
    pub out_len: usize,
}

impl Call {
    /// Reads what a program wrote. `write()` returns the length of `bytes` when the command
    /// succeeds.
    ///
    /// # Errors
    /// [`Errno::EINVAL`]: an unknown number, or lengths that contradict each other;
    /// [`Errno::ENOSYS`]: GET_OPTION, which Linux does not have either.
    pub fn parse(bytes: &[u8]) -> Result<Self, Errno> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Errno::EINVAL)?;
        let number = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let in_len = usize::from(u16::from_ne_bytes([header[4], header[5]]));
        let out_len = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let body = rest.get(..in_len).ok_or(Errno::EINVAL)?;
        Ok(Self { command: Command::parse(number, body)?, out_len })
    }
}

impl Command {
    fn parse(number: u32, body: &[u8]) -> Result<Self, Errno> {
        let command = match number {
            0 => CreateId::parse(body).map(Self::CreateId),
            1 => DestroyId::parse(body).map(Self::DestroyId),
            2 => BindIp::parse(body).map(Self::BindIp),
            3 => ResolveIp::parse(body).map(Self::ResolveIp),
            4 => ResolveRoute::parse(body).map(Self::ResolveRoute),
            5 => Query::parse(body).map(Self::QueryRoute),
            6 => {
                Connect::parse(&extended::<{ Connect::LEN }>(body, CONNECT_MIN)?).map(Self::Connect)
            }
            7 => Listen::parse(body).map(Self::Listen),
            8 => Accept::parse(&extended::<{ Accept::LEN }>(body, ACCEPT_MIN)?).map(Self::Accept),
            9 => Reject::parse(body).map(Self::Reject),
            10 => Disconnect::parse(body).map(Self::Disconnect),
            11 => InitQpAttr::parse(body).map(Self::InitQpAttr),
            12 => GetEvent::parse(body).map(Self::GetEvent),
            13 => return Err(Errno::ENOSYS),
            14 => SetOption::parse(body).map(Self::SetOption),
            15 => Notify::parse(body).map(Self::Notify),
            16 => JoinIpMcast::parse(body).map(Self::JoinIpMcast),
            17 => DestroyId::parse(body).map(Self::LeaveMcast),
            18 => MigrateId::parse(body).map(Self::MigrateId),
            19 => Query::parse(body).map(Self::Query),
            20 => Bind::parse(body).map(Self::Bind),
            21 => ResolveAddr::parse(body).map(Self::ResolveAddr),
            22 => JoinMcast::parse(body).map(Self::JoinMcast),
            _ => None,
        };
        command.ok_or(Errno::EINVAL)
    }
}

/// Extends a structure that older libraries send shorter, with zeros.
fn extended<const N: usize>(body: &[u8], min: usize) -> Result<[u8; N], Errno> {
    if body.len() < min {
        return Err(Errno::EINVAL);
    }
    let mut bytes = [0; N];
    let len = body.len().min(N);
    bytes[..len].copy_from_slice(&body[..len]);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a command as a program writes it.
    fn written(number: u32, body_len: usize, out_len: u16) -> Vec<u8> {
        let mut bytes = number.to_ne_bytes().to_vec();
        bytes.extend((body_len as u16).to_ne_bytes());
        bytes.extend(out_len.to_ne_bytes());
        bytes.resize(HEADER_LEN + body_len, 0);
        bytes
    }

    /// Shortest body of each command.
    const BODIES: [usize; 23] = [
        24, 16, 40, 64, 8, 16, 280, 8, 288, 264, 4, 16, 8, 0, 24, 8, 48, 16, 16, 16, 136, 272, 152,
    ];

    #[test]
    fn every_command_has_a_shortest_length() {
        for (number, len) in BODIES.into_iter().enumerate() {
            let parse = |len| Call::parse(&written(number as u32, len, 4));
            if number == 13 {
                assert_eq!(parse(100), Err(Errno::ENOSYS));
                continue;
            }
            assert_eq!(parse(len).map(|call| call.out_len), Ok(4), "command {number}");
            assert_eq!(parse(len - 1), Err(Errno::EINVAL), "command {number}");
            assert!(parse(len + 100).is_ok(), "later versions may be longer");
        }
    }

    #[test]
    fn contradictory_lengths_are_refused() {
        let good = written(7, 8, 0);
        assert!(Call::parse(&good).is_ok());
        assert_eq!(Call::parse(&good[..15]), Err(Errno::EINVAL), "shorter than it says");
        assert_eq!(Call::parse(&good[..7]), Err(Errno::EINVAL));
        assert_eq!(Call::parse(&[]), Err(Errno::EINVAL));
        assert_eq!(Call::parse(&written(23, 400, 0)), Err(Errno::EINVAL));
        assert_eq!(Call::parse(&written(u32::MAX, 400, 0)), Err(Errno::EINVAL));
    }

    #[test]
    fn older_libraries_say_nothing_of_extensions() {
        let mut bytes = written(6, 280, 0);
        bytes[HEADER_LEN + 272] = 9;
        let Ok(Call { command: Command::Connect(connect), .. }) = Call::parse(&bytes) else {
            panic!("CONNECT of 280 bytes");
        };
        assert_eq!((connect.id, connect.ece_vendor_id), (u32::from_ne_bytes([9, 0, 0, 0]), 0));
    }
}
