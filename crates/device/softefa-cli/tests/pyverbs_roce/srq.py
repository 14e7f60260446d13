"""SRQ: queue pairs share receives, its limit is told of, and it waits for its queue pairs."""

import errno

import pyverbs.enums as e
from common import BYTES, Side, connect, opened, refused, succeeded
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR

SENDERS, ROUNDS = 4, 5
context = opened()
pd = PD(context)
srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=64, max_sge=1)))
memory = MR(pd, BYTES * 64, e.IBV_ACCESS_LOCAL_WRITE)
pairs = []
for _ in range(SENDERS):
    taker = Side(context, pd=pd, srq=srq)
    giver = Side(context)
    connect(taker.qp, context, giver.qp)
    connect(giver.qp, context, taker.qp)
    pairs.append((giver, taker))
for number in range(SENDERS * ROUNDS + 2):
    place = SGE(memory.buf + number * BYTES, BYTES, memory.lkey)
    srq.post_recv(RecvWR(wr_id=number, sg=[place], num_sge=1))
srq.modify(SrqAttr(srq_limit=5), e.IBV_SRQ_LIMIT)
assert srq.query().srq_limit == 5
taken = set()
for seed in range(ROUNDS):
    for number, (giver, taker) in enumerate(pairs):
        giver.fill(seed * SENDERS + number)
        giver.send()
    for number, (giver, taker) in enumerate(pairs):
        succeeded(giver.cq)
        entry = succeeded(taker.cq)[0]
        assert entry.qp_num == taker.qp.qp_num
        taken.add(entry.wr_id)
        found = memory.read(BYTES, entry.wr_id * BYTES)
        giver.check(seed * SENDERS + number)
        assert found == giver.mr.read(BYTES, 0)
assert len(taken) == SENDERS * ROUNDS, taken
event = context.get_async_event()
assert event.event_type == e.IBV_EVENT_SRQ_LIMIT_REACHED
event.ack()
assert srq.query().srq_limit == 0, "it is told of once"
refused(lambda: srq.modify(SrqAttr(srq_limit=1000), e.IBV_SRQ_LIMIT), errno.EINVAL)
print("srq: passed")
