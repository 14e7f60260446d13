"""Two processes with a NIXL agent each, on the UCX that the wheel brings or on the backend that
NIXL_BACKEND names: memory is written, read back, and told of. With the argument `kill` the target is killed between two writes, and the
initiator must hear of it."""

import os
import pickle
import signal
import socket
import sys
import time

import numpy as np

REGION_BYTES = int(os.environ.get("NIXL_BYTES", 4 << 20))
ROUNDS = int(os.environ.get("NIXL_ROUNDS", 8))
LIMIT_S = 30


def pattern(seed):
    return np.arange(REGION_BYTES, dtype=np.uint32).astype(np.uint8) + np.uint8(seed)


def wait(what, condition):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} takes more than {LIMIT_S} s"


class Agent:
    """An agent with one registered region, which has met the other's."""

    def __init__(self, name, wire):
        # The bindings start threads: not before the fork.
        from nixl_cu12._api import nixl_agent, nixl_agent_config

        backend = os.environ.get("NIXL_BACKEND", "UCX")
        self.nixl = nixl_agent(name, nixl_agent_config(backends=[backend]))
        self.region = np.zeros(REGION_BYTES, dtype=np.uint8)
        place = (self.region.ctypes.data, REGION_BYTES, 0)
        self.nixl.register_memory([(*place, "")], mem_type="DRAM")
        self.descs = self.nixl.get_xfer_descs([place], mem_type="DRAM")
        self.wire = wire.makefile("rwb")
        # What came while something else was waited for counts, too.
        self.seen = set()
        self.tell((self.nixl.get_agent_metadata(), self.nixl.get_serialized_descs(self.descs)))
        metadata, descs = self.hear()
        self.peer = self.nixl.add_remote_agent(metadata)
        self.peer = self.peer.decode() if isinstance(self.peer, bytes) else self.peer
        self.remote_descs = self.nixl.deserialize_descs(descs)

    def tell(self, thing):
        pickle.dump(thing, self.wire)
        self.wire.flush()

    def hear(self):
        return pickle.load(self.wire)

    def transfer(self, operation, notification):
        handle = self.nixl.initialize_xfer(
            operation, self.descs, self.remote_descs, self.peer, notification
        )
        states = [self.nixl.transfer(handle)]

        def is_done():
            states.append(self.nixl.check_xfer_state(handle))
            assert "ERR" not in states, operation
            return states[-1] == "DONE"

        wait(operation, is_done)
        self.nixl.release_xfer_handle(handle)

    def wait_for(self, notification):
        def has_come():
            for messages in self.nixl.get_new_notifs().values():
                self.seen.update(messages)
            return notification in self.seen

        wait(f"notification {notification}", has_come)


def initiate(agent):
    for number in range(ROUNDS):
        agent.region[:] = pattern(number)
        agent.transfer("WRITE", b"written %d" % number)
        assert agent.hear() == "checked"
        agent.transfer("READ", b"read %d" % number)
        assert np.array_equal(agent.region, pattern(number + 100)), "READ brought other bytes"


def serve(agent):
    for number in range(ROUNDS):
        agent.wait_for(b"written %d" % number)
        assert np.array_equal(agent.region, pattern(number)), "WRITE left other bytes"
        agent.region[:] = pattern(number + 100)
        agent.tell("checked")
        agent.wait_for(b"read %d" % number)


def write_to_the_dead(agent, target):
    from nixl_cu12._bindings import nixlRemoteDisconnectError

    agent.transfer("WRITE", b"alive")
    os.kill(target, signal.SIGKILL)
    os.waitpid(target, 0)
    try:
        agent.transfer("WRITE", b"dead")
    except nixlRemoteDisconnectError:
        print("heard of the death")
        return
    raise AssertionError("wrote into a process that is gone")


def main():
    wires = socket.socketpair()
    child = os.fork()
    agent = Agent("target" if child == 0 else "initiator", wires[int(child == 0)])
    if sys.argv[1:] == ["kill"]:
        return agent.hear() if child == 0 else write_to_the_dead(agent, child)
    serve(agent) if child == 0 else initiate(agent)
    agent.tell("bye")
    assert agent.hear() == "bye"
    if child == 0:
        return
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the target ended with {status}"
    print("transfers ok")


if __name__ == "__main__":
    sys.exit(main())
