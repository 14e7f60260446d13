"""PD: keys of one domain are none in another, and a domain that is in use is not freed."""

import errno

import pyverbs.enums as e
from common import Side, completions, connect, opened, refused, succeeded
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.wr import SGE, RecvWR, SendWR

context = opened()
side, peer = Side(context), Side(context)
connect(side.qp, context, peer.qp)
connect(peer.qp, context, side.qp)
side.fill(1)
side.send(e.IBV_WR_RDMA_WRITE, peer=peer)
succeeded(side.cq)
peer.check(1)
# The memory is the peer's, the key of another domain.
elsewhere = MR(PD(context), 64, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, sg=[side.place(64)], num_sge=1)
request.set_wr_rdma(elsewhere.rkey, elsewhere.buf)
side.qp.post_send(request)
assert completions(side.cq)[0].status == e.IBV_WC_REM_ACCESS_ERR
assert elsewhere.read(64, 0) == bytes(64)
fresh, other = Side(context), Side(context)
connect(fresh.qp, context, other.qp)
connect(other.qp, context, fresh.qp)
fresh.qp.post_send(SendWR(sg=[SGE(elsewhere.buf, 64, elsewhere.lkey)], num_sge=1))
assert completions(fresh.cq)[0].status == e.IBV_WC_LOC_PROT_ERR
with PD(context) as unused:
    pass
print("pd: passed")
