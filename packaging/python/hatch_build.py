"""Puts the programs and libraries of packaging/build into the wheel, and says which systems can load them."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("softefa", "efa-bench", "netsim")


def needed_glibc(binary: Path) -> "tuple[int, int]":
    """The highest version of glibc's symbols that `binary` refers to."""
    command = ["objdump", "-p", str(binary)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", text)
    return max((int(major), int(minor)) for major, minor in versions)


def platform_tag(binaries: Iterable[Path]) -> str:
    """The platform of a wheel that holds these files, as PEP 600 writes it."""
    major, minor = max(needed_glibc(binary) for binary in binaries)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling for each wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        named = os.environ.get("SOFTEFA_TREE")
        tree = Path(named) if named else Path(self.root, "../../target/packages/tree")
        if not (tree / "bin/softefa").is_file():
            raise SystemExit(f"{tree}: no bin/softefa there; run packaging/build, or set SOFTEFA_TREE")
        tree = tree.resolve()
        programs = [tree / "bin" / name for name in PROGRAMS]
        libraries = sorted((tree / "lib").rglob("*.so*"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(programs + libraries)}"
        build_data["shared_scripts"] = {str(path): path.name for path in programs}
        # `softefa` finds its libraries in the lib/softefa of the prefix that it is installed in.
        # A wheel has no symbolic links: each becomes a file.
        files = libraries + sorted(path for path in (tree / "share").rglob("*") if path.is_file())
        # Documents are on the web; what the licences ask for comes along.
        files = [path for path in files if not {"docs", "examples"} & set(path.relative_to(tree).parts)]
        build_data["shared_data"] = {str(path): str(path.relative_to(tree)) for path in files}
