//! Opening a queue pair with its memory, and connecting it.

use std::ptr::{NonNull, null_mut};

use verbs_abi::*;

use crate::device::{Device, Facts, PORT};
use crate::endpoint::{Endpoint, Peer, Remote};
use crate::error::{Error, check};
use crate::library::Functions;
use crate::memory::{Geometry, ProtectionDomain, Region, Slots};
use crate::poll::Queue;
use crate::poster::Poster;
use crate::sys;

/// The key of all datagrams; the queue pair number tells flows apart.
const QKEY: u32 = 0x0efa_be9c;
/// Length of the receivers' prefix of UD messages: room for a global routing header.
const GRH_BYTES: usize = 40;
/// Length of inline data to ask for where the device does not tell.
const INLINE_BYTES: u32 = 64;
/// Maximum number of reads that an RC queue pair has in flight.
const RC_READS_MAX: u8 = 16;
const ADDRESS_BYTES: usize = 16 + 2 + 4 + 4 + 1 + 1;

/// Kind of queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// EFA's scalable reliable datagrams.
    Srd,
    /// Unreliable datagrams.
    Ud,
    /// A reliable connection.
    Rc,
}

impl Transport {
    /// Returns its name in capital letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Srd => "SRD",
            Self::Ud => "UD",
            Self::Rc => "RC",
        }
    }
}

/// The queue pair and the memory to open.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the device; `None` for the first.
    pub device: Option<String>,
    /// Kind of queue pair.
    pub transport: Transport,
    /// Number of slots for operations that this side posts, `0..tx_slots`. It may exceed
    /// `tx_depth`.
    pub tx_slots: usize,
    /// Number of sends, reads and writes that may be in flight.
    pub tx_depth: usize,
    /// Number of receives that may be posted; their slots follow.
    pub rx_slots: usize,
    /// Number of bytes of a slot.
    pub payload_bytes: usize,
    /// Number of bytes that the peer may read and write; with 0 neither side reads or writes the
    /// other's memory.
    pub window_bytes: usize,
    /// Whether the peer may change the window atomically, too; only connections do.
    pub atomics: bool,
    /// Whether a program can sleep for completions ([`Endpoint::arm`]).
    pub events: bool,
}

/// A queue pair with its memory that has no peer yet.
pub struct Prepared {
    // Field order is closing order.
    qp: QueuePair,
    queue: Queue,
    slots: Slots,
    window: Option<Region>,
    pd: ProtectionDomain,
    inline_bytes: usize,
    config: Config,
}

/// A queue pair, destroyed on drop.
pub(crate) struct QueuePair {
    raw: NonNull<ibv_qp>,
    pub(crate) transport: Transport,
}

impl QueuePair {
    pub(crate) const fn raw(&self) -> *mut ibv_qp {
        self.raw.as_ptr()
    }

    fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive.
        unsafe { self.raw.as_ref().qp_num }
    }

    fn modify(&self, attr: &mut ibv_qp_attr, mask: i32) -> Result<(), Error> {
        // SAFETY: the queue pair is alive, the attributes are read during the call.
        check("ibv_modify_qp", unsafe { sys::ibv_modify_qp(self.raw(), attr, mask) })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, before its completion queue and memory.
        unsafe { sys::ibv_destroy_qp(self.raw()) };
    }
}

impl Prepared {
    /// Opens the device, the queue pair and its memory.
    ///
    /// # Errors
    /// Returns [`Error::NoLibrary`], [`Error::NoDevice`], [`Error::Unsupported`] when it lacks the
    /// transport, RDMA or atomics, [`Error::NoAtomics`], [`Error::TooLong`], [`Error::NoMemory`],
    /// else [`Error::Call`].
    pub fn open(config: &Config) -> Result<Self, Error> {
        let device = Device::open(config.device.as_deref())?;
        let facts = device.facts();
        if config.atomics {
            can_do_atomics(config.transport, facts)?;
        }
        let max = facts.longest_bytes(config.transport, config.window_bytes > 0);
        // A device without READ and WRITE says so when the queue pair is made.
        if max > 0 && config.payload_bytes > max {
            return Err(Error::TooLong { len: config.payload_bytes, max });
        }
        let mut config = config.clone();
        let deepest = deepest(facts);
        config.tx_depth = config.tx_depth.clamp(1, deepest);
        config.rx_slots = config.rx_slots.clamp(1, deepest);
        config.tx_slots = config.tx_slots.max(1);
        let pd = ProtectionDomain::open(device)?;
        let prefix_bytes = if config.transport == Transport::Ud { GRH_BYTES } else { 0 };
        let slots = config.tx_slots + config.rx_slots;
        let geometry = Geometry { slots, payload_bytes: config.payload_bytes, prefix_bytes };
        let slots = Slots::new(&pd, geometry, IBV_ACCESS_LOCAL_WRITE)?;
        let remote = remote_access(config.atomics);
        let window = (config.window_bytes > 0)
            .then(|| Region::new(&pd, config.window_bytes, IBV_ACCESS_LOCAL_WRITE | remote))
            .transpose()?;
        let queue = Queue::open(&pd.device, config.tx_depth + config.rx_slots, config.events)?;
        let (qp, inline_bytes) = create(&pd, &queue, &config)?;
        init(&qp, remote)?;
        Ok(Self { qp, queue, slots, window, pd, inline_bytes, config })
    }

    /// Returns the facts of the device.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.pd.device.facts()
    }

    /// Returns the longest message that can be sent, or read and written where there is a window,
    /// in bytes.
    #[must_use]
    pub fn longest_bytes(&self) -> usize {
        self.facts().longest_bytes(self.config.transport, self.config.window_bytes > 0)
    }

    /// Returns the maximum number of operations that either queue can hold.
    #[must_use]
    pub fn deepest(&self) -> usize {
        deepest(self.facts())
    }

    /// Returns the longest message that can be sent inline, in bytes.
    #[must_use]
    pub const fn inline_bytes(&self) -> usize {
        self.inline_bytes
    }

    /// Returns [`Config::tx_depth`], or less where the device takes no more.
    #[must_use]
    pub const fn tx_depth(&self) -> usize {
        self.config.tx_depth
    }

    /// Returns the address that the peer's [`Prepared::connect`] needs.
    #[must_use]
    pub fn address(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ADDRESS_BYTES);
        // SAFETY: every bit pattern of the union is 16 bytes.
        let gid = unsafe { self.pd.device.gid().raw };
        bytes.extend_from_slice(&gid);
        bytes.extend_from_slice(&self.pd.device.port().lid.to_le_bytes());
        bytes.extend_from_slice(&self.qp.number().to_le_bytes());
        bytes.extend_from_slice(&QKEY.to_le_bytes());
        bytes.push(u8::try_from(self.pd.device.port().active_mtu).unwrap_or(0));
        bytes.push(reads(self.facts()));
        bytes
    }

    /// Returns the parameters that the peer needs to use our window; empty without one.
    #[must_use]
    pub fn window(&self) -> Vec<u8> {
        self.window.as_ref().map_or_else(Vec::new, |region| {
            let remote = Remote {
                addr: region.start() as u64,
                len: region.len_bytes() as u64,
                rkey: region.rkey(),
            };
            remote.to_bytes().to_vec()
        })
    }

    /// Connects to the peer of that address.
    ///
    /// # Errors
    /// Returns [`Error::Garbled`] or [`Error::Call`].
    pub fn connect(self, address: &[u8]) -> Result<Endpoint, Error> {
        let theirs = Address::parse(address).ok_or(Error::Garbled("address"))?;
        ready(&self.qp, &theirs, &self.pd.device)?;
        let peer = Peer::new(&self.pd, &self.qp, &theirs)?;
        let poster = Poster::new(&self.qp, self.window.is_some())?;
        let Self { qp, queue, slots, window, pd, config, .. } = self;
        Ok(Endpoint::new(poster, peer, qp, queue, slots, window, pd, &config))
    }
}

/// The address of a peer, as it sent it.
pub(crate) struct Address {
    pub(crate) gid: [u8; 16],
    pub(crate) lid: u16,
    pub(crate) number: u32,
    pub(crate) qkey: u32,
    mtu: u8,
    /// Number of READs that it takes at a time from a connection.
    reads: u8,
}

impl Address {
    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != ADDRESS_BYTES {
            return None;
        }
        Some(Self {
            gid: bytes[..16].try_into().ok()?,
            lid: u16::from_le_bytes(bytes[16..18].try_into().ok()?),
            number: u32::from_le_bytes(bytes[18..22].try_into().ok()?),
            qkey: u32::from_le_bytes(bytes[22..26].try_into().ok()?),
            mtu: bytes[26],
            reads: bytes[27],
        })
    }

    /// Returns the route to it from the GID that has this index at our port.
    pub(crate) fn route(&self, sgid_index: u8) -> ibv_ah_attr {
        let grh = ibv_global_route {
            dgid: ibv_gid { raw: self.gid },
            flow_label: 0,
            sgid_index,
            hop_limit: 64,
            traffic_class: 0,
        };
        ibv_ah_attr {
            grh,
            dlid: self.lid,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            is_global: 1,
            port_num: PORT,
        }
    }
}

/// Refuses atomics where there are none.
fn can_do_atomics(transport: Transport, facts: &Facts) -> Result<(), Error> {
    if transport != Transport::Rc {
        return Err(Error::NoAtomics(transport.name()));
    }
    if !facts.has_atomics {
        let (device, what) = (facts.device.clone(), "atomics".to_owned());
        return Err(Error::Unsupported { device, what, reason: "it says so".to_owned() });
    }
    Ok(())
}

/// Returns the access of the peer to the window.
const fn remote_access(atomics: bool) -> u32 {
    let atomic = if atomics { IBV_ACCESS_REMOTE_ATOMIC } else { 0 };
    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | atomic
}

/// Returns the maximum depth of a queue; both queues have their completions in one.
fn deepest(facts: &Facts) -> usize {
    facts.max_depth.min(facts.max_completions / 2).max(1)
}

/// Returns the number of READs that this side takes at a time from a connection.
fn reads(facts: &Facts) -> u8 {
    u8::try_from(facts.max_connection_reads).unwrap_or(u8::MAX).min(RC_READS_MAX)
}

/// Creates the queue pair; returns it with the bytes that it takes inline.
fn create(
    pd: &ProtectionDomain,
    queue: &Queue,
    config: &Config,
) -> Result<(QueuePair, usize), Error> {
    let mut cap = ibv_qp_cap {
        max_send_wr: u32::try_from(config.tx_depth).unwrap_or(u32::MAX),
        max_recv_wr: u32::try_from(config.rx_slots).unwrap_or(u32::MAX),
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: pd.device.inline_bytes().unwrap_or(INLINE_BYTES),
    };
    let transport = config.transport;
    if transport == Transport::Srd {
        sys::Efa::open()?;
    }
    let mut raw = create_raw(pd, queue, config, &mut cap);
    if raw.is_null() && pd.device.inline_bytes().is_none() {
        cap.max_inline_data = 0;
        raw = create_raw(pd, queue, config, &mut cap);
    }
    let raw = NonNull::new(raw).ok_or_else(|| {
        let reason = crate::error::plain(&std::io::Error::last_os_error());
        let rdma = if config.window_bytes > 0 { " with READ and WRITE" } else { "" };
        let what = format!("{} queue pairs{rdma}", transport.name());
        Error::Unsupported { device: pd.device.facts().device.clone(), what, reason }
    })?;
    Ok((QueuePair { raw, transport }, cap.max_inline_data as usize))
}

fn create_raw(
    pd: &ProtectionDomain,
    queue: &Queue,
    config: &Config,
    cap: &mut ibv_qp_cap,
) -> *mut ibv_qp {
    if config.transport == Transport::Srd {
        // SAFETY: all-zero is a value of this plain C structure.
        let mut attr: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        attr.send_cq = queue.raw();
        attr.recv_cq = queue.raw();
        attr.cap = *cap;
        attr.qp_type = IBV_QPT_DRIVER;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.pd = pd.raw();
        attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
        if config.window_bytes > 0 {
            attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE;
        }
        let mut efa = efadv_qp_init_attr {
            comp_mask: 0,
            driver_qp_type: EFADV_QP_DRIVER_TYPE_SRD,
            flags: 0,
            sl: 0,
            reserved: 0,
            wr_flags: 0,
        };
        let len = size_of::<efadv_qp_init_attr>() as u32;
        let context = pd.device.context();
        // SAFETY: device, domain and queue are alive; the structures are read during the call.
        let raw = unsafe { sys::efadv_create_qp_ex(context, &raw mut attr, &raw mut efa, len) };
        *cap = attr.cap;
        return raw;
    }
    let mut attr = ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: queue.raw(),
        recv_cq: queue.raw(),
        srq: null_mut(),
        cap: *cap,
        qp_type: if config.transport == Transport::Ud { IBV_QPT_UD } else { IBV_QPT_RC },
        sq_sig_all: 0,
    };
    // SAFETY: as above.
    let raw = unsafe { sys::ibv_create_qp(pd.raw(), &raw mut attr) };
    *cap = attr.cap;
    raw
}

fn attr(state: i32) -> ibv_qp_attr {
    // SAFETY: all-zero is a value of this plain C structure.
    let mut attr: ibv_qp_attr = unsafe { std::mem::zeroed() };
    attr.qp_state = state;
    attr
}

/// Moves it to the first state, in which receives may be posted.
fn init(qp: &QueuePair, remote: u32) -> Result<(), Error> {
    let mut attr = attr(IBV_QPS_INIT);
    attr.port_num = PORT;
    attr.qkey = QKEY;
    attr.qp_access_flags = remote;
    let last = if qp.transport == Transport::Rc { IBV_QP_ACCESS_FLAGS } else { IBV_QP_QKEY };
    qp.modify(&mut attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last)
}

/// Moves it to the states in which messages come and go.
fn ready(qp: &QueuePair, theirs: &Address, device: &Device) -> Result<(), Error> {
    let (mut receive, mut send) = (attr(IBV_QPS_RTR), attr(IBV_QPS_RTS));
    let (mut receive_mask, mut send_mask) = (IBV_QP_STATE, IBV_QP_STATE | IBV_QP_SQ_PSN);
    if qp.transport == Transport::Rc {
        receive.ah_attr = theirs.route(device.gid_index());
        receive.path_mtu = device.port().active_mtu.min(i32::from(theirs.mtu));
        receive.dest_qp_num = theirs.number;
        receive.max_dest_rd_atomic = reads(device.facts());
        receive.min_rnr_timer = 12;
        receive_mask |= IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        send.timeout = 14;
        send.retry_cnt = 7;
        send.rnr_retry = 7;
        send.max_rd_atomic = reads(device.facts()).min(theirs.reads);
        send_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    qp.modify(&mut receive, receive_mask)?;
    qp.modify(&mut send, send_mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_length_is_refused() {
        assert!(Address::parse(&[0; ADDRESS_BYTES - 1]).is_none());
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[18] = 7;
        bytes[26] = 5;
        bytes[27] = 9;
        let address = Address::parse(&bytes).expect("an address");
        assert_eq!((address.number, address.mtu, address.reads), (7, 5, 9));
    }
}
