"""What cases ask of completions and of calls."""

import errno

import pyverbs.enums as e
from pyverbs.pyverbs_error import PyverbsRDMAError


def meet(channel, side):
    """Exchanges addresses; nothing is under way yet."""
    return side.peer(channel.swap(**side.address()))


def check_success(entry, opcode, length=0):
    assert entry.status == e.IBV_WC_SUCCESS, entry
    assert (entry.opcode, entry.byte_len) == (opcode, length), entry


def check_failure(entry, device_status, verbs_status, wr_id=1):
    """The device's number of the failure and what verbs makes of it."""
    found = (entry.wr_id, entry.vendor_err, entry.status)
    assert found == (wr_id, device_status, verbs_status), entry


def check_refused(call, number):
    """The call fails with this errno."""
    try:
        call()
    except PyverbsRDMAError as error:
        name = errno.errorcode.get(error.error_code, error.error_code)
        assert error.error_code == number, f"{name}, not {errno.errorcode[number]}: {error}"
        return
    raise AssertionError(f"taken; expected {errno.errorcode[number]}")
