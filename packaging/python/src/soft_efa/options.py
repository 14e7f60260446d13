"""The options of ``softefa run``, which describe a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

#: Options that are a word of their own, by the field that switches them on.
_SWITCHES = {"roce": "--roce", "strict": "--strict", "lint": "--lint", "stats": "--stats"}
#: Options with a value.
_VALUES = {
    "fault": "--fault",
    "profile": "--profile",
    "wire": "--wire",
    "integrity": "--integrity",
    "key_file": "--key-file",
    "trace": "--trace",
    "pcap": "--pcap",
}


@dataclass(frozen=True)
class Options:
    """Options of ``softefa run``; an option that is not given has the default of the command."""

    #: Faults on purpose, for example ``loss=1%,reorder=20%,seed=7``.
    fault: str | None = None
    #: One device, or several: ``NAME=IP[,profile=NAME]``.
    device: str | Sequence[str] | None = None
    #: A RoCE v2 device instead of an EFA device.
    roce: bool = False
    #: What the device plays: ``efa0``, ``efa1``, ``efa2``, ``roce`` or ``rxe``.
    profile: str | None = None
    #: What carries packets: ``auto``, ``udp`` or ``shm``.
    wire: str | None = None
    #: ``crc32c``: payload is checked, too.
    integrity: str | None = None
    #: A file with 32 bytes, with which all datagrams are encrypted.
    key_file: str | None = None
    #: Refuse what hardware refuses.
    strict: bool = False
    #: Say in words what the program does wrong.
    lint: bool = False
    #: Print the counters at the end.
    stats: bool = False
    #: Write a line per event to this file; ``%p`` in it is the process id.
    trace: str | None = None
    #: Capture the packets into this file.
    pcap: str | None = None

    @classmethod
    def of(cls, values: dict[str, Any]) -> Options:
        """Options from keyword arguments; an unknown name is a ``TypeError`` that lists the known ones."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise TypeError(f"no option {', '.join(unknown)}; there are {', '.join(known)}")
        return cls(**values)

    def words(self) -> list[str]:
        """The words between ``softefa run`` and ``--``."""
        devices = [self.device] if isinstance(self.device, str) else self.device or ()
        words = [f"--device={device}" for device in devices]
        for name, option in _VALUES.items():
            value = getattr(self, name)
            if value is not None:
                words.append(f"{option}={value}")
        return words + [option for name, option in _SWITCHES.items() if getattr(self, name)]
