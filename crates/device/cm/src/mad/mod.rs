//! Messages of the connection manager: management datagrams (MADs) of 256 bytes (CM-1.1).
//!
//! ```text
//!  0               4               8              12
//! +-------+-------+-------+-------+-------+-------+
//! |base   |class 7|class v|method |status |   0   |   versions 1 and 2, method 3 (send)
//! +-------+-------+-------+-------+-------+-------+
//! |        transaction id         |
//! +-------+-------+---------------+
//! |attribute| 0   |   modifier    |   which message it is
//! +---------+-----+---------------+
//! |  232 bytes of the message     |
//! ```

mod bits;
mod ip;
mod message;

use core::fmt;

pub use ip::IpHeader;
pub use message::{Drep, Dreq, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};

/// Length of every message.
pub const MAD_LEN: usize = 256;
/// Length of the header that all messages share.
const HEADER_LEN: usize = 24;

const BASE_VERSION: u8 = 1;
const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

/// Reasons of a [`Rej`]; other numbers are possible.
pub mod reason {
    /// No queue pair available.
    pub const NO_QP: u16 = 1;
    /// No resources.
    pub const NO_RESOURCES: u16 = 3;
    /// The other side has not answered in time.
    pub const TIMEOUT: u16 = 4;
    /// A request that cannot be served.
    pub const UNSUPPORTED: u16 = 5;
    /// No connection has that id.
    pub const INVALID_COMM_ID: u16 = 6;
    /// Nobody listens for that service.
    pub const INVALID_SERVICE_ID: u16 = 8;
    /// Another kind of queue pair than the listener's.
    pub const INVALID_TRANSPORT: u16 = 9;
    /// A connection of the same queue pair, or its aftermath, is still known.
    pub const STALE_CONNECTION: u16 = 10;
    /// The program refused.
    pub const CONSUMER_DEFINED: u16 = 28;
    /// An option of the vendor's that is not supported.
    pub const VENDOR_OPTION_NOT_SUPPORTED: u16 = 35;
}

/// Statuses of a [`SidrRep`].
pub mod sidr_status {
    /// The queue pair and its key are in the answer.
    pub const SUCCESS: u8 = 0;
    /// Nobody listens for that service.
    pub const UNSUPPORTED: u8 = 1;
    /// The program refused.
    pub const REJECT: u8 = 2;
    /// No queue pair available.
    pub const NO_QP: u8 = 3;
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the types say what they are")]
#[allow(clippy::large_enum_variant, reason = "all fill the same 256 bytes")]
pub enum Message {
    Req(Req),
    Mra(Mra),
    Rej(Rej),
    Rep(Rep),
    Rtu(Rtu),
    Dreq(Dreq),
    Drep(Drep),
    SidrReq(SidrReq),
    SidrRep(SidrRep),
}

/// A message and the number that ties an answer to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mad {
    /// Transaction id: an answer repeats that of its request.
    pub transaction_id: u64,
    /// The message that it carries.
    pub message: Message,
}

/// The reason why bytes are no supported message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Not 256 bytes but this many.
    Length(usize),
    /// Another base version or version of the class.
    Version(u8, u8),
    /// Another management class.
    Class(u8),
    /// Another method than send.
    Method(u8),
    /// A message of this class that is not used here: alternate paths (LAP 0x19, APR 0x1a, SAP
    /// 0x1b, SPR 0x1c), or information about the class.
    Unsupported(u16),
    /// No message of this class.
    Attribute(u16),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(len) => write!(f, "{len} bytes, and a MAD has {MAD_LEN}"),
            Self::Version(base, class) => write!(f, "MAD version {base}, class version {class}"),
            Self::Class(class) => write!(f, "management class {class:#x}, not {CLASS}"),
            Self::Method(method) => write!(f, "method {method:#x}, not {METHOD_SEND}"),
            Self::Unsupported(id) => write!(f, "CM message {id:#x} is not supported"),
            Self::Attribute(id) => write!(f, "attribute {id:#x} is no CM message"),
        }
    }
}

impl std::error::Error for ParseError {}

impl Mad {
    /// Reads a message (CM-2.1).
    ///
    /// # Errors
    /// [`ParseError`]: the bytes are no message that is used here.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mad: &[u8; MAD_LEN] = bytes.try_into().map_err(|_| ParseError::Length(bytes.len()))?;
        let attribute = u16::from_be_bytes([mad[16], mad[17]]);
        match (mad[0], mad[1], mad[2], mad[3]) {
            (_, class, ..) if class != CLASS => return Err(ParseError::Class(class)),
            (BASE_VERSION, _, CLASS_VERSION, METHOD_SEND) => {}
            (BASE_VERSION, _, CLASS_VERSION, method) => return Err(ParseError::Method(method)),
            (base, _, class, _) => return Err(ParseError::Version(base, class)),
        }
        let message = match attribute {
            0x10 => Message::Req(Req::read(mad)),
            0x11 => Message::Mra(Mra::read(mad)),
            0x12 => Message::Rej(Rej::read(mad)),
            0x13 => Message::Rep(Rep::read(mad)),
            0x14 => Message::Rtu(Rtu::read(mad)),
            0x15 => Message::Dreq(Dreq::read(mad)),
            0x16 => Message::Drep(Drep::read(mad)),
            0x17 => Message::SidrReq(SidrReq::read(mad)),
            0x18 => Message::SidrRep(SidrRep::read(mad)),
            0x01 | 0x19..=0x1C => return Err(ParseError::Unsupported(attribute)),
            _ => return Err(ParseError::Attribute(attribute)),
        };
        let transaction_id = mad[8..16].iter().fold(0, |id, &byte| id << 8 | u64::from(byte));
        Ok(Self { transaction_id, message })
    }

    /// Returns the sender's id of the connection or SIDR query, from the beginning of a message;
    /// `None` when that is too short. A SIDR_REP has the receiver's.
    pub(crate) fn sender_id(bytes: &[u8]) -> Option<u32> {
        let id = bytes.get(HEADER_LEN..)?.first_chunk()?;
        Some(u32::from_be_bytes(*id))
    }

    /// Returns the bytes of the message. A number that is wider than its field loses its highest
    /// bits.
    #[must_use]
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
        mad[8..16].copy_from_slice(&self.transaction_id.to_be_bytes());
        mad[16..18].copy_from_slice(&self.message.attribute().to_be_bytes());
        match &self.message {
            Message::Req(message) => message.write(&mut mad),
            Message::Mra(message) => message.write(&mut mad),
            Message::Rej(message) => message.write(&mut mad),
            Message::Rep(message) => message.write(&mut mad),
            Message::Rtu(message) => message.write(&mut mad),
            Message::Dreq(message) => message.write(&mut mad),
            Message::Drep(message) => message.write(&mut mad),
            Message::SidrReq(message) => message.write(&mut mad),
            Message::SidrRep(message) => message.write(&mut mad),
        }
        mad
    }
}

impl Message {
    /// Returns the attribute id by which the common header names the message.
    #[must_use]
    pub const fn attribute(&self) -> u16 {
        match self {
            Self::Req(_) => 0x10,
            Self::Mra(_) => 0x11,
            Self::Rej(_) => 0x12,
            Self::Rep(_) => 0x13,
            Self::Rtu(_) => 0x14,
            Self::Dreq(_) => 0x15,
            Self::Drep(_) => 0x16,
            Self::SidrReq(_) => 0x17,
            Self::SidrRep(_) => 0x18,
        }
    }
}
