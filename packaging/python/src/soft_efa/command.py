"""The ``softefa`` command of this installation."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .options import Options

#: Names another ``softefa`` than that of the wheel.
ENV_COMMAND = "SOFTEFA_COMMAND"


class SoftEfaError(RuntimeError):
    """A refusal by ``softefa``, with its message of one line."""


def command() -> str:
    """The path of ``softefa``: ``SOFTEFA_COMMAND``, the one of this environment, or the one in ``PATH``."""
    named = os.environ.get(ENV_COMMAND)
    if named:
        if not os.access(named, os.X_OK):
            raise SoftEfaError(f"{ENV_COMMAND}: {named} cannot be run; unset it, or name the softefa to use")
        return named
    own = _own()
    found = next((str(path) for path in own if path.is_file()), None) or shutil.which("softefa")
    if found is None:
        places = " nor ".join(map(str, own))
        raise SoftEfaError(f"softefa is neither {places} nor in PATH; install the wheel soft-efa, or set {ENV_COMMAND}")
    return found


def _own() -> list[Path]:
    """Where pip puts it: into this environment, or for the user alone where only root may write there."""
    schemes = [sysconfig.get_path("scripts")]
    if site.ENABLE_USER_SITE:
        schemes.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    return [Path(scheme, "softefa") for scheme in schemes]


def words(program: Sequence[str | os.PathLike[str]], options: Options | None = None) -> list[str]:
    """The command line that runs ``program`` on a device."""
    given = (options or Options()).words()
    return [command(), "run", *given, "--", *(os.fspath(word) for word in program)]


def run(
    program: Sequence[str | os.PathLike[str]], options: Options | None = None, **how: Any
) -> subprocess.CompletedProcess[Any]:
    """Runs ``program`` on a device; ``how`` is for ``subprocess.run``.

    The exit code is the program's own, 125 when ``softefa`` itself failed.
    """
    return subprocess.run(words(program, options), **how)


def ask(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Standard output of ``softefa`` with these arguments; a refusal is a ``SoftEfaError``."""
    done = subprocess.run([command(), *arguments], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or f"softefa {' '.join(arguments)} ended with {done.returncode}"
        raise SoftEfaError(said)
    return done.stdout


def info() -> Any:
    """The output of ``softefa info --json``, called from outside the run that this process is part of.

    From inside, the calling process would be one more process that has opened a device.
    """
    inside = ("LD_PRELOAD", "SOFTEFA_RUN_DIR")
    outside = {name: value for name, value in os.environ.items() if name not in inside}
    return json.loads(ask("info", "--json", environment=outside))
