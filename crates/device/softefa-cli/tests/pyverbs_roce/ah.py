"""AH: datagrams to a handle, and back to one that is made of what came."""

import pyverbs.enums as e
from common import PORT, Side, address, opened, succeeded
from pyverbs.addr import AH
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE, RecvWR, SendWR

KEY, GRH, SIZE = 0x1234567, 40, 1000
context = opened()
sides = [Side(context, kind=e.IBV_QPT_UD) for _ in range(2)]
for side in sides:
    attr = QPAttr(port_num=PORT)
    attr.qkey = KEY
    side.qp.to_rts(attr)
asking, answering = sides


def datagram(side, peer, handle):
    request = SendWR(sg=[SGE(side.mr.buf, SIZE, side.mr.lkey)], num_sge=1)
    request.set_wr_ud(handle, peer.qp.qp_num, KEY)
    side.qp.post_send(request)
    succeeded(side.cq)
    entry = succeeded(peer.cq)[0]
    assert entry.byte_len == SIZE + GRH and entry.wc_flags & e.IBV_WC_GRH
    assert entry.src_qp == side.qp.qp_num
    return entry


for seed in range(10):
    answering.qp.post_recv(RecvWR(sg=[answering.place(SIZE + GRH)], num_sge=1))
    asking.fill(seed)
    there = AH(asking.pd, attr=address(context))
    entry = datagram(asking, answering, there)
    answering.check(seed, SIZE, GRH)
    back = AH(answering.pd, wc=entry, port_num=PORT, grh=answering.mr.buf)
    asking.qp.post_recv(RecvWR(sg=[asking.place(SIZE + GRH)], num_sge=1))
    answering.fill(seed + 50)
    datagram(answering, asking, back)
    asking.check(seed + 50, SIZE, GRH)
print("ah: passed")
