"""QP: states and what they allow, inline data, flushing, and the same queue pair again; RC and UC."""

import errno

import pyverbs.enums as e
from common import Side, completions, connect, opened, pair, pattern, refused, succeeded
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE, SendWR

context = opened()
for kind in (e.IBV_QPT_RC, e.IBV_QPT_UC):
    sides = Side(context, kind=kind), Side(context, kind=kind)
    side, peer = sides
    assert side.qp.query(e.IBV_QP_STATE)[0].qp_state == e.IBV_QPS_RESET
    refused(side.send, errno.EINVAL)
    connect(side.qp, context, peer.qp)
    connect(peer.qp, context, side.qp)
    attr, _ = side.qp.query(e.IBV_QP_STATE | e.IBV_QP_DEST_QPN)
    assert (attr.qp_state, attr.dest_qp_num) == (e.IBV_QPS_RTS, peer.qp.qp_num)
    for seed in range(3):
        peer.receive()
        side.fill(seed)
        side.send()
        succeeded(side.cq)
        succeeded(peer.cq)
        peer.check(seed)
    # Inline bytes are taken at once: what they were in may change.
    peer.receive(64)
    side.fill(9)
    side.qp.post_send(
        SendWR(sg=[side.place(64)], num_sge=1, send_flags=e.IBV_SEND_INLINE | e.IBV_SEND_SIGNALED)
    )
    side.fill(10)
    succeeded(side.cq)
    succeeded(peer.cq)
    peer.check(9, 64)
    # A receive waits, and a request has more pieces than there may be.
    peer.receive(64)
    pieces = [SGE(side.mr.buf, 32, side.mr.lkey)] * 40
    refused(lambda: side.qp.post_send(SendWR(sg=pieces, num_sge=40)), errno.EINVAL)
    # What was posted comes back when the queue pair breaks.
    peer.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    assert completions(peer.cq)[0].status == e.IBV_WC_WR_FLUSH_ERR
    for one in sides:
        one.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
    connect(side.qp, context, peer.qp)
    connect(peer.qp, context, side.qp)
    peer.receive()
    side.fill(11)
    side.send()
    succeeded(side.cq)
    succeeded(peer.cq)
    peer.check(11)
# A queue pair that is connected with itself.
lonely = Side(context)
connect(lonely.qp, context, lonely.qp)
lonely.mr.write(pattern(12, 64), 64)
request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, sg=[lonely.place(64)], num_sge=1)
request.set_wr_rdma(lonely.mr.rkey, lonely.mr.buf + 64)
lonely.qp.post_send(request)
succeeded(lonely.cq)
lonely.check(12, 64, 64)
# Atomics answer what was there.
side, peer = pair(context)
peer.mr.write((41).to_bytes(8, "little"), 8)
for opcode, before, after in ((e.IBV_WR_ATOMIC_FETCH_AND_ADD, 41, 42), (e.IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7)):
    request = SendWR(opcode=opcode, sg=[side.place(8)], num_sge=1)
    operand, swap = (1, 0) if opcode == e.IBV_WR_ATOMIC_FETCH_AND_ADD else (42, 7)
    request.set_wr_atomic(peer.mr.rkey, peer.mr.buf, operand, swap)
    side.qp.post_send(request)
    succeeded(side.cq)
    assert int.from_bytes(side.mr.read(8, 0), "little") == before
    assert int.from_bytes(peer.mr.read(8, 0), "little") == after
print("qp: passed")
