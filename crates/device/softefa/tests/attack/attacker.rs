//! The process of another user, which learns what it can and sends datagrams that may do harm.

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

use crate::forge::{Dice, Forge};
use crate::learn::{self, QPN_FIRST};
use crate::sockets::{BATCH, Batch, become_nobody, send_batch, send_train};

/// Number of datagrams of a train.
const TRAIN: usize = 64;
const TRAIN_BYTES_MAX: usize = 60_000;

/// The orders of the attacker. All of them are public: which victims run, and where their devices
/// are.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    pub(crate) seed: u64,
    pub(crate) datagrams: u64,
    pub(crate) style: Style,
    pub(crate) pid: u32,
    pub(crate) victims: [Ipv4Addr; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// All kinds of datagrams.
    Mixed,
    /// Only guesses of the queue key, as fast as possible.
    Guesses { is_ud: bool },
}

impl Orders {
    pub(crate) fn emit(&self) -> String {
        let Self { seed, datagrams, style, pid, victims: [a, b] } = self;
        let style = match style {
            Style::Mixed => 0,
            Style::Guesses { is_ud } => 1 + u8::from(*is_ud),
        };
        format!("{seed} {datagrams} {style} {pid} {a} {b}")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            seed: words.next()?.parse().ok()?,
            datagrams: words.next()?.parse().ok()?,
            style: match words.next()? {
                "0" => Style::Mixed,
                style => Style::Guesses { is_ud: style == "2" },
            },
            pid: words.next()?.parse().ok()?,
            victims: [words.next()?.parse().ok()?, words.next()?.parse().ok()?],
        })
    }
}

/// The deeds of an attacker, as one line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deeds {
    pub(crate) sent: u64,
    /// Number of answers of the victims that came to its own ports.
    pub(crate) answers: u64,
    /// The number of these that were challenges, which it answered with a guess.
    pub(crate) challenges: u64,
}

impl Deeds {
    pub(crate) const WORD: &str = "attacker-sent";

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let rest = line.split_once(Self::WORD)?.1;
        let mut numbers = rest.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { sent: next()?, answers: next()?, challenges: next()? })
    }
}

struct Attacker {
    orders: Orders,
    forge: Forge,
    /// The numbers of queue pairs of each victim, followed by those of paths.
    qpns: [Vec<u16>; 2],
    paths: [Vec<u16>; 2],
    /// The sockets, bound to addresses of the victims and to others of loopback.
    sockets: Vec<UdpSocket>,
    batch: Batch,
    deeds: Deeds,
}

/// Runs as another user, and carries out the orders when its standard input says so.
pub(crate) fn attack(orders: Orders) {
    become_nobody().expect("another user");
    let secrets = learn::open_secrets(orders.pid);
    assert!(secrets.is_empty(), "another user can read {secrets:?}");
    let mut attacker = Attacker::new(orders);
    println!("attacker-ready {:?} {:?}", attacker.qpns, attacker.paths);
    std::io::stdout().flush().expect("said");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("told");
    attacker.run();
    let Deeds { sent, answers, challenges } = attacker.deeds;
    println!("\n{} {sent} {answers} {challenges}", Deeds::WORD);
}

/// Searches for secrets in files that its user can read.
pub(crate) fn snoop(dir: &Path, secrets: &[Vec<u8>]) {
    become_nobody().expect("another user");
    let leaks = learn::leaks(dir, secrets);
    println!("\nattacker-leaks {leaks:?}");
}

impl Attacker {
    fn new(orders: Orders) -> Self {
        let ports = orders.victims.map(learn::ports_of);
        let only = |is_path: bool| {
            let of = |ports: &Vec<u16>| {
                ports.iter().copied().filter(|port| (*port < QPN_FIRST) == is_path).collect()
            };
            [of(&ports[0]), of(&ports[1])]
        };
        let (qpns, paths) = (only(false), only(true));
        assert!(qpns.iter().all(|qpns: &Vec<u16>| !qpns.is_empty()), "/proc/net/udp tells numbers");
        let [a, b] = orders.victims;
        let mut dice = Dice(orders.seed);
        let elsewhere =
            |dice: &mut Dice| Ipv4Addr::from(0x7F00_0000 | (dice.roll() as u32 % (1 << 24)));
        let mut addrs = vec![a, a, a, a, b, b, b, b];
        addrs.extend((0..8).map(|_| elsewhere(&mut dice)));
        let bind = |addr| {
            let socket = UdpSocket::bind((addr, 0)).expect("a socket of another user");
            socket.set_nonblocking(true).expect("a socket that does not wait");
            socket
        };
        let sockets = addrs.into_iter().map(bind).collect();
        let memory = std::ptr::from_ref(&orders) as u64 & !0xFFF_FFFF;
        let forge = Forge { dice, memory, bytes: Vec::new() };
        Self {
            orders,
            forge,
            qpns,
            paths,
            sockets,
            batch: Batch::default(),
            deeds: Deeds::default(),
        }
    }

    fn run(&mut self) {
        let mut turn = 0;
        while self.deeds.sent < self.orders.datagrams {
            let at = turn % self.sockets.len();
            let victim = turn / self.sockets.len() % 2;
            match self.orders.style {
                Style::Mixed if turn % 5 == 4 => self.train(at, victim),
                Style::Mixed => self.salvo(at, victim),
                Style::Guesses { is_ud } => self.guesses(at, victim, is_ud),
            }
            if turn % 4 == 0 {
                self.listen(at, victim);
            }
            turn += 1;
        }
    }

    /// Returns the number of the sender that a datagram claims: the live peer, an invented number,
    /// that of the socket, or 0.
    fn source(&mut self, at: usize, victim: usize) -> u16 {
        let own = self.sockets[at].local_addr().map_or(0, |addr| addr.port());
        let Self { forge, qpns, .. } = self;
        match forge.dice.below(8) {
            0..=2 => forge.dice.pick(&qpns[1 - victim]),
            3..=4 => own,
            5 => forge.dice.pick(&[0, 1, 65_535]),
            _ => forge.dice.roll() as u16,
        }
    }

    fn salvo(&mut self, at: usize, victim: usize) {
        self.batch.clear();
        while self.batch.len() < BATCH {
            let src = self.source(at, victim);
            let dst = self.forge.dice.pick(&self.qpns[victim]);
            let is_to_path = !self.paths[victim].is_empty() && self.forge.dice.below(16) == 0;
            let port = match is_to_path {
                true => self.forge.dice.pick(&self.paths[victim]),
                false => dst,
            };
            let datagram = self.forge.make(src, dst);
            self.batch.push(port, datagram);
        }
        self.fire(at, victim);
    }

    fn fire(&mut self, at: usize, victim: usize) {
        let sent = send_batch(&self.sockets[at], self.orders.victims[victim], &self.batch);
        self.deeds.sent += sent as u64;
        // If nothing can be sent, the loop must not go on for ever.
        assert!(sent > 0, "{}", std::io::Error::last_os_error());
    }

    /// Sends a train that the victim's system delivers in one piece. Its datagrams differ, and are
    /// cut or padded to one length, which may not be the length in the first of them.
    fn train(&mut self, at: usize, victim: usize) {
        let segment = self.forge.dice.pick(&[1, 12, 24, 44, 52, 64, 76, 100, 320, 900]);
        let dst = self.forge.dice.pick(&self.qpns[victim]);
        let count = TRAIN.min(TRAIN_BYTES_MAX / segment);
        let mut train = Vec::with_capacity(count * segment);
        while train.len() < count * segment {
            let src = self.source(at, victim);
            let datagram = self.forge.make(src, dst);
            train.extend_from_slice(&datagram[..datagram.len().min(segment)]);
            train.resize(train.len().next_multiple_of(segment).max(segment), 0);
        }
        self.send(at, victim, dst, &train, segment);
    }

    fn guesses(&mut self, at: usize, victim: usize, is_ud: bool) {
        let dst = self.forge.dice.pick(&self.qpns[victim]);
        let mut train = Vec::new();
        let mut segment = 0;
        for _ in 0..TRAIN {
            let src = self.forge.dice.roll() as u16;
            let datagram = self.forge.guess(src, dst, is_ud);
            segment = datagram.len();
            train.extend_from_slice(datagram);
        }
        self.send(at, victim, dst, &train, segment);
    }

    fn send(&mut self, at: usize, victim: usize, dst: u16, train: &[u8], segment: usize) {
        let to = (self.orders.victims[victim], dst);
        let is_sent = send_train(&self.sockets[at], to, train, segment as u16);
        assert!(is_sent, "{}", std::io::Error::last_os_error());
        self.deeds.sent += train.len().div_ceil(segment) as u64;
    }

    /// Answers challenges that came to its own port, each with one more guess.
    fn listen(&mut self, at: usize, victim: usize) {
        let mut answer = [0; 512];
        self.batch.clear();
        let own = self.sockets[at].local_addr().map_or(0, |addr| addr.port());
        while self.batch.len() < BATCH {
            let Ok(len) = self.sockets[at].recv(&mut answer) else { break };
            self.deeds.answers += 1;
            if len == 28 && answer[0] == 0x14 {
                let number = |at| u64::from_be_bytes(std::array::from_fn(|i| answer[at + i]));
                let from = u16::from_be_bytes([answer[4], answer[5]]);
                if !self.qpns[victim].contains(&from) {
                    continue;
                }
                self.deeds.challenges += 1;
                let datagram = self.forge.answer(own, from, number(12), number(20));
                self.batch.push(from, datagram);
            }
        }
        if self.batch.len() > 0 {
            self.fire(at, victim);
        }
    }
}
