"""What `softefa run --fault` makes of calls that are all right."""

import pyverbs.enums as e

from checks import check_failure, check_success, meet
from srd import Side, pattern


class Provoked:
    """A message for which a receive is posted; `--fault` says how it ends."""

    def initiate(self, channel):
        side = Side(rnr_retry=3)
        peer = meet(channel, side)
        side.send(peer, 64)
        check_failure(*side.wait(), self.device_status, self.verbs_status)
        channel.swap()

    def respond(self, channel):
        side = Side()
        side.post_recv(1, 64)
        meet(channel, side)
        channel.swap()
        assert not side.poll(), "a failed message arrived"


class Internal(Provoked):
    """2 (internal=100% at the sender)."""

    device_status, verbs_status = 2, e.IBV_WC_LOC_QP_OP_ERR


class NeverReady(Provoked):
    """10 (rnr=100% at the receiver)."""

    device_status, verbs_status = 10, e.IBV_WC_RNR_RETRY_EXC_ERR


class Swallowed(Provoked):
    """15 (blackhole=all at the sender)."""

    device_status, verbs_status = 15, e.IBV_WC_RESP_TIMEOUT_ERR


class Successor:
    """8, 9 (qpn-reuse at the peer): the number belongs to another queue pair now, which must not
    get what was meant for its predecessor, neither on a connection that existed nor on a new one."""

    def initiate(self, channel):
        old, new = Side(), Side()
        address = channel.hear()
        channel.tell()
        peers = [side.peer(address) for side in (old, new)]
        old.send(peers[0], 64)
        check_success(*old.wait(), e.IBV_WC_SEND)
        channel.swap()
        channel.hear()
        old.send(peers[0], 64)
        check_failure(*old.wait(), 8, e.IBV_WC_REM_ABORT_ERR)
        new.send(peers[1], 64)
        check_failure(*new.wait(), 9, e.IBV_WC_REM_INV_RD_REQ_ERR)
        channel.swap()

    def respond(self, channel):
        side = Side()
        side.post_recv(1, 64)
        channel.tell(**side.address())
        channel.hear()
        check_success(*side.wait(), e.IBV_WC_RECV, 64)
        channel.swap()
        number = side.qp.qp_num
        side.qp.close()
        side.qkey ^= 1
        side.qp = side.new_qp(side.all_ops())
        side.to_rts(side.qp)
        assert side.qp.qp_num == number, "the number was not used again"
        side.post_recv(2, 64)
        channel.tell()
        channel.swap()
        assert not side.poll(), "the successor got a message of its predecessor"


class Corrupted:
    """No failure (corrupt=100% without --integrity): other bytes arrive, which only the program's
    own check can notice."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        side.mr.write(pattern(512, 1), 512)
        side.send(peer, 512)
        check_success(*side.wait(), e.IBV_WC_SEND)
        channel.swap()

    def respond(self, channel):
        side = Side()
        side.post_recv(1, 512)
        meet(channel, side)
        check_success(*side.wait(), e.IBV_WC_RECV, 512)
        assert side.mr.read(512, 0) != pattern(512, 1), "the bytes are as they were sent"
        channel.swap()
