//! Reads capture files (pcapng) packet by packet, including those of other programs.

use std::io::{self, Read};

use super::pcapng::{Direction, INTERFACE, MAGIC, PACKET, SECTION};

/// The length of the longest block; longer ones count as damaged.
const BLOCK_MAX: u32 = 16 << 20;
/// The bytes of a block in front of its body and behind it: kind, and length twice.
const FRAME_BYTES: u32 = 12;
const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPES_RAW: [u16; 2] = [101, 228];
const ETHERNET_BYTES: usize = 14;
/// The types of Ethernet frames with a packet of IPv4 and IPv6.
const ETHERTYPES_IP: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// The interface at which packets were captured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Interface {
    linktype: u16,
    name: String,
    ticks_per_s: u128,
}

/// A packet from its IP header on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The name of the interface; empty if it has none.
    pub(crate) interface: String,
    /// Nanoseconds since 1970.
    pub(crate) time_ns: u64,
    /// The direction; `None` if the capture does not contain it.
    pub(crate) direction: Option<Direction>,
    /// The bytes that were captured.
    pub(crate) bytes: Vec<u8>,
}

/// A file that is being read.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    input: R,
    is_swapped: bool,
    interfaces: Vec<Interface>,
    /// The file ended in the middle of a block, or with a damaged block.
    is_cut: bool,
}

impl<R: Read> Reader<R> {
    /// Makes a reader. Blocks before the first section are read in this machine's byte order.
    pub(crate) fn new(input: R) -> Self {
        Self { input, is_swapped: false, interfaces: Vec::new(), is_cut: false }
    }

    /// Returns true if the file did not end at the end of a block.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the next packet, or `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Packet>> {
        while let Some((kind, body)) = self.block()? {
            match kind {
                SECTION => self.interfaces.clear(),
                INTERFACE => self.announce(&body),
                PACKET => {
                    if let Some(packet) = self.packet(&body) {
                        return Ok(Some(packet));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the kind and the body of the next block.
    fn block(&mut self) -> io::Result<Option<(u32, Vec<u8>)>> {
        let mut head = [0; 8];
        match fill(&mut self.input, &mut head)? {
            0 => return Ok(None),
            8 => {}
            _ => return Ok(self.cut()),
        }
        let [mut kind, mut len] = [0, 4].map(|at| self.u32_at(&head, at));
        let mut magic = [0; 4];
        let mut begin = 0;
        if kind == SECTION {
            // The magic number tells the byte order of the section, which the length of the block
            // depends on.
            begin = fill(&mut self.input, &mut magic)?;
            self.is_swapped = u32::from_ne_bytes(magic) != MAGIC;
            [kind, len] = [0, 4].map(|at| self.u32_at(&head, at));
            if begin < magic.len() || self.u32_at(&magic, 0) != MAGIC {
                return Ok(self.cut());
            }
        }
        let is_likely = len % 4 == 0 && (FRAME_BYTES + 4..=BLOCK_MAX).contains(&len);
        if !is_likely {
            return Ok(self.cut());
        }
        let mut body = vec![0; (len - FRAME_BYTES) as usize];
        body[..begin].copy_from_slice(&magic[..begin]);
        let (wanted, mut tail) = (body.len() - begin, [0; 4]);
        let is_whole = fill(&mut self.input, &mut body[begin..])? == wanted
            && fill(&mut self.input, &mut tail)? == tail.len()
            && self.u32_at(&tail, 0) == len;
        if is_whole { Ok(Some((kind, body))) } else { Ok(self.cut()) }
    }

    fn cut<T>(&mut self) -> Option<T> {
        self.is_cut = true;
        None
    }

    /// Adds the interface that the block describes.
    fn announce(&mut self, body: &[u8]) {
        let mut interface = Interface {
            linktype: self.u16_at(body, 0),
            name: String::new(),
            ticks_per_s: 1_000_000,
        };
        for (code, value) in self.options(body, 8) {
            match (code, value) {
                (2, name) => interface.name = String::from_utf8_lossy(name).into_owned(),
                (9, [power, ..]) if power & 0x80 == 0 => {
                    interface.ticks_per_s = 10u128.saturating_pow((*power).into());
                }
                (9, [power, ..]) => interface.ticks_per_s = 1u128 << (power & 0x7f).min(100),
                _ => {}
            }
        }
        self.interfaces.push(interface);
    }

    /// Returns the packet of a block; `None` if no IP header is found.
    fn packet(&self, body: &[u8]) -> Option<Packet> {
        let interface = self.interfaces.get(self.u32_at(body, 0) as usize)?;
        let ticks = u128::from(self.u32_at(body, 4)) << 32 | u128::from(self.u32_at(body, 8));
        let time_ns = ticks * 1_000_000_000 / interface.ticks_per_s;
        let len = self.u32_at(body, 12) as usize;
        let bytes = body.get(20..20usize.checked_add(len)?)?;
        let is_out = |value: &[u8]| match self.u32_at(value, 0) & 3 {
            1 => Some(Direction::In),
            2 => Some(Direction::Out),
            _ => None,
        };
        let options = self.options(body, 20 + len.next_multiple_of(4));
        let direction = options.into_iter().find(|(code, _)| *code == 2);
        let begin = match interface.linktype {
            linktype if LINKTYPES_RAW.contains(&linktype) => 0,
            LINKTYPE_ETHERNET if ETHERTYPES_IP.contains(bytes.get(12..)?.first_chunk()?) => {
                ETHERNET_BYTES
            }
            _ => return None,
        };
        Some(Packet {
            interface: interface.name.clone(),
            time_ns: u64::try_from(time_ns).ok()?,
            direction: direction.and_then(|(_, value)| is_out(value)),
            bytes: bytes[begin..].to_vec(),
        })
    }

    /// Returns the codes and values of the options that begin at `at`.
    fn options<'a>(&self, body: &'a [u8], mut at: usize) -> Vec<(u16, &'a [u8])> {
        let mut options = Vec::new();
        while let Some(rest) = body.get(at..).filter(|rest| rest.len() >= 4) {
            let (code, len) = (self.u16_at(rest, 0), usize::from(self.u16_at(rest, 2)));
            let Some(value) = rest.get(4..4 + len).filter(|_| code != 0) else { break };
            options.push((code, value));
            at += 4 + len.next_multiple_of(4);
        }
        options
    }

    /// Returns a number in the byte order of the section; 0 if there is none.
    fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; 4]);
        let word = u32::from_ne_bytes(word);
        if self.is_swapped { word.swap_bytes() } else { word }
    }

    fn u16_at(&self, bytes: &[u8], at: usize) -> u16 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; 2]);
        let word = u16::from_ne_bytes(word);
        if self.is_swapped { word.swap_bytes() } else { word }
    }
}

/// Reads until `out` is full or the file ends, and returns the number of bytes read.
fn fill(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match input.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::super::pcapng::{self, Writer};
    use super::*;

    /// Returns a file with two packets of an interface.
    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        let interface = writer.interface("rdmap0s6.12", "a program").unwrap();
        for (direction, comment) in [(Direction::Out, None), (Direction::In, Some("seen"))] {
            let packet = pcapng::Packet {
                interface,
                time_ns: (1 << 40) + 7,
                direction,
                parts: [b"head", b"payload"],
                len: 11,
                comment,
            };
            writer.packet(&packet).unwrap();
        }
        writer.statistics(interface, 0, [2, 0]).unwrap();
        file
    }

    fn read(bytes: &[u8]) -> (Vec<Packet>, bool) {
        let mut reader = Reader::new(bytes);
        let mut packets = Vec::new();
        while let Some(packet) = reader.next().unwrap() {
            packets.push(packet);
        }
        (packets, reader.is_cut())
    }

    #[test]
    fn what_was_written_is_read() {
        let (packets, is_cut) = read(&file());
        let seen: Vec<_> = packets.iter().map(|packet| packet.direction).collect();
        assert_eq!((seen, is_cut), (vec![Some(Direction::Out), Some(Direction::In)], false));
        for packet in packets {
            assert_eq!((packet.interface.as_str(), packet.time_ns), ("rdmap0s6.12", (1 << 40) + 7));
            assert_eq!(packet.bytes, b"headpayload");
        }
    }

    #[test]
    fn a_file_that_is_cut_has_what_is_whole() {
        let file = file();
        for end in 1..file.len() {
            let (packets, _) = read(&file[..end]);
            assert!(packets.len() <= 2);
        }
        let (packets, is_cut) = read(&file[..file.len() - 1]);
        assert_eq!((packets.len(), is_cut), (2, true));
    }

    #[test]
    fn damage_is_borne() {
        let file = file();
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0xff;
            assert!(read(&damaged).0.len() <= 2);
        }
        assert_eq!(read(&[0xff; 64]), (vec![], true));
        assert_eq!(read(&[]), (vec![], false));
    }

    #[test]
    fn packets_of_both_versions_of_ip_are_found_behind_ethernet_headers() {
        let section = [SECTION, 28, MAGIC, 0x0000_0001, u32::MAX, u32::MAX, 28];
        let interface = [INTERFACE, 20, u32::from(LINKTYPE_ETHERNET), 0xffff, 20];
        let of = |ethertype: [u8; 2]| {
            let frame = [&[0; 12][..], &ethertype, &[0x60, 0]].concat();
            let head = [PACKET, 48, 0, 0, 5, 16, 16];
            let words = section.iter().chain(&interface).chain(&head);
            let mut file: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
            file.extend(frame);
            file.extend(48u32.to_ne_bytes());
            read(&file)
        };
        for (ethertype, found) in [([8, 0], 1), ([0x86, 0xdd], 1), ([8, 6], 0)] {
            let (packets, is_cut) = of(ethertype);
            assert_eq!((packets.len(), is_cut), (found, false), "{ethertype:x?}");
            assert!(packets.iter().all(|packet| packet.bytes == [0x60, 0]));
        }
    }

    #[test]
    fn the_other_byte_order_is_read() {
        let section = [0x0a0d_0d0a, 28, MAGIC, 0x0001_0000, u32::MAX, u32::MAX, 28];
        let interface = [1, 20, 101 << 16, 0xffff, 20];
        let packet = [6, 36, 0, 0, 5_000_000, 4, 4, 0x4500_0000, 36];
        let words = section.iter().chain(&interface).chain(&packet);
        let file: Vec<u8> = words.flat_map(|word: &u32| word.swap_bytes().to_ne_bytes()).collect();
        let (packets, is_cut) = read(&file);
        assert!(!is_cut && packets.len() == 1, "{packets:?}");
        assert_eq!((packets[0].time_ns, packets[0].bytes[0]), (5_000_000_000, 0x45));
    }
}
