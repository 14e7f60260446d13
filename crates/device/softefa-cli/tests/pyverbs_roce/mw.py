"""MW: windows of both types show a part of a region, and no more once they are gone."""

import pyverbs.enums as e
from common import MW_ACCESS, completions, opened, pair, pattern, succeeded
from pyverbs.mr import MW, MWBind, MWBindInfo
from pyverbs.wr import SendWR

SHOWN = 1024


def reach(side, peer, key, start):
    """Writes as much as is shown, from `start` on."""
    request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, sg=[side.place(SHOWN)], num_sge=1)
    request.set_wr_rdma(key, peer.mr.buf + start)
    side.qp.post_send(request)
    return completions(side.cq)[0].status


def window_of(kind, peer):
    """A window that shows a part of the region, and its key."""
    window = MW(peer.pd, kind)
    shown = MWBindInfo(peer.mr, peer.mr.buf + SHOWN, SHOWN, e.IBV_ACCESS_REMOTE_WRITE)
    if kind == e.IBV_MW_TYPE_1:
        peer.qp.bind_mw(window, MWBind(shown, e.IBV_SEND_SIGNALED))
        key = window.rkey
    else:
        request = SendWR(opcode=e.IBV_WR_BIND_MW)
        request.set_bind_wr(window, shown)
        peer.qp.post_send(request)
        key = request.rkey
    succeeded(peer.cq)
    return window, key


context = opened()
for seed, kind in enumerate((e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2), 1):
    side, peer = pair(context, access=MW_ACCESS)
    side.fill(seed)
    window, key = window_of(kind, peer)
    assert reach(side, peer, key, SHOWN) == e.IBV_WC_SUCCESS
    assert peer.mr.read(3 * SHOWN, 0) == bytes(SHOWN) + pattern(seed, SHOWN) + bytes(SHOWN)
    assert reach(side, peer, key, SHOWN + 1) == e.IBV_WC_REM_ACCESS_ERR, kind
    window.close()
    side, peer = pair(context, access=MW_ACCESS)
    assert reach(side, peer, key, SHOWN) == e.IBV_WC_REM_ACCESS_ERR, "a window that is gone"
print("mw: passed")
