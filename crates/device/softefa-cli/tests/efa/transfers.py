"""Two processes exchange data through the `efa` package of PyPI, which opens libibverbs.so.1 and
libefa.so.1 by name: messages, RDMA READ, RDMA WRITE, and a key that nobody has."""

import ctypes
import os
import socket
import sys
import time

import efa
from efa.enums import AccessFlags, SendFlags, WCStatus, WROpcode

QKEY = 0x1234
MESSAGE_BYTES = 8192
MESSAGES = 300
REGION_BYTES = 1 << 20
LIMIT_S = 60
ACCESS = AccessFlags.LOCAL_WRITE | AccessFlags.REMOTE_READ | AccessFlags.REMOTE_WRITE


def pattern(seed, length):
    return bytes((seed + i * 7) & 0xFF for i in range(256)) * (length // 256)


class End:
    """One process's queue pair, and the other's address."""

    def __init__(self, wire):
        self.wire = wire
        self.context = efa.get_efa_device_list()[0].open()
        self.pd = self.context.alloc_pd()
        self.cq = self.context.create_cq_ex(1024, sgid=True)
        self.qp = self.pd.create_qp(
            efa.QPInitAttr(send_cq=self.cq, recv_cq=self.cq, max_send_wr=64, max_recv_wr=64)
        ).prepare(qkey=QKEY)
        self.buffer = ctypes.create_string_buffer(REGION_BYTES)
        self.mr = self.pd.reg_mr(ctypes.addressof(self.buffer), REGION_BYTES, ACCESS)
        hello = efa.local_endpoint_info(self.qp, qkey=QKEY).to_bytes()
        wire.sendall(hello + self.mr.addr.to_bytes(8, "big") + self.mr.rkey.to_bytes(4, "big"))
        theirs = wire.recv(36, socket.MSG_WAITALL)
        self.peer = efa.EndpointInfo.from_bytes(theirs[:24]).peer(self.pd)
        self.remote_addr = int.from_bytes(theirs[24:32], "big")
        self.rkey = int.from_bytes(theirs[32:], "big")

    def meet(self):
        """Waits until the other end is here, too."""
        self.wire.sendall(b".")
        assert self.wire.recv(1) == b".", "the other end is gone"

    def take(self, count):
        """The next `count` completions."""
        deadline = time.monotonic() + LIMIT_S
        done = []
        while len(done) < count:
            done += self.cq.poll(count - len(done))
            assert time.monotonic() < deadline, f"{len(done)} of {count} completions"
        return done

    def send(self, opcode, **fields):
        self.qp.post_send(
            efa.SendWR(opcode=opcode, send_flags=SendFlags.SIGNALED, dest=self.peer, **fields)
        )


def exchange(end, seed):
    """Messages both ways at once, each checked."""
    slots = 16
    for slot in range(slots):
        receive(end, slot)
    end.meet()
    posted, sent, received = 0, 0, 0
    end.buffer[: MESSAGE_BYTES] = pattern(seed, MESSAGE_BYTES)
    while sent < MESSAGES or received < MESSAGES:
        while posted < MESSAGES and posted - sent < slots:
            end.send(WROpcode.SEND, sg_list=[end.mr.sge(MESSAGE_BYTES)], wr_id=1000)
            posted += 1
        for wc in end.take(1):
            wc.raise_for_status()
            if wc.wr_id == 1000:
                sent += 1
                continue
            start = (1 + wc.wr_id) * MESSAGE_BYTES
            assert wc.byte_len == MESSAGE_BYTES
            assert end.buffer[start : start + MESSAGE_BYTES] == pattern(1 - seed, MESSAGE_BYTES)
            received += 1
            if received + slots <= MESSAGES:
                receive(end, wc.wr_id)


def receive(end, slot):
    offset = (1 + slot) * MESSAGE_BYTES
    end.qp.post_recv(efa.RecvWR(wr_id=slot, sg_list=[end.mr.sge(MESSAGE_BYTES, offset)]))


def reach(end, seed):
    """One end reads and writes the other's memory, which takes no part in it."""
    half = REGION_BYTES // 2
    end.buffer[:half] = pattern(10 + seed, half)
    end.meet()
    if seed == 0:
        reads = efa.read_wrs(end.mr, end.peer, end.remote_addr, end.rkey, offset=half, length=half)
        end.qp.post_send(reads)
        [wc.raise_for_status() for wc in end.take(len(reads))]
        assert end.buffer[half:] == pattern(11, half)
        writes = efa.write_wrs(end.mr, end.peer, end.remote_addr + half, end.rkey, length=half)
        end.qp.post_send(writes)
        [wc.raise_for_status() for wc in end.take(len(writes))]
        end.send(
            WROpcode.RDMA_READ,
            sg_list=[end.mr.sge(64)],
            remote_addr=end.remote_addr,
            rkey=end.rkey ^ 0x5A5A5A,
        )
        assert end.take(1)[0].status == WCStatus.REM_ACCESS_ERR
    end.meet()
    if seed == 1:
        assert end.buffer[half:] == pattern(10, half)


def main():
    wires = socket.socketpair()
    child = os.fork()
    seed = int(child == 0)
    end = End(wires[seed])
    exchange(end, seed)
    reach(end, seed)
    end.meet()
    if child == 0:
        return
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the other end ended with {status}"
    print("transfers ok")


if __name__ == "__main__":
    sys.exit(main())
