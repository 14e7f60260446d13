//! Finds the program that a message of the connection manager is for (RC-1.12).

use cm::mad::Message;

/// The port spaces of librdmacm: a service id consists of one of them and the port (CM-2.3).
const SPACES: [u64; 4] = [0x0106, 0x0111, 0x0002, 0x013F];

/// The id that a program gives to a connection, or to a question for a datagram service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) is_question: bool,
    pub(super) number: u32,
}

/// How the recipient of a message is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// The message begins a conversation. It is for the program that serves this port, if the
    /// service has one; `id` is the sender's.
    Begins { port: Option<u16>, id: Id },
    /// The message is for the program with this id.
    Belongs(Id),
    /// The sender does not know the recipient's id; this is the sender's own id.
    Follows(Id),
}

/// Makes the id of a connection.
pub(super) fn connection(number: u32) -> Id {
    Id { is_question: false, number }
}

fn question(number: u32) -> Id {
    Id { is_question: true, number }
}

/// Returns how the recipient of a message is found.
pub(super) fn destination_of(message: &Message) -> Destination {
    match message {
        Message::Req(req) => {
            Destination::Begins { port: port_of(req.service_id), id: connection(req.local_comm_id) }
        }
        Message::SidrReq(req) => {
            Destination::Begins { port: port_of(req.service_id), id: question(req.request_id) }
        }
        Message::SidrRep(rep) => Destination::Belongs(question(rep.request_id)),
        Message::Rej(rej) if rej.remote_comm_id == 0 => {
            Destination::Follows(connection(rej.local_comm_id))
        }
        Message::Rej(rej) => Destination::Belongs(connection(rej.remote_comm_id)),
        Message::Mra(mra) => Destination::Belongs(connection(mra.remote_comm_id)),
        Message::Rep(rep) => Destination::Belongs(connection(rep.remote_comm_id)),
        Message::Rtu(rtu) => Destination::Belongs(connection(rtu.remote_comm_id)),
        Message::Dreq(dreq) => Destination::Belongs(connection(dreq.remote_comm_id)),
        Message::Drep(drep) => Destination::Belongs(connection(drep.remote_comm_id)),
    }
}

/// Returns the id by which later messages of the peer find the sender of this one; `None` if no
/// messages follow.
pub(super) fn id_to_claim(message: &Message) -> Option<Id> {
    match message {
        Message::Req(req) => Some(connection(req.local_comm_id)),
        Message::Mra(mra) => Some(connection(mra.local_comm_id)),
        Message::Rep(rep) => Some(connection(rep.local_comm_id)),
        Message::Rtu(rtu) => Some(connection(rtu.local_comm_id)),
        Message::SidrReq(req) => Some(question(req.request_id)),
        _ => None,
    }
}

fn port_of(service_id: u64) -> Option<u16> {
    let port = u16::try_from(service_id & 0xFFFF).ok()?;
    SPACES.contains(&(service_id >> 16)).then_some(port)
}

#[cfg(test)]
mod tests {
    use cm::mad::{Drep, Dreq, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};

    use super::*;

    #[test]
    fn a_message_says_whom_it_is_for() {
        let begins = |service_id| {
            destination_of(&Message::Req(Req { local_comm_id: 7, service_id, ..Req::ZERO }))
        };
        let of_port = |port| Destination::Begins { port, id: connection(7) };
        assert_eq!(begins(0x0106_1234), of_port(Some(0x1234)));
        assert_eq!(begins(0x0111_0001), of_port(Some(1)));
        assert_eq!(begins(0x013F_0001), of_port(Some(1)), "RDMA_PS_IB");
        assert_eq!(begins(0x0333_1234), of_port(None));
        let (local_comm_id, remote_comm_id) = (7, 9);
        let belong = [
            Message::Mra(Mra { local_comm_id, remote_comm_id, ..Mra::ZERO }),
            Message::Rej(Rej { local_comm_id, remote_comm_id, ..Rej::ZERO }),
            Message::Rep(Rep { local_comm_id, remote_comm_id, ..Rep::ZERO }),
            Message::Rtu(Rtu { local_comm_id, remote_comm_id, ..Rtu::ZERO }),
            Message::Dreq(Dreq { local_comm_id, remote_comm_id, ..Dreq::ZERO }),
            Message::Drep(Drep { local_comm_id, remote_comm_id, ..Drep::ZERO }),
        ];
        for message in belong {
            assert_eq!(destination_of(&message), Destination::Belongs(connection(9)));
        }
        let rej = Message::Rej(Rej { local_comm_id, ..Rej::ZERO });
        assert_eq!(destination_of(&rej), Destination::Follows(connection(7)));
        let asks = SidrReq { request_id: 7, service_id: 0x0111_0005, ..SidrReq::ZERO };
        let begins = Destination::Begins { port: Some(5), id: question(7) };
        assert_eq!(destination_of(&Message::SidrReq(asks)), begins);
        let answers = Message::SidrRep(SidrRep { request_id: 7, ..SidrRep::ZERO });
        assert_eq!(destination_of(&answers), Destination::Belongs(question(7)));
    }

    #[test]
    fn what_may_be_answered_is_claimed() {
        let claimed = [
            Message::Req(Req { local_comm_id: 7, ..Req::ZERO }),
            Message::Mra(Mra { local_comm_id: 7, ..Mra::ZERO }),
            Message::Rep(Rep { local_comm_id: 7, ..Rep::ZERO }),
            Message::Rtu(Rtu { local_comm_id: 7, ..Rtu::ZERO }),
        ];
        assert_eq!(claimed.map(|message| id_to_claim(&message)), [Some(connection(7)); 4]);
        let asks = Message::SidrReq(SidrReq { request_id: 7, ..SidrReq::ZERO });
        assert_eq!(id_to_claim(&asks), Some(question(7)));
        let others = [
            Message::Rej(Rej { local_comm_id: 7, ..Rej::ZERO }),
            Message::Dreq(Dreq { local_comm_id: 7, ..Dreq::ZERO }),
            Message::Drep(Drep { local_comm_id: 7, ..Drep::ZERO }),
            Message::SidrRep(SidrRep { request_id: 7, ..SidrRep::ZERO }),
        ];
        assert_eq!(others.map(|message| id_to_claim(&message)), [None; 4]);
    }
}
