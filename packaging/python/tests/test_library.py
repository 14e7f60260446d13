"""The functions, each with the real command."""

import os
import site
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

import soft_efa
from live import has_live_faults
from soft_efa import Options, SoftEfaError

#: Counts the devices that a program finds by the name that NCCL and others open.
COUNT_DEVICES = """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
count = ctypes.c_int()
verbs.ibv_get_device_list(ctypes.byref(count))
print(count.value)
"""


def python(code: str, options: Options, **how: object) -> "subprocess.CompletedProcess[str]":
    program = [sys.executable, "-c", textwrap.dedent(code)]
    return soft_efa.run(program, options, capture_output=True, text=True, timeout=60, **how)


@pytest.mark.skipif("SOFTEFA_COMMAND" in os.environ, reason="SOFTEFA_COMMAND names another")
def test_the_command_is_that_of_this_environment() -> None:
    assert soft_efa.command().startswith((sys.prefix, site.getuserbase()))


def test_a_command_that_pip_installed_for_the_user_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in (f"{os.name}_user", "path"):
        command = tmp_path / folder / "softefa"
        command.parent.mkdir()
        command.touch(mode=0o755)
    monkeypatch.delenv("SOFTEFA_COMMAND", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _, scheme="environment": str(tmp_path / scheme))
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    assert soft_efa.command() == str(tmp_path / f"{os.name}_user/softefa")
    # An environment of its own does not look there.
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
    assert soft_efa.command() == str(tmp_path / "path/softefa")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SoftEfaError, match="softefa is neither .*/environment/softefa nor in PATH"):
        soft_efa.command()


def test_a_program_finds_the_devices_of_its_options() -> None:
    one = python(COUNT_DEVICES, Options())
    assert (one.returncode, one.stdout) == (0, "1\n"), one.stderr
    two = python(COUNT_DEVICES, Options(device=["a=127.0.0.1", "b=127.0.0.2"]))
    assert (two.returncode, two.stdout) == (0, "2\n"), two.stderr
    roce = python(COUNT_DEVICES, Options(roce=True))
    assert (roce.returncode, roce.stdout) == (0, "1\n"), roce.stderr


def test_options_become_words() -> None:
    options = Options(fault="loss=1%", device="a=127.0.0.1", strict=True)
    assert options.words() == ["--device=a=127.0.0.1", "--fault=loss=1%", "--strict"]
    with pytest.raises(TypeError, match="no option faults; there are fault, device"):
        Options.of({"faults": "loss=1%"})


def test_a_wrong_option_is_one_line_of_the_command() -> None:
    done = python("", Options(fault="los=1%"))
    assert done.returncode == 125
    assert "los" in done.stderr and done.stderr.count("\n") == 1


def test_outside_of_a_run_there_is_none() -> None:
    assert soft_efa.current_run() is None


def test_a_program_finds_its_own_run_among_the_running() -> None:
    code = """
        import os
        import soft_efa
        run = soft_efa.current_run()
        assert run is not None and run.directory == os.environ["SOFTEFA_RUN_DIR"], run
        assert run in soft_efa.running()
        (device,) = soft_efa.Device.all()
        assert device["tx_pkts"] == 0 and device.kind == "EFA" and device.limits["max_qp"] == 256, device
    """
    done = python(code, Options())
    assert done.returncode == 0, done.stderr


def test_a_refusal_is_an_error_with_the_words_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTEFA_FAULT", "nonsense")
    with pytest.raises(SoftEfaError, match="nonsense"):
        soft_efa.running()


@pytest.mark.skipif(not has_live_faults(), reason="this softefa has no command fault")
def test_live_faults_are_shown_and_cleared() -> None:
    code = """
        import soft_efa
        (device,) = soft_efa.Device.all()
        with device.fault("loss=5%"):
            assert "loss=5%" in str(soft_efa.show_faults()), soft_efa.show_faults()
        assert "loss=5%" not in str(soft_efa.show_faults())
        try:
            device.set_fault("los=5%")
        except soft_efa.SoftEfaError as error:
            assert "los" in str(error)
        else:
            raise AssertionError("a wrong spec was taken")
    """
    done = python(code, Options())
    assert done.returncode == 0, done.stderr
