//! The capture file format of Wireshark (pcapng, draft-ietf-opsawg-pcapng), as far as IP packets
//! need it.

use std::io::{self, Write};

/// The link type of packets that begin with an IPv4 or IPv6 header.
const LINKTYPE_RAW: u16 = 101;
/// The length of the longest packet.
const SNAP_BYTES: u32 = 65_535;

pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
pub(super) const PACKET: u32 = 6;
/// The magic number that gives the byte order of a section.
pub(super) const MAGIC: u32 = 0x1a2b_3c4d;

/// The number of an interface in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InterfaceId(u32);

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    In = 1,
    Out = 2,
}

/// A packet and its metadata.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    pub(super) interface: InterfaceId,
    /// Nanoseconds since 1970.
    pub(super) time_ns: u64,
    pub(super) direction: Direction,
    /// The network headers, followed by the captured part of the payload.
    pub(super) parts: [&'a [u8]; 2],
    /// The original length of the packet in bytes.
    pub(super) len: u32,
    pub(super) comment: Option<&'a str>,
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Writer<W> {
    out: W,
    interfaces: u32,
    body: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins the file.
    pub(super) fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, interfaces: 0, body: Vec::new() };
        let body = &mut writer.body;
        body.extend(MAGIC.to_ne_bytes());
        body.extend(1u16.to_ne_bytes());
        body.extend(0u16.to_ne_bytes());
        // The length of the section is not known yet.
        body.extend((-1i64).to_ne_bytes());
        option(body, 4, concat!("softefa ", env!("CARGO_PKG_VERSION")).as_bytes());
        end_of_options(body);
        writer.block(SECTION)?;
        Ok(writer)
    }

    /// Announces an interface that captures with nanoseconds.
    pub(super) fn interface(&mut self, name: &str, description: &str) -> io::Result<InterfaceId> {
        let body = &mut self.body;
        body.extend(LINKTYPE_RAW.to_ne_bytes());
        body.extend([0; 2]);
        body.extend(SNAP_BYTES.to_ne_bytes());
        option(body, 2, name.as_bytes());
        option(body, 3, description.as_bytes());
        option(body, 9, &[9]);
        end_of_options(body);
        self.block(INTERFACE)?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Adds a packet.
    pub(super) fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let captured: usize = packet.parts.iter().map(|part| part.len()).sum();
        let body = &mut self.body;
        body.extend(packet.interface.0.to_ne_bytes());
        timestamp(body, packet.time_ns);
        body.extend(u32::try_from(captured).unwrap_or(u32::MAX).to_ne_bytes());
        body.extend(packet.len.to_ne_bytes());
        packet.parts.iter().for_each(|part| body.extend(*part));
        pad(body);
        option(body, 2, &(packet.direction as u32).to_ne_bytes());
        if let Some(comment) = packet.comment {
            option(body, 1, comment.as_bytes());
        }
        end_of_options(body);
        self.block(PACKET)
    }

    /// Writes how many packets an interface had, and how many of them the capture lost.
    pub(super) fn statistics(
        &mut self,
        interface: InterfaceId,
        time_ns: u64,
        [all, lost]: [u64; 2],
    ) -> io::Result<()> {
        let body = &mut self.body;
        body.extend(interface.0.to_ne_bytes());
        timestamp(body, time_ns);
        option(body, 4, &all.to_ne_bytes());
        option(body, 5, &lost.to_ne_bytes());
        end_of_options(body);
        self.block(STATISTICS)
    }

    /// Hands everything to the operating system.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the body between its lengths.
    fn block(&mut self, kind: u32) -> io::Result<()> {
        let len = u32::try_from(self.body.len() + 12).map_err(io::Error::other)?;
        self.out.write_all(&kind.to_ne_bytes())?;
        self.out.write_all(&len.to_ne_bytes())?;
        self.out.write_all(&self.body)?;
        self.body.clear();
        self.out.write_all(&len.to_ne_bytes())
    }
}

fn timestamp(body: &mut Vec<u8>, time_ns: u64) {
    for half in [time_ns >> 32, time_ns & 0xffff_ffff] {
        #[expect(clippy::cast_possible_truncation, reason = "one half")]
        body.extend((half as u32).to_ne_bytes());
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = value.len().min(usize::from(u16::MAX));
    body.extend(code.to_ne_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "cut to fit")]
    body.extend((len as u16).to_ne_bytes());
    body.extend(&value[..len]);
    pad(body);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_framed_by_their_length_and_aligned() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        let interface = writer.interface("rdmap0s6", "a program").unwrap();
        let packet = Packet {
            interface,
            time_ns: 1 << 40,
            direction: Direction::Out,
            parts: [b"head", b"payload"],
            len: 11,
            comment: Some("lost"),
        };
        writer.packet(&packet).unwrap();
        writer.statistics(interface, 0, [1, 0]).unwrap();
        let mut kinds = Vec::new();
        let mut rest = file.as_slice();
        let word = |at: &[u8]| u32::from_ne_bytes(at[..4].try_into().unwrap());
        while !rest.is_empty() {
            let len = word(&rest[4..]) as usize;
            assert!(len % 4 == 0 && word(&rest[len - 4..]) as usize == len);
            kinds.push(word(rest));
            rest = &rest[len..];
        }
        assert_eq!(kinds, [SECTION, INTERFACE, PACKET, STATISTICS]);
    }
}
