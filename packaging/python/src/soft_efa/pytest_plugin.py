"""The plugin for pytest: tests that run on a software EFA or RoCE device.

    @pytest.mark.softefa(fault="loss=1%,seed=7")
    def test_transfer(softefa_device):
        ...
        assert softefa_device["retrans_pkts"] > 0

A test that has the mark, or asks for the fixture, is run again by ``softefa run`` in a process of its own,
because a device must be there before a program loads libibverbs. Outcome, output and tracebacks are those of
that process.
"""

from __future__ import annotations

from typing import Any

import pytest

from . import _rerun
from .device import Device
from .options import Options

MARK = "softefa"
FIXTURE = "softefa_device"
INSIDE = "softefa-inside"
#: A test that takes longer has failed; ``timeout_s`` of the mark sets another limit, 0 none.
TIMEOUT_S = 300.0


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark."""
    config.addinivalue_line(
        "markers",
        "softefa(fault=None, device=None, roce=False, timeout_s=300, ...): run the test on a software EFA or RoCE "
        "device, in a process of its own; the options are those of soft_efa.Options.",
    )
    inside = _rerun.Inside.of_process(config)
    if inside is not None:
        config.pluginmanager.register(inside, INSIDE)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs what has the mark, or asks for the fixture, on a device."""
    if item.config.pluginmanager.has_plugin(INSIDE) or not _is_ours(item):
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in [*_reports(item), *_rerun.tear_down(item, nextitem)]:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _is_ours(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARK) is not None or FIXTURE in getattr(item, "fixturenames", ())


def _reports(item: pytest.Item) -> list[pytest.TestReport]:
    marker = item.get_closest_marker(MARK)
    values: dict[str, Any] = dict(marker.kwargs) if marker else {}
    timeout_s = float(values.pop("timeout_s", TIMEOUT_S))
    try:
        if marker and marker.args:
            raise TypeError(f"write softefa(fault={marker.args[0]!r}): the mark takes names")
        options = Options.of(values)
    except TypeError as error:
        return [_rerun.failure(item, f"@pytest.mark.softefa: {error}")]
    return _rerun.rerun(item, options, timeout_s or None)


@pytest.fixture
def softefa_device() -> Device:
    """The first device of this test, with its counters and faults."""
    return Device.all()[0]
