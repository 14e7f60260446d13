"""Every status of the device that can be had on purpose: who fails, with which number, and that
nothing was written by what failed."""

import os
import signal
import socket

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE

from checks import check_failure, check_success, meet
from srd import LOCAL, MEMORY_BYTES, PATIENCE_S, Side, pattern

GUARD = pattern(MEMORY_BYTES, "guard")


class Case:
    """The responder's half of most cases: memory that must stay as it is."""

    access = None

    def respond(self, channel):
        side = Side(access=self.access)
        side.mr.write(GUARD, MEMORY_BYTES)
        meet(channel, side)
        self.prepare(channel, side)
        channel.swap()
        assert side.mr.read(MEMORY_BYTES, 0) == GUARD, "a failed operation wrote"
        assert not side.poll(), "a failed operation shows at its target"

    def prepare(self, channel, side):
        """What else the initiator needs."""


class LocalKeys(Case):
    """5: a local key that is not there, does not cover the entry or does not permit the access."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        send = lambda qp: qp.wr_send()
        read = lambda qp: qp.wr_rdma_read(peer.rkey, peer.addr)
        beyond = side.sge(64, MEMORY_BYTES - 63)
        for sge in (side.sge(64, lkey=side.mr.lkey ^ 1), beyond, side.sge(64, MEMORY_BYTES)):
            for operation in (send, read):
                side.post(peer, operation, sges=[sge])
                check_failure(*side.wait(), 5, e.IBV_WC_LOC_PROT_ERR)
        channel.swap()


class LocalPermission(Case):
    """5: a READ into memory that its owner registered for reading only."""

    def initiate(self, channel):
        side = Side(access=e.IBV_ACCESS_REMOTE_READ)
        peer = meet(channel, side)
        side.mr.write(GUARD, MEMORY_BYTES)
        side.post(peer, lambda qp: qp.wr_rdma_read(peer.rkey, peer.addr), sges=[side.sge(64)])
        check_failure(*side.wait(), 5, e.IBV_WC_LOC_PROT_ERR)
        assert side.mr.read(MEMORY_BYTES, 0) == GUARD, "a failed READ wrote"
        channel.swap()


class OtherDomain(Case):
    """4, 5, 7: an address handle, a local key, a remote key of another protection domain."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        rkey = channel.hear()["rkey"]
        other = PD(side.ctx)
        mr = MR(other, 64, side.all_access())
        side.mr.write(bytes(64), 64)
        side.post(peer, lambda qp: qp.wr_send(), sges=[SGE(mr.buf, 64, mr.lkey)])
        check_failure(*side.wait(), 5, e.IBV_WC_LOC_PROT_ERR)
        for operation in (
            lambda qp: qp.wr_rdma_read(rkey, peer.addr),
            lambda qp: qp.wr_rdma_write(rkey, peer.addr),
        ):
            side.post(peer, operation, sges=[side.sge(64)])
            check_failure(*side.wait(), 7, e.IBV_WC_REM_ACCESS_ERR)
        peer.ah = side.handle(other, peer.gid)
        side.send(peer, 64)
        check_failure(*side.wait(), 4, e.IBV_WC_LOC_QP_OP_ERR)
        assert side.mr.read(64, 0) == bytes(64), "a failed READ wrote"
        channel.swap()

    def prepare(self, channel, side):
        self.other = PD(side.ctx)
        self.again = MR(self.other, MEMORY_BYTES, side.all_access(), address=side.mr.buf)
        channel.tell(rkey=self.again.rkey)


class TooLong(Case):
    """6: a message longer than the device takes."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        for length in (8_929, 9_216, 65_536):
            side.send(peer, length)
            check_failure(*side.wait(), 6, e.IBV_WC_LOC_LEN_ERR)
        channel.swap()


class RemoteKeys(Case):
    """7: a remote key that is not there, or an address its region does not cover."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        end = peer.addr + MEMORY_BYTES
        targets = [
            (peer.rkey ^ 1, peer.addr), (peer.rkey, end), (peer.rkey, end - 63),
            (peer.rkey, peer.addr - 1), (peer.rkey, 2**64 - 32),
        ]
        side.mr.write(bytes(64), 64)
        for rkey, addr in targets:
            for operation in (
                lambda qp: qp.wr_rdma_read(rkey, addr),
                lambda qp: qp.wr_rdma_write(rkey, addr),
                lambda qp: qp.wr_rdma_write_imm(rkey, addr, 1),
            ):
                side.post(peer, operation, sges=[side.sge(64)])
                check_failure(*side.wait(), 7, e.IBV_WC_REM_ACCESS_ERR)
        # Part of it would fit: all the same nothing may arrive.
        size = 1 << 20
        addr = end - size + 1
        side.post(peer, lambda qp: qp.wr_rdma_write(peer.rkey, addr), sges=[side.sge(size)])
        check_failure(*side.wait(), 7, e.IBV_WC_REM_ACCESS_ERR)
        assert side.mr.read(64, 0) == bytes(64), "a failed READ wrote"
        channel.swap()


class RemotePermission(Case):
    """7: memory that its owner registered for neither READ nor WRITE."""

    access = LOCAL

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        for operation in (
            lambda qp: qp.wr_rdma_read(peer.rkey, peer.addr),
            lambda qp: qp.wr_rdma_write(peer.rkey, peer.addr),
        ):
            side.post(peer, operation, sges=[side.sge(64)])
            check_failure(*side.wait(), 7, e.IBV_WC_REM_ACCESS_ERR)
        channel.swap()


class WrongQueueKey(Case):
    """9: whoever has the number now is not who was meant."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        peer.qkey ^= 1
        side.send(peer, 64)
        check_failure(*side.wait(), 9, e.IBV_WC_REM_INV_RD_REQ_ERR)
        channel.swap()


class Destroyed(Case):
    """9: the queue pair is gone; its process and its device are not."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        channel.hear()
        side.send(peer, 64)
        check_failure(*side.wait(), 9, e.IBV_WC_REM_INV_RD_REQ_ERR)
        channel.swap()

    def prepare(self, channel, side):
        side.qp.close()
        channel.tell()


class Killed:
    """9: the process was killed with messages on their way to it. Ends the other process."""

    def initiate(self, channel):
        side = Side(rnr_retry=7)
        peer = meet(channel, side)
        for wr_id in range(8):
            side.send(peer, 8_000, wr_id=wr_id)
        channel.tell()
        channel.wait_for_end()
        found = sorted(side.wait(8), key=lambda entry: entry.wr_id)
        for wr_id, entry in enumerate(found):
            check_failure(entry, 9, e.IBV_WC_REM_INV_RD_REQ_ERR, wr_id)

    def respond(self, channel):
        side = Side()
        meet(channel, side)
        channel.hear()
        os.kill(os.getpid(), signal.SIGKILL)


class NotReady(Case):
    """10: no receive was posted, as often as was tried."""

    def initiate(self, channel):
        for retries in (0, 3):
            side = Side(rnr_retry=retries)
            peer = meet(channel, side)
            side.send(peer, 64)
            check_failure(*side.wait(), 10, e.IBV_WC_RNR_RETRY_EXC_ERR)
            channel.swap()

    def respond(self, channel):
        for _ in (0, 3):
            super().respond(channel)


class ReadyLate:
    """No failure: with endless retries a message waits for its receive."""

    def initiate(self, channel):
        side = Side(rnr_retry=7)
        peer = meet(channel, side)
        side.mr.write(pattern(512, 1), 512)
        side.send(peer, 512)
        assert not side.poll()
        channel.tell()
        check_success(*side.wait(), e.IBV_WC_SEND)
        channel.swap()

    def respond(self, channel):
        side = Side()
        meet(channel, side)
        channel.hear()
        side.post_recv(1, 512)
        check_success(*side.wait(), e.IBV_WC_RECV, 512)
        assert side.mr.read(512, 0) == pattern(512, 1)
        channel.swap()


class ShortReceive(Case):
    """11: the posted receive is too short."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        channel.hear()
        side.send(peer, 64)
        check_failure(*side.wait(), 11, e.IBV_WC_REM_INV_REQ_ERR)
        channel.swap()

    def prepare(self, channel, side):
        side.post_recv(3, 63)
        channel.tell()


class Flushed(Case):
    """1: the queue pair was moved to the error state with work requests posted."""

    def initiate(self, channel):
        side = Side(rnr_retry=7)
        peer = meet(channel, side)
        for wr_id in range(4):
            side.post_recv(100 + wr_id, 64)
            side.send(peer, 64, wr_id=wr_id)
        attr = QPAttr(qp_state=e.IBV_QPS_ERR)
        side.qp.modify(attr, e.IBV_QP_STATE)
        found = sorted(side.wait(8), key=lambda entry: entry.wr_id)
        for wr_id, entry in zip([0, 1, 2, 3, 100, 101, 102, 103], found):
            check_failure(entry, 1, e.IBV_WC_WR_FLUSH_ERR, wr_id)
        channel.swap()


class HandleDestroyed(Case):
    """1: the last address handle for the peer was destroyed with work requests on their way."""

    def initiate(self, channel):
        side = Side(rnr_retry=7)
        peer = meet(channel, side)
        for wr_id in range(4):
            side.send(peer, 64, wr_id=wr_id)
        peer.ah.close()
        found = sorted(side.wait(4), key=lambda entry: entry.wr_id)
        for wr_id, entry in enumerate(found):
            check_failure(entry, 1, e.IBV_WC_WR_FLUSH_ERR, wr_id)
        channel.swap()


class UnknownPeer:
    """14 (with --strict at the target): RDMA of a requester that the target has no address handle
    for, as on hardware; a message needs none."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        read = lambda qp: qp.wr_rdma_read(peer.rkey, peer.addr)
        write = lambda qp: qp.wr_rdma_write(peer.rkey, peer.addr)
        for operation in (read, write):
            side.post(peer, operation, sges=[side.sge(64)])
            check_failure(*side.wait(), 14, e.IBV_WC_REM_OP_ERR)
        side.send(peer, 64)
        check_success(*side.wait(), e.IBV_WC_SEND)
        channel.swap()
        channel.hear()
        side.post(peer, read, sges=[side.sge(64)])
        check_success(*side.wait(), e.IBV_WC_SEND)
        channel.swap()

    def respond(self, channel):
        side = Side()
        side.mr.write(GUARD, MEMORY_BYTES)
        side.post_recv(1, 64, MEMORY_BYTES - 64)
        address = channel.swap(**side.address())
        channel.swap()
        assert side.mr.read(MEMORY_BYTES - 64, 0) == GUARD[:-64], "a failed operation wrote"
        known = side.peer(address)
        channel.tell()
        channel.swap()
        known.ah.close()


class Silent:
    """13: the peer answered once and is silent now. 15: whoever has the address never answered.
    Both in one case, because each takes the device's full patience."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
            mute.bind(("127.0.0.1", 0))
            nobody = side.peer(side.address() | {"qpn": mute.getsockname()[1]})
            channel.hear()
            side.send(peer, 64)
            check_success(*side.wait(), e.IBV_WC_SEND)
            process = channel.swap()["process"]
            stopped(process)
            try:
                side.send(peer, 64, wr_id=13)
                side.send(nobody, 64, wr_id=15)
                for entry in side.wait(2):
                    check_failure(entry, entry.wr_id, e.IBV_WC_RESP_TIMEOUT_ERR, entry.wr_id)
            finally:
                os.kill(process, signal.SIGCONT)
        channel.swap()

    def respond(self, channel):
        side = Side()
        meet(channel, side)
        side.post_recv(1, 64)
        side.post_recv(2, 64)
        channel.tell()
        check_success(*side.wait(), e.IBV_WC_RECV, 64)
        # Its acknowledgement has left when the other side goes on: a device is not stopped with
        # its program, we are.
        channel.swap(process=os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)
        channel.swap()


def stopped(process):
    """Waits until each thread of a process stands still."""
    import time

    deadline = time.monotonic() + PATIENCE_S
    while True:
        tasks = f"/proc/{process}/task"
        states = [open(f"{tasks}/{task}/stat").read().split()[2] for task in os.listdir(tasks)]
        if set(states) == {"T"}:
            return
        assert time.monotonic() < deadline, states
