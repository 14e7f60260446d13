"""Every operation, with the data checked on the side that got it."""

import pyverbs.enums as e

from checks import check_success as check, meet
from srd import Side, pattern

#: Longest message on loopback, and what surrounds the sizes at which something changes.
SIZES = (0, 1, 31, 32, 33, 511, 512, 513, 4095, 4096, 8927, 8928)
#: Longer than one datagram, and longer than many.
RDMA_SIZES = (0, 1, 8928, 8929, 65_536, 1_000_001, 4 << 20)
IMM = 0x1234_5678


class Messages:
    """SEND, SEND_WITH_IMM and inline, one at a time, of every interesting size."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        for size in SIZES:
            data = pattern(size, size)
            side.mr.write(data, size)
            channel.hear()
            side.send(peer, size, wr_id=size)
            check(*side.wait(), e.IBV_WC_SEND)
            channel.hear()
            send_imm = lambda qp: qp.wr_send_imm(IMM + size)
            side.post(peer, send_imm, sges=[side.sge(size // 2), side.sge(size - size // 2, size // 2)])
            check(*side.wait(), e.IBV_WC_SEND)
            if size <= 32:
                channel.hear()
                side.post(peer, lambda qp: qp.wr_send(), inline=(side.mr.buf, size))
                # The bytes were taken: what happens to them now must not matter.
                side.mr.write(bytes(size), size)
                check(*side.wait(), e.IBV_WC_SEND)
        channel.swap()

    def respond(self, channel):
        side = Side()
        peer = meet(channel, side)
        for size in SIZES:
            data = pattern(size, size)
            self.receive(channel, side, peer, data, None)
            self.receive(channel, side, peer, data, IMM + size)
            if size <= 32:
                self.receive(channel, side, peer, data, None)
        channel.swap()

    def receive(self, channel, side, peer, data, imm):
        guard = pattern(len(data) + 64, "guard")
        side.mr.write(guard, len(guard))
        side.post_recv(7, max(len(data), 1))
        channel.tell()
        (entry,) = side.wait()
        check(entry, e.IBV_WC_RECV, len(data))
        assert (entry.wr_id, entry.src_qpn) == (7, peer.qpn), entry
        assert entry.imm == imm, (entry, imm)
        assert side.mr.read(len(data), 0) == data, f"{len(data)} bytes differ"
        rest = side.mr.read(64, len(data))
        assert rest == guard[len(data):], "bytes behind the message changed"


class Stream:
    """More messages than the queues hold, all of them exactly once."""

    COUNT, SIZE = 2_000, 1_024

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        free = list(range(side.depth))
        for number in range(self.COUNT):
            while not free:
                for entry in side.poll():
                    check(entry, e.IBV_WC_SEND)
                    free.append(entry.wr_id)
            slot = free.pop()
            offset = slot * self.SIZE
            side.mr.write(pattern(self.SIZE, number), self.SIZE, offset)
            side.post(peer, lambda qp: qp.wr_send_imm(number), wr_id=slot,
                      sges=[side.sge(self.SIZE, offset)])
        for entry in side.wait(side.depth - len(free)):
            check(entry, e.IBV_WC_SEND)
        channel.swap()

    def respond(self, channel):
        side = Side()
        for slot in range(side.depth):
            side.post_recv(slot, self.SIZE, slot * self.SIZE)
        meet(channel, side)
        seen = set()
        while len(seen) < self.COUNT:
            for entry in side.wait():
                check(entry, e.IBV_WC_RECV, self.SIZE)
                number = entry.imm
                assert number not in seen, f"message {number} came twice"
                seen.add(number)
                offset = entry.wr_id * self.SIZE
                assert side.mr.read(self.SIZE, offset) == pattern(self.SIZE, number), number
                side.post_recv(entry.wr_id, self.SIZE, offset)
        assert seen == set(range(self.COUNT))
        channel.swap()


class Reads:
    """RDMA READ while the target waits for something else; completes as a send."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        for size in RDMA_SIZES:
            side.mr.write(bytes(size + 64), size + 64)
            side.post(peer, lambda qp: qp.wr_rdma_read(peer.rkey, peer.addr), sges=[side.sge(size)])
            check(*side.wait(), e.IBV_WC_SEND)
            assert side.mr.read(size, 0) == pattern(max(RDMA_SIZES), "read")[:size], size
            assert side.mr.read(64, size) == bytes(64), "bytes behind the data changed"
        channel.swap()

    def respond(self, channel):
        side = Side()
        side.mr.write(pattern(max(RDMA_SIZES), "read"), max(RDMA_SIZES))
        meet(channel, side)
        channel.swap()
        assert not side.poll(), "a READ must not show at its target"


class Writes:
    """RDMA WRITE, which does not show at its target, and WRITE_WITH_IMM, which takes a receive."""

    def initiate(self, channel):
        side = Side()
        peer = meet(channel, side)
        for size in RDMA_SIZES:
            for imm in (None, IMM + size):
                data = pattern(size, f"{size} {imm}")
                side.mr.write(data, size)
                channel.hear()
                self.post(side, peer, size, imm)
                check(*side.wait(), e.IBV_WC_RDMA_WRITE)
                channel.swap()

    def post(self, side, peer, size, imm):
        if imm is None:
            operation = lambda qp: qp.wr_rdma_write(peer.rkey, peer.addr)
        else:
            operation = lambda qp: qp.wr_rdma_write_imm(peer.rkey, peer.addr, imm)
        side.post(peer, operation, sges=[side.sge(size)])

    def respond(self, channel):
        side = Side()
        meet(channel, side)
        for size in RDMA_SIZES:
            for imm in (None, IMM + size):
                side.mr.write(bytes(size + 64), size + 64)
                if imm is not None:
                    side.post_recv(9, 1, size + 64)
                channel.tell()
                channel.swap()
                if imm is not None:
                    (entry,) = side.wait()
                    check(entry, e.IBV_WC_RECV_RDMA_WITH_IMM, size)
                    assert (entry.wr_id, entry.imm) == (9, imm), entry
                assert not side.poll(), "a WRITE must not show at its target"
                assert side.mr.read(size, 0) == pattern(size, f"{size} {imm}"), size
                assert side.mr.read(64, size) == bytes(64), "bytes behind the data changed"
