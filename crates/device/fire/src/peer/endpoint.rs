//! A device with one queue pair and its memory.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use softefa::{
    Access, Ah, Config, Cq, Device, Gid, ModifyQp, Mr, Pd, Qp, QpInit, QpKind, QpState, Remote,
    SendData, SendOp, SendWr, Sge,
};

use super::pattern;

/// The queue key of all experiments.
const QKEY: u32 = 0xf1ee;
/// The number of receives that are kept posted.
pub(super) const RECEIVES: usize = 512;

/// The other end.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) ah: Arc<Ah>,
    qpn: u32,
    memory: u64,
    rkey: u32,
}

/// A device, one queue pair and their memory.
pub(super) struct Endpoint {
    pub(super) device: Arc<Device>,
    pub(super) pd: Arc<Pd>,
    pub(super) cq: Arc<Cq>,
    pub(super) qp: Arc<Qp>,
    mr: Arc<Mr>,
    /// Memory in slots: those to send from, to receive into, and for access by the peer.
    words: Box<[AtomicU64]>,
    depth: usize,
    /// Words of a slot that is sent from or exposed to the peer.
    send_words: usize,
    /// Words of a slot that is received into.
    recv_words: usize,
}

impl Endpoint {
    /// Opens the device that the environment names; operations have `bytes` (0 for the longest
    /// message).
    pub(super) fn open(depth: u32, bytes: u32) -> Result<Self> {
        let config = Config::from_env()?;
        let spec = config.devices.first().context("no device")?;
        let device = Device::open(spec, &config)?;
        let longest = device.attr().max_msg_bytes as usize / 8;
        let send_words = if bytes == 0 { longest } else { (bytes as usize / 8).max(2) };
        let (depth, recv_words) = (depth as usize, longest);
        let pd = device.alloc_pd()?;
        let cq = Cq::create(&device, 8192)?;
        // The last slot to send from belongs to guests.
        let total = (depth + 1) * send_words + RECEIVES * recv_words + depth * send_words;
        let words: Box<[AtomicU64]> = (0..total).map(|_| AtomicU64::new(0)).collect();
        let access = Access {
            local_write: true,
            remote_read: true,
            remote_write: true,
            ..Access::default()
        };
        let mr = pd.reg_mr(words.as_ptr() as usize as u64, total as u64 * 8, access)?;
        let qp = Qp::create(&pd, attributes(&cq))?;
        bring_up(&qp)?;
        let this = Self { device, pd, cq, qp, mr, words, depth, send_words, recv_words };
        for slot in 0..depth {
            pattern::fill(this.exposed(slot), pattern::EXPOSED, slot as u64);
        }
        (0..RECEIVES).try_for_each(|slot| this.post_recv(slot))?;
        Ok(this)
    }

    pub(super) fn bytes(&self) -> u32 {
        (self.send_words * 8) as u32
    }

    pub(super) fn slot(&self, slot: usize) -> &[AtomicU64] {
        &self.words[slot * self.send_words..(slot + 1) * self.send_words]
    }

    /// Returns the slot that only guests use.
    pub(super) fn guest_slot(&self) -> usize {
        self.depth
    }

    fn receive_at(&self, slot: usize) -> usize {
        (self.depth + 1) * self.send_words + slot * self.recv_words
    }

    /// Returns the first `bytes` that were received into a slot.
    pub(super) fn received(&self, slot: usize, bytes: u32) -> &[AtomicU64] {
        let at = self.receive_at(slot);
        &self.words[at..at + (bytes as usize / 8).min(self.recv_words)]
    }

    fn exposed_at(&self, slot: usize) -> usize {
        self.receive_at(RECEIVES) + slot * self.send_words
    }

    fn exposed(&self, slot: usize) -> &[AtomicU64] {
        let at = self.exposed_at(slot);
        &self.words[at..at + self.send_words]
    }

    /// Returns the address and key of the memory that is exposed to the peer.
    pub(super) fn memory(&self) -> (u64, u32) {
        (self.mr.addr() + self.exposed_at(0) as u64 * 8, self.mr.rkey())
    }

    fn sge(&self, at: usize, words: usize) -> Sge {
        Sge { addr: self.mr.addr() + at as u64 * 8, len: (words * 8) as u32, lkey: self.mr.lkey() }
    }

    pub(super) fn post_recv(&self, slot: usize) -> Result<()> {
        let sge = self.sge(self.receive_at(slot), self.recv_words);
        self.qp.post_recv(slot as u64, &[sge]).context("a receive cannot be posted")
    }

    /// Parses the words `ADDR QPN MEMORY RKEY` of a `peer` command.
    pub(super) fn target(&self, words: &[&str]) -> Result<Target> {
        let [addr, qpn, memory, rkey] = words else { anyhow::bail!("peer needs four words") };
        let addr: IpAddr = addr.parse()?;
        let ah = self.pd.create_ah(Gid::of_efa(addr))?;
        Ok(Target { ah, qpn: qpn.parse()?, memory: memory.parse()?, rkey: rkey.parse()? })
    }

    /// Posts an operation from slot `slot` of queue pair `qp`; `slot` is its id, too.
    pub(super) fn post(&self, qp: &Qp, target: &Target, op: SendOp, slot: usize) -> Result<()> {
        let sge = [self.sge(slot * self.send_words, self.send_words)];
        let wr = SendWr {
            wr_id: slot as u64,
            op,
            data: SendData::Sges(&sge),
            signaled: true,
            fenced: false,
            solicited: false,
            target: Some(softefa::Target { ah: &target.ah, qpn: target.qpn, qkey: QKEY }),
            remote_srq: 0,
            more: false,
        };
        qp.post_send(&wr).context("an operation cannot be posted")
    }

    /// Returns the peer's memory for this slot.
    pub(super) fn remote(&self, target: &Target, slot: usize) -> Remote {
        Remote { addr: target.memory + (slot * self.send_words * 8) as u64, rkey: target.rkey }
    }
}

/// Returns the attributes of queue pairs.
pub(super) fn attributes(cq: &Arc<Cq>) -> QpInit {
    QpInit {
        kind: QpKind::Srd,
        send_cq: Arc::clone(cq),
        recv_cq: Arc::clone(cq),
        sq_depth: 1024,
        rq_depth: 1024,
        sq_sge: 1,
        rq_sge: 1,
        inline_bytes: 0,
        sq_sig_all: true,
        unsolicited_write_recv: false,
        srq: None,
        events: None,
    }
}

/// Brings a queue pair to ReadyToSend.
pub(super) fn bring_up(qp: &Qp) -> Result<()> {
    let to = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    qp.modify(&ModifyQp {
        port: Some(1),
        pkey_index: Some(0),
        qkey: Some(QKEY),
        ..to(QpState::Init)
    })?;
    qp.modify(&to(QpState::ReadyToReceive))?;
    let ready = ModifyQp { sq_psn: Some(0), rnr_retry: Some(7), ..to(QpState::ReadyToSend) };
    Ok(qp.modify(&ready)?)
}
