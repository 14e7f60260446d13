"""Whether the command has what is tried."""

import subprocess

import soft_efa


def has_live_faults() -> bool:
    """Older ones have no ``softefa fault``."""
    return subprocess.run([soft_efa.command(), "fault", "--help"], capture_output=True, check=False).returncode == 0
