"""CompChannel: a program sleeps until a completion comes, one event for each time it asked."""

from common import Side, connect, opened, succeeded
from pyverbs.cq import CQ, CompChannel

context = opened()
channel = CompChannel(context)
cq = CQ(context, 64, None, channel)
side, peer = Side(context), Side(context, cq=cq)
connect(side.qp, context, peer.qp)
connect(peer.qp, context, side.qp)
for seed in range(20):
    peer.receive()
    cq.req_notify()
    assert cq.poll(1)[0] == 0
    side.fill(seed)
    side.send()
    channel.get_cq_event(cq)
    cq.ack_events(1)
    succeeded(cq)
    succeeded(side.cq)
    peer.check(seed)
# Not asked for, none comes.
peer.receive()
side.send()
succeeded(side.cq)
succeeded(cq)
print("channel: passed")
