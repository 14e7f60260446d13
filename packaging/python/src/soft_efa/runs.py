"""Programs that run on devices now, and their counters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .command import info

#: Where the run is that this process belongs to.
ENV_RUN_DIR = "SOFTEFA_RUN_DIR"


@dataclass(frozen=True)
class Process:
    """A process that has opened a device."""

    device: str
    pid: int
    #: By the names that ``softefa info`` has for them.
    counters: dict[str, int]


@dataclass(frozen=True)
class Run:
    """A ``softefa run`` that has not ended."""

    program: str
    #: The private directory of the run.
    directory: str
    #: Sums over its processes, also of those that have ended.
    counters: dict[str, int]
    processes: tuple[Process, ...]


def running() -> list[Run]:
    """All runs of this user on this machine."""
    return [_run(entry) for entry in info()["running"]]


def current_run() -> Run | None:
    """The run that this process is part of; ``None`` outside of one."""
    directory = os.environ.get(ENV_RUN_DIR)
    if not directory:
        return None
    here = os.path.realpath(directory)
    return next((run for run in running() if os.path.realpath(run.directory) == here), None)


def _run(entry: dict[str, Any]) -> Run:
    processes = (Process(each["device"], each["pid"], each["counters"]) for each in entry["processes"])
    return Run(entry["program"], entry["directory"], entry["counters"], tuple(processes))
