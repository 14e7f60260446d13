"""Two processes with a Mooncake transfer engine each: one writes into the other's memory and reads it
back, in several sizes; both compare every byte. Arguments: ADDRESS DEVICE LONGEST_BYTES."""

import ctypes
import os
import pickle
import socket
import sys

from mooncake.engine import TransferEngine

ADDRESS, DEVICE, LONGEST_BYTES = sys.argv[1], sys.argv[2], int(sys.argv[3])
SIZES = [size for size in (1, 4096, 65536, 1 << 20, 4 << 20) if size <= LONGEST_BYTES]


def pattern(size, seed):
    return bytes((index * 7 + seed) % 251 for index in range(251)) * (size // 251 + 1)


class Engine:
    """An engine with one registered region, which has met the other's."""

    def __init__(self, wire):
        self.engine = TransferEngine()
        code = self.engine.initialize(ADDRESS, "P2PHANDSHAKE", "rdma", DEVICE)
        assert code == 0, f"initialize: {code}"
        self.region = ctypes.create_string_buffer(LONGEST_BYTES)
        self.address = ctypes.addressof(self.region)
        code = self.engine.register_memory(self.address, LONGEST_BYTES)
        assert code == 0, f"register_memory: {code}"
        self.wire = wire.makefile("rwb")
        self.tell((f"{ADDRESS}:{self.engine.get_rpc_port()}", self.address))
        self.peer, self.peer_address = self.hear()

    def tell(self, thing):
        pickle.dump(thing, self.wire)
        self.wire.flush()

    def hear(self):
        return pickle.load(self.wire)

    def fill(self, size, seed):
        ctypes.memmove(self.region, pattern(size, seed), size)

    def check(self, size, seed, what):
        assert self.region.raw[:size] == pattern(size, seed)[:size], f"{what} of {size} bytes"


def initiate(engine):
    transfers = engine.engine
    for seed, size in enumerate(SIZES):
        engine.fill(size, seed)
        code = transfers.transfer_sync_write(engine.peer, engine.address, engine.peer_address, size)
        assert code == 0, f"WRITE of {size} bytes: {code}"
        engine.tell("written")
        assert engine.hear() == "changed"
        code = transfers.transfer_sync_read(engine.peer, engine.address, engine.peer_address, size)
        assert code == 0, f"READ of {size} bytes: {code}"
        engine.check(size, seed + 100, "READ")


def serve(engine):
    for seed, size in enumerate(SIZES):
        assert engine.hear() == "written"
        engine.check(size, seed, "WRITE")
        engine.fill(size, seed + 100)
        engine.tell("changed")


def main():
    wires = socket.socketpair()
    child = os.fork()
    engine = Engine(wires[int(child == 0)])
    serve(engine) if child == 0 else initiate(engine)
    engine.tell("bye")
    assert engine.hear() == "bye"
    if child == 0:
        return
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the target ended with {status}"
    print("transfers ok", sum(SIZES))


if __name__ == "__main__":
    sys.exit(main())
