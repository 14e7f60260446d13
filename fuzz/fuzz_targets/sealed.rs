//! Any bytes as what a stranger sends to a queue pair with a key, between genuine datagrams,
//! repeated and bent ones: only what the peer has sealed is opened, and once.
#![no_main]

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use softefa::seal::{
    ENVELOPE_BYTES, Envelope, Notice, Opener, Reader, Refusal, SealKey, Sealer, TAG_BYTES,
    datagram_len,
};

const A_QPN: u16 = 16_400;
const B_QPN: u16 = 17_000;
const SESSION: u64 = 7;

static KEY: LazyLock<SealKey> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("softefa-fuzz-key-{}", std::process::id()));
    std::fs::write(&path, [5; 32]).expect("a key file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a key file of ours");
    let key = SealKey::read(&path).expect("the key file is one");
    std::fs::remove_file(&path).expect("the key file is there");
    key
});

/// One that fits what is behind it.
fn envelope(behind: &[u8], counter: u8) -> [u8; ENVELOPE_BYTES] {
    let len = (ENVELOPE_BYTES + behind.len()) as u16;
    let counter = u64::from(counter) << (counter % 40);
    Envelope { len, src_qpn: A_QPN, dst_qpn: B_QPN, session: SESSION, counter }.emit()
}

/// Both ends, and what was sealed: whether it was opened before.
struct Ends {
    a: SocketAddr,
    b: SocketAddr,
    sealer: Sealer,
    opener: Opener,
    sealed: Vec<(Vec<u8>, bool)>,
}

fuzz_target!(|bytes: &[u8]| {
    // Of the whole input, because addresses go into the key: libFuzzer sees what is compared, and
    // would put into another input what was sealed in this one.
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(bytes);
    let ip = |bits: u32| match hash % 2 {
        0 => IpAddr::from(Ipv4Addr::from_bits(bits)),
        _ => IpAddr::from(Ipv6Addr::from_bits(0xfd << 120 | u128::from(bits))),
    };
    let a = SocketAddr::new(ip((hash >> 32) as u32), A_QPN);
    let b = SocketAddr::new(ip(hash as u32), B_QPN);
    let (sealer, opener) = (Sealer::new(&KEY, a, SESSION), Opener::new(&KEY, b));
    let mut ends = Ends { a, b, sealer, opener, sealed: Vec::new() };
    let mut rest = bytes;
    for _ in 0..200 {
        let Some(([op, place, len], behind)) = rest.split_first_chunk() else { return };
        let (own, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = behind;
        match op % 6 {
            0 => ends.stranger(own),
            1 => ends.stranger(&[&envelope(own, *place)[..], own].concat()),
            2 => ends.seal(own, place % 8 != 0),
            3 => ends.replay(*place),
            4 => ends.bend(*place, own),
            _ => ends.notice(*place, own),
        }
    }
});

impl Ends {
    fn open(&mut self, datagram: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut bytes = datagram.to_vec();
        let inner = self.opener.open(self.a.ip(), &mut bytes)?;
        Ok(bytes[inner].to_vec())
    }

    /// What nobody with the key has made.
    fn stranger(&mut self, datagram: &[u8]) {
        assert!(self.open(datagram).is_err(), "a stranger got in");
        let mut bytes = datagram.to_vec();
        let read = Reader::new(&KEY).open(self.a.ip(), self.b.ip(), &mut bytes);
        assert!(read.is_err(), "a stranger was read");
        if let Some(len) = datagram_len(datagram) {
            assert!(len >= 32, "a train is cut into pieces of {len} bytes");
        }
        if let Some(notice) = Notice::about(datagram) {
            assert!(notice.emit().len() < datagram.len(), "a notice is longer than its reason");
            assert_eq!(Notice::parse(&notice.emit()), Some(notice));
        }
        if let Some(notice) = Notice::parse(datagram) {
            assert_eq!(notice.emit(), datagram);
            assert_eq!(Notice::about(datagram), None, "a notice is answered");
        }
    }

    fn seal(&mut self, payload: &[u8], is_consistent: bool) {
        let src_qpn = if is_consistent { A_QPN } else { A_QPN + 1 };
        let mut bytes = vec![0; ENVELOPE_BYTES];
        bytes.extend([0x10, 0x10, 0, 3]);
        bytes.extend(src_qpn.to_be_bytes());
        bytes.extend(B_QPN.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        let inner = bytes[ENVELOPE_BYTES..].to_vec();
        bytes.extend([0; TAG_BYTES]);
        self.sealer.seal(self.b, &mut bytes).expect("it has a length that can be sealed");
        if is_consistent {
            // Some are opened later, if ever.
            let is_opened = payload.first().is_none_or(|first| first % 2 == 0);
            if is_opened {
                assert_eq!(self.open(&bytes), Ok(inner));
            }
            self.sealed.push((bytes, is_opened));
        } else {
            assert_eq!(self.open(&bytes), Err(Refusal::Contradiction));
        }
    }

    fn replay(&mut self, which: u8) {
        let count = self.sealed.len();
        let Some(at) = usize::from(which).checked_rem(count) else { return };
        let (bytes, is_opened) = self.sealed[at].clone();
        let opened = self.open(&bytes);
        if is_opened {
            assert_eq!(opened, Err(Refusal::Replayed));
        } else {
            opened.expect("it comes for the first time, within the window");
            self.sealed[at].1 = true;
        }
    }

    /// Bytes of a genuine one are others.
    fn bend(&mut self, which: u8, masks: &[u8]) {
        let Some(at) = usize::from(which).checked_rem(self.sealed.len()) else { return };
        let mut bytes = self.sealed[at].0.clone();
        bytes.iter_mut().zip(masks).for_each(|(byte, mask)| *byte ^= mask);
        if !self.sealed.iter().any(|(own, _)| *own == bytes) {
            assert!(self.open(&bytes).is_err(), "a bent one was opened");
        }
    }

    /// What somebody says of what we have sent: only what quotes it is believed, and of a silent
    /// peer alone.
    fn notice(&mut self, which: u8, masks: &[u8]) {
        let Some(at) = usize::from(which).checked_rem(self.sealed.len()) else { return };
        let Some(notice) = Notice::about(&self.sealed[at].0) else { return };
        let mut raw = notice.emit();
        raw.iter_mut().zip(masks).for_each(|(byte, mask)| *byte ^= mask);
        let Some(bent) = Notice::parse(&raw) else { return };
        let silent = Opener::new(&KEY, self.a);
        if bent == notice {
            assert_eq!(self.sealer.refused_by(&notice, self.b.ip(), &silent), Some(self.b));
        }
        let to = self.sealer.refused_by(&bent, self.b.ip(), &silent);
        assert!(to.is_none_or(|to| to == self.b), "{to:?} was never sent anything");
    }
}
