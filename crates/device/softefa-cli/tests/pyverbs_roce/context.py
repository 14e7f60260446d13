"""Context: what the device says of itself, its port and its tables."""

import pyverbs.enums as e
from common import DEVICE, PORT, opened
from pyverbs.device import get_device_list
from pyverbs.pd import PD

names = [device.name.decode() for device in get_device_list()]
assert DEVICE in names, names
with opened() as context:
    attr = context.query_device()
    assert attr.phys_port_cnt == 1 and attr.max_qp > 0 and attr.max_srq > 0 and attr.max_mw > 0
    assert attr.atomic_caps != e.IBV_ATOMIC_NONE
    port = context.query_port(PORT)
    assert port.state == e.IBV_PORT_ACTIVE and port.link_layer == e.IBV_LINK_LAYER_ETHERNET
    assert context.query_pkey(PORT, 0) & 0xFFFF == 0xFFFF
    gid = context.query_gid(PORT, 0).gid
    assert gid.startswith("0000:0000:0000:0000:0000:ffff:"), gid
    entry = context.query_gid_ex(PORT, 0)
    assert entry.gid_type == e.IBV_GID_TYPE_ROCE_V2 and entry.gid_index == 0
    assert len(context.query_gid_table(16)) >= 1
    assert context.query_device_ex().orig_attr.max_qp == attr.max_qp
    # Closed with what it made.
    PD(context)
print("context: passed")
