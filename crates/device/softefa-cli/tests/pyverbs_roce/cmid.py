"""CMID: two processes connect by address, exchange messages both ways, and part."""

import os
import sys

import pyverbs.cm_enums as ce
from common import BYTES, pattern
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.qp import QPCap, QPInitAttr

ADDRESS, PORT, ROUNDS = sys.argv[1], sys.argv[2], 10


def queues():
    return QPInitAttr(cap=QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1))


def take(cmid, mr, seed):
    assert cmid.get_recv_comp().byte_len == BYTES
    assert mr.read(BYTES, 0) == pattern(seed), "other bytes"


def give(cmid, mr, seed):
    mr.write(pattern(seed), BYTES)
    cmid.post_send(mr)
    cmid.get_send_comp()


def ask(port):
    info = AddrInfo(src=ADDRESS, dst=ADDRESS, dst_service=port, port_space=ce.RDMA_PS_TCP)
    cmid = CMID(creator=info, qp_init_attr=queues())
    incoming, outgoing = cmid.reg_msgs(BYTES), cmid.reg_msgs(BYTES)
    cmid.connect()
    for seed in range(ROUNDS):
        cmid.post_recv(incoming)
        give(cmid, outgoing, seed)
        take(cmid, incoming, seed + 100)
    cmid.disconnect()


def answer(listener):
    cmid = listener.get_request()
    incoming, outgoing = cmid.reg_msgs(BYTES), cmid.reg_msgs(BYTES)
    cmid.post_recv(incoming)
    cmid.accept()
    for seed in range(ROUNDS):
        take(cmid, incoming, seed)
        cmid.post_recv(incoming)
        give(cmid, outgoing, seed + 100)
    cmid.disconnect()


ready, told = os.pipe()
child = os.fork()
if child == 0:
    os.read(ready, 1)
    ask(PORT)
    os._exit(0)
info = AddrInfo(src=ADDRESS, src_service=PORT, port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE)
listener = CMID(creator=info, qp_init_attr=queues())
listener.listen()
os.write(told, b"x")
answer(listener)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("cmid: passed")
