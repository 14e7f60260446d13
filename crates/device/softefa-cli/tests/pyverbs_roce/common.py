"""What the scripts beside this one share: a device, and two queue pairs of one process that are connected."""

import errno
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEVICE = "roce0"
PORT = 1
BYTES = 8192
LIMIT_S = 20
ACCESS = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_REMOTE_ATOMIC
)
MW_ACCESS = ACCESS | e.IBV_ACCESS_MW_BIND


def pattern(seed, size=BYTES):
    return bytes((place * 7 + seed) % 251 for place in range(size))


def opened():
    return Context(name=DEVICE)


def address(context):
    gid = context.query_gid(PORT, 0)
    return AHAttr(port_num=PORT, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0))


def connect(qp, context, peer):
    attr = QPAttr(port_num=PORT)
    attr.dest_qp_num = peer.qp_num
    attr.ah_attr = address(context)
    attr.qp_access_flags = ACCESS
    attr.path_mtu = e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    qp.to_rts(attr)


class Side:
    """A queue pair with a completion queue and registered memory of its own."""

    def __init__(self, context, pd=None, cq=None, kind=e.IBV_QPT_RC, access=ACCESS, srq=None):
        self.context = context
        self.pd = pd or PD(context)
        self.cq = cq or CQ(context, 64)
        self.mr = MR(self.pd, BYTES, access)
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_inline_data=64)
        attr = QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap, srq=srq, sq_sig_all=1)
        self.qp = QP(self.pd, attr)

    def place(self, size=BYTES):
        return SGE(self.mr.buf, size, self.mr.lkey)

    def fill(self, seed, size=BYTES):
        self.mr.write(pattern(seed, size), size)

    def check(self, seed, size=BYTES, start=0):
        found = self.mr.read(size, start)
        assert found == pattern(seed, size), f"other bytes than those of {seed}"

    def receive(self, size=BYTES):
        self.qp.post_recv(RecvWR(wr_id=7, sg=[self.place(size)], num_sge=1))

    def send(self, opcode=e.IBV_WR_SEND, size=BYTES, peer=None):
        request = SendWR(wr_id=8, opcode=opcode, sg=[self.place(size)], num_sge=1)
        if peer is not None:
            request.set_wr_rdma(peer.mr.rkey, peer.mr.buf)
        self.qp.post_send(request)


def pair(context, **more):
    sides = Side(context, **more), Side(context, **more)
    for side, peer in (sides, sides[::-1]):
        connect(side.qp, context, peer.qp)
    return sides


def completions(cq, count=1):
    deadline = time.monotonic() + LIMIT_S
    found = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} completions"
        found += cq.poll(count - len(found))[1]
    return found


def succeeded(cq, count=1):
    found = completions(cq, count)
    for entry in found:
        assert entry.status == e.IBV_WC_SUCCESS, entry
    return found


def refused(call, number):
    try:
        call()
    except PyverbsRDMAError as error:
        assert error.error_code == number, f"{error}, not {errno.errorcode[number]}"
        return
    raise AssertionError(f"taken; {errno.errorcode[number]} was expected")
