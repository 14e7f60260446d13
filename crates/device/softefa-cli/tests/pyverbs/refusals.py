"""Calls that the device refuses: the errno, and that the queue pair works afterwards."""

import errno

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.mr import MR
from pyverbs.qp import QPAttr, QPCap
from pyverbs.wr import RecvWR

from checks import check_refused, check_success, meet
from srd import LOCAL, MESSAGES, READ, WRITES, Side


class Refusals:
    """Work requests and objects with mistakes in them, then a message."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        self.work_requests(side, peer)
        self.states(side, peer)
        self.objects(side)
        side.send(peer, 64)
        check_success(*side.wait(), e.IBV_WC_SEND)
        channel.swap()

    def respond(self, channel):
        side = Side()
        side.post_recv(1, 64)
        meet(channel, side)
        check_success(*side.wait(), e.IBV_WC_RECV, 64)
        channel.swap()

    def work_requests(self, side, peer):
        send = lambda qp: qp.wr_send()
        read = lambda qp: qp.wr_rdma_read(peer.rkey, peer.addr)
        three, two = [side.sge(8)] * 3, [side.sge(8)] * 2
        check_refused(lambda: side.post(peer, send, sges=three), errno.EINVAL)
        check_refused(lambda: side.post(peer, read, sges=two), errno.EINVAL)
        check_refused(lambda: side.post(peer, send, inline=(side.mr.buf, 33)), errno.EINVAL)
        four = [side.sge(8)] * 4
        check_refused(lambda: side.qp.post_recv(RecvWR(1, 4, four)), errno.EINVAL)
        assert not side.poll(), "a refused work request completes"

    def states(self, side, peer):
        """Before RTR nothing may be posted to receive, before RTS nothing to send."""
        good, side.qp = side.qp, side.new_qp(side.all_ops())
        attr = QPAttr(port_num=1)
        attr.qkey = side.qkey
        receive = lambda: side.post_recv(1, 8)
        check_refused(receive, errno.EINVAL)
        for state in (None, e.IBV_QPS_INIT, e.IBV_QPS_RTR):
            if state is not None:
                attr.qp_state = state
                keys = e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY
                mask = keys if state == e.IBV_QPS_INIT else 0
                side.qp.modify(attr, e.IBV_QP_STATE | mask)
            check_refused(lambda: side.send(peer, 8), errno.EINVAL)
        attr.qp_state = e.IBV_QPS_INIT
        check_refused(lambda: side.qp.modify(attr, e.IBV_QP_STATE), errno.EINVAL)
        side.qp.close()
        side.qp = good

    def objects(self, side):
        for cap in (
            QPCap(4_097, 1, 1, 1, 0), QPCap(1, 32_769, 1, 1, 0), QPCap(1, 1, 3, 1, 0),
            QPCap(1, 1, 1, 4, 0), QPCap(1, 1, 1, 1, 33),
        ):
            check_refused(lambda: side.new_qp(MESSAGES, cap), errno.EINVAL)
        atomic = e.IBV_ACCESS_REMOTE_ATOMIC
        check_refused(lambda: MR(side.pd, 64, LOCAL | atomic), errno.EOPNOTSUPP)
        check_refused(lambda: MR(side.pd, 64, e.IBV_ACCESS_REMOTE_WRITE), errno.EINVAL)
        route = GlobalRoute(dgid=GID("2001:0db8:0000:0000:0000:0000:0000:0001"), sgid_index=0)
        check_refused(lambda: AH(side.pd, attr=AHAttr(gr=route, is_global=1)), errno.EINVAL)


class Full:
    """As many work requests as a queue has places; one more is refused, and takes no place."""

    DEPTH = 16

    def initiate(self, channel):
        side = Side(depth=self.DEPTH, rnr_retry=7)
        peer = meet(channel, side)
        for wr_id in range(self.DEPTH):
            side.send(peer, 64, wr_id=wr_id)
        check_refused(lambda: side.send(peer, 64), errno.ENOMEM)
        channel.tell()
        for entry in side.wait(self.DEPTH):
            check_success(entry, e.IBV_WC_SEND)
        channel.swap()

    def respond(self, channel):
        side = Side(depth=self.DEPTH)
        meet(channel, side)
        channel.hear()
        for wr_id in range(self.DEPTH):
            side.post_recv(wr_id, 64)
        check_refused(lambda: side.post_recv(0, 64), errno.ENOMEM)
        for entry in side.wait(self.DEPTH):
            check_success(entry, e.IBV_WC_RECV, 64)
        channel.swap()


class NoRdma:
    """A device without RDMA (profile efa0) offers none and refuses queue pairs that ask for it."""

    def initiate(self, channel):
        side = Side()
        assert side.all_ops() == MESSAGES, hex(side.all_ops())
        for ops in (READ, WRITES):
            check_refused(lambda: side.new_qp(MESSAGES | ops), errno.EOPNOTSUPP)
        self.messages(channel, side)

    def respond(self, channel):
        self.messages(channel, Side())

    def messages(self, channel, side):
        peer = meet(channel, side)
        side.post_recv(2, 64)
        channel.swap()
        side.send(peer, 64)
        assert {entry.status for entry in side.wait(2)} == {e.IBV_WC_SUCCESS}
        channel.swap()
