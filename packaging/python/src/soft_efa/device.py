"""The device of a test, which is the value of pytest's fixture ``softefa_device``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import faults
from .command import SoftEfaError, info
from .runs import Run, current_run


@dataclass(frozen=True)
class Device:
    """A device of the run that this process is part of."""

    name: str
    #: ``EFA`` or ``RoCE v2``.
    kind: str
    address: str
    profile: str
    limits: dict[str, int]
    capabilities: dict[str, bool]

    @classmethod
    def all(cls) -> list[Device]:
        """The devices that programs of this process find, in their order."""
        return [cls._of(entry) for entry in info()["devices"]]

    @classmethod
    def _of(cls, entry: dict[str, Any]) -> Device:
        names = ("name", "kind", "address", "profile", "limits", "capabilities")
        return cls(**{name: entry[name] for name in names})

    def counters(self) -> dict[str, int]:
        """The counts of all processes of this run on this device so far.

        Every counter is there; before a process opened the device all are 0.
        """
        run = self._run()
        sums = dict.fromkeys(run.counters, 0)
        for process in run.processes:
            if process.device == self.name:
                for name, value in process.counters.items():
                    # Maxima are no amounts: they cannot be added.
                    merged = max(sums.get(name, 0), value) if name.endswith("_max") else sums.get(name, 0) + value
                    sums[name] = merged
        return sums

    def __getitem__(self, counter: str) -> int:
        """One counter: ``device["tx_pkts"]``."""
        return self.counters()[counter]

    def set_fault(self, spec: str, *, peer: str | None = None, seconds: float | None = None) -> None:
        """Sets these faults on this device, in place of those set before."""
        faults.set_fault(spec, device=self.name, peer=peer, seconds=seconds)

    def clear_fault(self) -> None:
        """Clears the faults that were set."""
        faults.clear_fault()

    @contextmanager
    def fault(self, spec: str, *, peer: str | None = None) -> Iterator[None]:
        """Faults within a ``with`` block."""
        self.set_fault(spec, peer=peer)
        try:
            yield
        finally:
            self.clear_fault()

    def _run(self) -> Run:
        run = current_run()
        if run is None:
            raise SoftEfaError("this process is in no run; start it as softefa run -- PROGRAM")
        return run
