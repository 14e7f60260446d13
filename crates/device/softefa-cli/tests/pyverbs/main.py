"""Runs cases between two processes: `main.py (listen|connect) PORT CASE...`, the same on both sides."""

import sys

import provoked
import refusals
import statuses
import transfers
from channel import Channel


MODULES = (transfers, statuses, refusals, provoked)


def main():
    role, port, *names = sys.argv[1:]
    channel = getattr(Channel, role)(int(port))
    for name in names:
        case = next(getattr(m, name) for m in MODULES if hasattr(m, name))()
        (case.respond if role == "listen" else case.initiate)(channel)
        print(f"{name}: passed", flush=True)


main()
