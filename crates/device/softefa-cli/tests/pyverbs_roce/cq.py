"""CQ: order, resizing, several queue pairs on one; the extended one and what it tells of an entry."""

import pyverbs.enums as e
from common import BYTES, Side, connect, opened, pair, succeeded
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.wr import SendWR

context = opened()
side, peer = pair(context)
for number in range(8):
    peer.receive(64)
for number in range(8):
    side.qp.post_send(SendWR(wr_id=number, sg=[side.place(64)], num_sge=1))
assert [entry.wr_id for entry in succeeded(side.cq, 8)] == list(range(8))
succeeded(peer.cq, 8)
assert side.cq.poll(1)[0] == 0
side.cq.resize(200)
assert side.cq.cqe >= 200
other = [Side(context, cq=side.cq) for _ in range(2)]
connect(other[0].qp, context, other[1].qp)
connect(other[1].qp, context, other[0].qp)
other[1].receive()
other[0].fill(1)
other[0].send()
found = {entry.opcode: entry.qp_num for entry in succeeded(side.cq, 2)}
assert found == {e.IBV_WC_SEND: other[0].qp.qp_num, e.IBV_WC_RECV: other[1].qp.qp_num}, found
other[1].check(1)

extended = CQEX(context, CqInitAttrEx(cqe=64, wc_flags=e.IBV_WC_EX_WITH_BYTE_LEN | e.IBV_WC_EX_WITH_QP_NUM))
ends = [Side(context, cq=extended) for _ in range(2)]
connect(ends[0].qp, context, ends[1].qp)
connect(ends[1].qp, context, ends[0].qp)
ends[1].receive()
ends[0].fill(2)
ends[0].send()
seen = {}
while len(seen) < 2:
    if extended.start_poll(PollCqAttr()) != 0:
        continue
    while True:
        assert extended.status == e.IBV_WC_SUCCESS
        seen[extended.read_opcode()] = (extended.wr_id, extended.read_qp_num())
        if extended.read_opcode() == e.IBV_WC_RECV:
            assert extended.read_byte_len() == BYTES
        if extended.poll_next() != 0:
            break
    extended.end_poll()
assert seen == {e.IBV_WC_SEND: (8, ends[0].qp.qp_num), e.IBV_WC_RECV: (7, ends[1].qp.qp_num)}, seen
ends[1].check(2)
print("cq: passed")
