//! Which program a message of the connection manager is for (RC-1.12). Only as much of it is read
//! as that takes.

/// Length of every message.
pub(super) const LEN: usize = 256;

/// Base version, class (communication management), class version, method (send).
const HEADER: [u8; 4] = [1, 7, 2, 3];
/// The offsets at which the message names itself, its sender's id, its receiver's, the service.
const ATTRIBUTE_AT: usize = 16;
const LOCAL_AT: usize = 24;
const REMOTE_AT: usize = 28;
const SERVICE_AT: usize = 32;

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const DREP: u16 = 0x16;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;
/// Port spaces of librdmacm: the service id is one of them and the port (CM-2.3).
const SPACES: [u64; 3] = [0x0106, 0x0111, 0x0002];

/// The id that a program gives a connection, or a question for a datagram service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) is_question: bool,
    pub(super) number: u32,
}

/// The way in which the receiver of a message is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// It begins something: whoever serves this port, if the service has one. `id` is the sender's.
    Begins { port: Option<u16>, id: Id },
    /// Whoever has this id.
    Belongs(Id),
    /// The receiver's id is not known to the sender, whose own is this.
    Follows(Id),
}

/// `None` for what is no message of the connection manager.
pub(super) fn destination_of(mad: &[u8]) -> Option<Destination> {
    let mad: &[u8; LEN] = mad.try_into().ok()?;
    let attribute = attribute_of(mad)?;
    let id = |at| Id { is_question: attribute >= SIDR_REQ, number: u32_at(mad, at) };
    Some(match attribute {
        REQ | SIDR_REQ => Destination::Begins { port: port_of(mad), id: id(LOCAL_AT) },
        SIDR_REP => Destination::Belongs(id(LOCAL_AT)),
        REJ if u32_at(mad, REMOTE_AT) == 0 => Destination::Follows(id(LOCAL_AT)),
        _ => Destination::Belongs(id(REMOTE_AT)),
    })
}

/// Returns the id that the sender of a message has for its connection, when an answer may name it.
pub(super) fn id_to_claim(mad: &[u8]) -> Option<Id> {
    let mad: &[u8; LEN] = mad.try_into().ok()?;
    match attribute_of(mad)? {
        attribute @ (REQ | MRA | REP | SIDR_REQ) => {
            let is_question = attribute == SIDR_REQ;
            Some(Id { is_question, number: u32_at(mad, LOCAL_AT) })
        }
        _ => None,
    }
}

fn attribute_of(mad: &[u8; LEN]) -> Option<u16> {
    let attribute = u16::from_be_bytes([mad[ATTRIBUTE_AT], mad[ATTRIBUTE_AT + 1]]);
    let is_known = (REQ..=DREP).contains(&attribute) || [SIDR_REQ, SIDR_REP].contains(&attribute);
    (mad[..4] == HEADER && is_known).then_some(attribute)
}

fn port_of(mad: &[u8; LEN]) -> Option<u16> {
    let high = u64::from(u32_at(mad, SERVICE_AT)) << 32;
    let service = high | u64::from(u32_at(mad, SERVICE_AT + 4));
    let port = u16::try_from(service & 0xFFFF).ok()?;
    SPACES.contains(&(service >> 16)).then_some(port)
}

fn u32_at(mad: &[u8; LEN], at: usize) -> u32 {
    u32::from_be_bytes([mad[at], mad[at + 1], mad[at + 2], mad[at + 3]])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message with these ids (for a REQ the second is of the service).
    pub(in crate::gateway) fn mad(attribute: u16, local: u32, remote: u32) -> [u8; LEN] {
        let mut mad = [0; LEN];
        mad[..4].copy_from_slice(&HEADER);
        mad[ATTRIBUTE_AT..ATTRIBUTE_AT + 2].copy_from_slice(&attribute.to_be_bytes());
        mad[LOCAL_AT..REMOTE_AT].copy_from_slice(&local.to_be_bytes());
        let at = if [REQ, SIDR_REQ].contains(&attribute) { SERVICE_AT + 4 } else { REMOTE_AT };
        mad[at..at + 4].copy_from_slice(&remote.to_be_bytes());
        mad
    }

    fn connection(number: u32) -> Id {
        Id { is_question: false, number }
    }

    #[test]
    fn a_message_says_whom_it_is_for() {
        let begins = |port| Some(Destination::Begins { port, id: connection(7) });
        assert_eq!(destination_of(&mad(REQ, 7, 0x0106_1234)), begins(Some(0x1234)));
        assert_eq!(destination_of(&mad(REQ, 7, 0x0111_0001)), begins(Some(1)));
        assert_eq!(destination_of(&mad(REQ, 7, 0x0333_1234)), begins(None));
        for attribute in MRA..=DREP {
            let destination = destination_of(&mad(attribute, 7, 9));
            assert_eq!(destination, Some(Destination::Belongs(connection(9))), "{attribute:#x}");
        }
        assert_eq!(destination_of(&mad(REJ, 7, 0)), Some(Destination::Follows(connection(7))));
        let question = Id { is_question: true, number: 7 };
        let asks = Destination::Begins { port: Some(5), id: question };
        assert_eq!(destination_of(&mad(SIDR_REQ, 7, 0x0111_0005)), Some(asks));
        assert_eq!(destination_of(&mad(SIDR_REP, 7, 0)), Some(Destination::Belongs(question)));
    }

    #[test]
    fn what_may_be_answered_is_claimed() {
        let claimed = |attribute| id_to_claim(&mad(attribute, 7, 9)).map(|id| id.is_question);
        assert_eq!([REQ, MRA, REP].map(claimed), [Some(false); 3]);
        assert_eq!(claimed(SIDR_REQ), Some(true));
        assert_eq!([REJ, 0x14, 0x15, DREP, SIDR_REP].map(claimed), [None; 5]);
    }

    #[test]
    fn what_is_none_is_for_nobody() {
        let good = mad(REQ, 1, 2);
        for at in [0, 1, 2, 3, 16, 17] {
            let mut bent = good;
            bent[at] ^= 0x60;
            assert_eq!(destination_of(&bent), None, "byte {at}");
        }
        assert_eq!(destination_of(&good[1..]), None);
        assert_eq!(destination_of(&mad(0x19, 1, 2)), None, "alternate paths are not served");
    }
}
