"""Soft-EFA from Python: run programs on a software EFA or RoCE device, read its counters, set faults.

    import soft_efa

    result = soft_efa.run(["fi_info", "-p", "efa"], soft_efa.Options(fault="loss=1%"))
    for run in soft_efa.running():
        print(run.program, run.counters["tx_pkts"])

The same package holds the commands ``softefa``, ``efa-bench`` and ``netsim``, and a plugin for pytest
(``@pytest.mark.softefa``, fixture ``softefa_device``).
"""

from .command import SoftEfaError, command, run
from .device import Device
from .faults import clear_fault, set_fault, show_faults
from .options import Options
from .runs import Process, Run, current_run, running

__all__ = [
    "Device",
    "Options",
    "Process",
    "Run",
    "SoftEfaError",
    "clear_fault",
    "command",
    "current_run",
    "run",
    "running",
    "set_fault",
    "show_faults",
]
