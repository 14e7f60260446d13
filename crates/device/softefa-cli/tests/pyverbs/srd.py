"""An SRD queue pair with its memory, through pyverbs' extended calls only."""

import random
import socket
import time
from dataclasses import dataclass

import pyverbs.enums as e
import pyverbs.providers.efa.efa_enums as efa_e
import pyverbs.providers.efa.efadv as efa
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CqInitAttrEx, PollCqAttr
from pyverbs.device import get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR

#: Longest wait for a completion, in seconds: twice what the device gives a silent peer.
PATIENCE_S = 20
#: Bytes of each side's registered memory.
MEMORY_BYTES = 8 << 20
#: `start_poll` of an empty queue.
ENOENT = 2
#: RDMA_WRITE of `efadv_device_attr.device_caps`; this pyverbs has no name for it yet.
CAP_RDMA_WRITE = 1 << 3

MESSAGES = e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM
READ = e.IBV_QP_EX_WITH_RDMA_READ
WRITES = e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
LOCAL = e.IBV_ACCESS_LOCAL_WRITE


@dataclass
class Completion:
    """One entry of a completion queue."""

    wr_id: int
    status: int
    vendor_err: int
    opcode: int = None
    byte_len: int = None
    imm: int = None
    src_qpn: int = None
    sgid: str = None


@dataclass
class Peer:
    """The other side: how to reach it, and its memory."""

    ah: efa.EfaAH
    qpn: int
    qkey: int
    addr: int
    rkey: int
    gid: str


class Side:
    """One end of a case: device, queue pair, registered memory."""

    def __init__(self, depth=64, rnr_retry=None, access=None, send_ops=None):
        self.ctx = efa.EfaContext(name=get_device_list()[0].name.decode())
        self.caps = self.ctx.query_efa_device().device_caps
        self.pd = PD(self.ctx)
        self.cq = efa.EfaCQ(
            self.ctx,
            CqInitAttrEx(cqe=4 * depth, wc_flags=e.IBV_WC_STANDARD_FLAGS),
            efa.EfaDVCQInitAttr(efa_e.EFADV_WC_EX_WITH_SGID),
        )
        self.mr = MR(self.pd, MEMORY_BYTES, self.all_access() if access is None else access)
        self.depth = depth
        self.qkey = random.getrandbits(31)
        self.qp = self.new_qp(self.all_ops() if send_ops is None else send_ops)
        self.to_rts(self.qp, rnr_retry)

    def all_ops(self):
        """Every operation the device has."""
        ops = MESSAGES
        if self.caps & efa_e.EFADV_DEVICE_ATTR_CAPS_RDMA_READ:
            ops |= READ
        if self.caps & CAP_RDMA_WRITE:
            ops |= WRITES
        return ops

    def all_access(self):
        """Every access the device permits."""
        access = LOCAL
        if self.caps & efa_e.EFADV_DEVICE_ATTR_CAPS_RDMA_READ:
            access |= e.IBV_ACCESS_REMOTE_READ
        if self.caps & CAP_RDMA_WRITE:
            access |= e.IBV_ACCESS_REMOTE_WRITE
        return access

    def new_qp(self, send_ops, cap=None):
        """A queue pair in the reset state."""
        cap = cap or QPCap(self.depth, self.depth, 2, 2, 32)
        mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        init = QPInitAttrEx(
            qp_type=e.IBV_QPT_DRIVER, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1,
            pd=self.pd, comp_mask=mask, send_ops_flags=send_ops,
        )
        driver = efa.EfaQPInitAttr()
        driver.driver_qp_type = efa_e.EFADV_QP_DRIVER_TYPE_SRD
        # Creating one moves nothing yet: pyverbs does that only when it gets a QPAttr, too.
        return efa.SRDQPEx(self.ctx, init, driver)

    def to_rts(self, qp, rnr_retry=None):
        attr = QPAttr(port_num=1)
        attr.qkey = self.qkey
        attr.pkey_index = 0
        attr.qp_state = e.IBV_QPS_INIT
        mask = e.IBV_QP_STATE
        qp.modify(attr, mask | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY)
        attr.qp_state = e.IBV_QPS_RTR
        qp.modify(attr, mask)
        attr.qp_state = e.IBV_QPS_RTS
        attr.sq_psn = random.getrandbits(24)
        mask |= e.IBV_QP_SQ_PSN
        if rnr_retry is not None:
            attr.rnr_retry = rnr_retry
            mask |= e.IBV_QP_RNR_RETRY
        qp.modify(attr, mask)

    def address(self):
        """What the other side needs to know."""
        return {
            "gid": self.ctx.query_gid(1, 0).gid, "qpn": self.qp.qp_num, "qkey": self.qkey,
            "addr": self.mr.buf, "rkey": self.mr.rkey,
        }

    def peer(self, address):
        """The other side, from its `address`."""
        keys = ("qpn", "qkey", "addr", "rkey", "gid")
        ah = self.handle(self.pd, address["gid"])
        return Peer(ah, *(address[key] for key in keys))

    def handle(self, pd, gid):
        """An address handle of a protection domain."""
        route = GlobalRoute(dgid=GID(gid), sgid_index=0)
        return efa.EfaAH(pd, attr=AHAttr(gr=route, is_global=1, port_num=1))

    def post_recv(self, wr_id, length, offset=0):
        self.qp.post_recv(RecvWR(wr_id, 1, [self.sge(length, offset)]))

    def sge(self, length, offset=0, lkey=None):
        return SGE(self.mr.buf + offset, length, self.mr.lkey if lkey is None else lkey)

    def post(self, peer, operation, *, wr_id=1, sges=(), inline=None):
        """Posts one work request; `operation` calls the `wr_...` that says which."""
        qp = self.qp
        qp.wr_start()
        qp.wr_id = wr_id
        qp.wr_flags = e.IBV_SEND_SIGNALED
        operation(qp)
        if inline is not None:
            qp.wr_set_inline_data(*inline)
        elif len(sges) == 1:
            qp.wr_set_sge(sges[0])
        else:
            qp.wr_set_sge_list(len(sges), list(sges))
        qp.wr_set_ud_addr(peer.ah, peer.qpn, peer.qkey)
        qp.wr_complete()

    def send(self, peer, length, offset=0, wr_id=1):
        self.post(peer, lambda qp: qp.wr_send(), wr_id=wr_id, sges=[self.sge(length, offset)])

    def poll(self, limit=64):
        """The completions that are there now, at most `limit`."""
        found = []
        ret = self.cq.start_poll(PollCqAttr())
        if ret == ENOENT:
            return found
        while ret == 0:
            found.append(self._entry())
            ret = self.cq.poll_next() if len(found) < limit else ENOENT
        assert ret == ENOENT, f"polling failed with {ret}"
        self.cq.end_poll()
        return found

    def wait(self, count=1):
        """The next `count` completions, in whichever order they come."""
        found, deadline = [], time.monotonic() + PATIENCE_S
        while len(found) < count:
            found += self.poll(count - len(found))
            assert time.monotonic() < deadline, f"{len(found)} of {count} completions: {found}"
        return found

    def _entry(self):
        cq = self.cq
        entry = Completion(cq.wr_id, cq.status, cq.read_vendor_err(), cq.read_opcode())
        if entry.status == e.IBV_WC_SUCCESS:
            entry.byte_len, entry.src_qpn = cq.read_byte_len(), cq.read_src_qp()
            if cq.read_wc_flags() & e.IBV_WC_WITH_IMM:
                # pyverbs takes immediate data in host order and gives it in network order.
                entry.imm = socket.ntohl(cq.read_imm_data())
            sgid = cq.read_sgid()
            entry.sgid = sgid.gid if sgid else None
        return entry


def pattern(length, seed):
    """Bytes that differ from seed to seed and from place to place."""
    return random.Random(seed).randbytes(length)
