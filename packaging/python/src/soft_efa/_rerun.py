"""Runs one test again, in a separate pytest under ``softefa run``; its reports come back through a file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .command import SoftEfaError, words
from .options import Options

#: In the process of the test: the directory to write to. Its name says that nobody starts another one.
ENV_REPORTS = "SOFTEFA_PYTEST_REPORTS"
#: And the test, by its node id.
ENV_NODE = "SOFTEFA_PYTEST_NODE"

#: What another pytest must not do again or write over, by the plugin that knows the option.
_QUIET = {"xdist": ["-n0"], "junitxml": ["--junitxml="], "_cov": ["--no-cov"]}


class Inside:
    """In the process of the test: keeps that test alone, and writes down its reports."""

    def __init__(self, config: pytest.Config, folder: str, node: str) -> None:
        self.config = config
        self.node = node
        self.reports = Path(folder, "reports")

    @classmethod
    def of_process(cls, config: pytest.Config) -> Inside | None:
        """``None`` where this is not the process of a test. Children of the process are not it, either."""
        folder, node = os.environ.pop(ENV_REPORTS, None), os.environ.pop(ENV_NODE, None)
        return cls(config, folder, node) if folder and node else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid == self.node][:1]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        with self.reports.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def rerun(item: pytest.Item, options: Options, timeout_s: float | None) -> list[pytest.TestReport]:
    """Runs the test on a device; the reports of its phases, or one that says why there are none."""
    folder = tempfile.mkdtemp(prefix="softefa-pytest-")
    try:
        command = words(_arguments(item.config, item.path, folder), options)
        code, said = _execute(command, item, folder, timeout_s)
        reports = _read(item.config, Path(folder, "reports"))
        if code is None:
            said = f"the test took longer than {timeout_s} s (timeout_s of the mark) and was ended\n{said}"
            return [*reports, failure(item, said)]
        if any(report.when == "teardown" for report in reports):
            return reports
        return [*reports, failure(item, f"{_obituary(code)}\n{said}")]
    except (SoftEfaError, OSError) as error:
        return [failure(item, f"the test cannot be run on a device: {error}")]
    except pytest.fail.Exception as error:  # A timer of this process went off, as pytest-timeout sets one.
        reports = _read(item.config, Path(folder, "reports"))
        return [*reports, failure(item, f"{error}\n{_said(folder)}")]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tear_down(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Ends what earlier tests have set up and ``nextitem`` does not need; reports what went wrong.

    pytest leaves up what this test might have used, and expects that it was run here.
    """
    call = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown", reraise=(KeyboardInterrupt,)
    )
    if call.excinfo is None:
        return []
    return [item.ihook.pytest_runtest_makereport(item=item, call=call)]


def failure(item: pytest.Item, text: str) -> pytest.TestReport:
    """A test that failed before it could say so itself."""
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={name: 1 for name in item.keywords},
        outcome="failed",
        longrepr=text.rstrip(),
        when="call",
    )


def _arguments(config: pytest.Config, path: Path, folder: str) -> list[str]:
    """This pytest's command line, for one file."""
    given = config.invocation_params.args
    if hasattr(config, "workerinput"):  # A worker of pytest-xdist was given no command line.
        given = config.workerinput.get("mainargv", [])[1:]
    options = _options(config, [os.fspath(word) for word in given])
    for plugin, more in _QUIET.items():
        if config.pluginmanager.has_plugin(plugin):
            options += more
    command = [sys.executable, "-m", "pytest", *options]
    command += ["-o", f"cache_dir={folder}/cache", f"--rootdir={config.rootpath}"]
    basetemp = config.getoption("basetemp", None)
    if basetemp:  # pytest begins by emptying it.
        command.append(f"--basetemp={Path(basetemp, Path(folder).name)}")
    if config.inipath is not None:
        command += ["-c", str(config.inipath)]
    return [*command, str(path)]


class _Word(str):
    """A word of a command line: an object of its own, even where another one has the same text."""


def _options(config: pytest.Config, given: list[str]) -> list[str]:
    """A command line without its paths. Only the parser knows which words are values of options."""
    line = [_Word(word) for word in given]
    known, unknown = config._parser.parse_known_and_unknown_args(line)
    # Where there are paths before and behind an option, argparse does not know those behind it.
    paths = {id(word) for word in [*known.file_or_dir, *(word for word in unknown if word[:1] != "-")]}
    # Behind a -- are paths alone; the options that we add must not be there.
    return [str(word) for word in line if id(word) not in paths and word != "--"]


def _execute(command: list[str], item: pytest.Item, folder: str, timeout_s: float | None) -> tuple[int | None, str]:
    """Exit code and output; the code is ``None`` when it was ended after ``timeout_s``."""
    environment = {**os.environ, ENV_REPORTS: folder, ENV_NODE: item.nodeid}
    visible = item.config.getoption("capture", "fd") == "no"
    # A file and no pipe: who was left behind by the test may hold its end open for ever.
    with Path(folder, "output").open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=None if visible else output,
            stderr=None if visible else subprocess.STDOUT,
            env=environment,
            cwd=item.config.invocation_params.dir,
            start_new_session=True,
        )
        code: int | None = None
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:  # Neither what hangs nor, after Ctrl-C, what runs may go on alone.
            _end(child)
    return code, _said(folder)


def _said(folder: str) -> str:
    """What the test wrote where nobody has seen it."""
    path = Path(folder, "output")
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends all processes of the test: softefa passes the first signal on, and stays to tidy up."""
    for end in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, end)
            child.wait(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def _read(config: pytest.Config, path: Path) -> list[pytest.TestReport]:
    """The reports that were written whole."""
    if not path.exists():
        return []
    reports = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            break
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        if isinstance(report.longrepr, list):  # Where a test was skipped: JSON knows no tuples.
            report.longrepr = tuple(report.longrepr)
        reports.append(report)
    return reports


def _obituary(code: int) -> str:
    """Why a process did not come to the end of its test, by the exit code of ``softefa run``."""
    if code == 125:
        return "softefa could not run the test:"
    if code - 128 in signal.valid_signals():
        return f"the process of the test was ended by {signal.strsignal(code - 128)} (signal {code - 128}):"
    return f"the process of the test ended with {code} before the test did:"
