"""Sets, clears and shows faults of running programs without a restart."""

from __future__ import annotations

import json
from typing import Any

from .command import ask


def set_fault(spec: str, *, device: str | None = None, peer: str | None = None, seconds: float | None = None) -> None:
    """Sets these faults on running devices, in place of those that they had.

    ``spec`` is what ``softefa run --fault`` takes, for example ``loss=5%``. ``device`` and ``peer`` narrow
    it down; after ``seconds`` it ends by itself. A wrong ``spec`` raises ``SoftEfaError`` and changes nothing.
    """
    options = [] if device is None else [f"--device={device}"]
    if peer is not None:
        options.append(f"--peer={peer}")
    if seconds is not None:
        options.append(f"--for={round(seconds * 1000)}ms")
    ask("fault", "set", spec, *options)


def clear_fault() -> None:
    """Clears the faults that were set."""
    ask("fault", "clear")


def show_faults() -> Any:
    """The faults in force, as ``softefa fault show --json`` prints them."""
    return json.loads(ask("fault", "show", "--json"))
