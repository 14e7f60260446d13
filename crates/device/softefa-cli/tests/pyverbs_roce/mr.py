"""MR: every way to reach registered memory, its rights, and what changes in place."""

import pyverbs.enums as e
from common import BYTES, Side, completions, connect, opened, pair, succeeded
from pyverbs.mr import MR
from pyverbs.wr import SendWR

context = opened()
side, peer = pair(context)
for seed, opcode in enumerate((e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ)):
    (side if opcode == e.IBV_WR_RDMA_WRITE else peer).fill(seed)
    side.send(opcode, peer=peer)
    succeeded(side.cq)
    side.check(seed)
    peer.check(seed)
peer.receive()
side.fill(2)
request = SendWR(opcode=e.IBV_WR_RDMA_WRITE_WITH_IMM, sg=[side.place()], num_sge=1, imm_data=77)
request.set_wr_rdma(peer.mr.rkey, peer.mr.buf)
side.qp.post_send(request)
succeeded(side.cq)
entry = succeeded(peer.cq)[0]
assert (entry.opcode, entry.imm_data) == (e.IBV_WC_RECV_RDMA_WITH_IMM, 77)
peer.check(2)
# A key stays when the rights change; then it is refused.
key = peer.mr.rkey
peer.mr.rereg(flags=e.IBV_REREG_MR_CHANGE_ACCESS, access=e.IBV_ACCESS_LOCAL_WRITE)
assert peer.mr.rkey == key
side.send(e.IBV_WR_RDMA_WRITE, peer=peer)
assert completions(side.cq)[0].status == e.IBV_WC_REM_ACCESS_ERR
# One byte more than there is.
side, peer = pair(context)
request = SendWR(opcode=e.IBV_WR_RDMA_READ, sg=[side.place()], num_sge=1)
request.set_wr_rdma(peer.mr.rkey, peer.mr.buf + 1)
side.qp.post_send(request)
assert completions(side.cq)[0].status == e.IBV_WC_REM_ACCESS_ERR
assert side.mr.read(BYTES, 0) == bytes(BYTES)
# Memory on demand.
side = Side(context)
peer = Side(context, access=e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_ON_DEMAND)
connect(side.qp, context, peer.qp)
connect(peer.qp, context, side.qp)
side.fill(3)
side.send(e.IBV_WR_RDMA_WRITE, peer=peer)
succeeded(side.cq)
peer.check(3)
print("mr: passed")
