"""The plugin, in a pytest of its own for each test."""

import shutil

import pytest

from live import has_live_faults

#: Nothing here may hang without it.
LIMIT_S = 120

DEVICE = """
    import ctypes, os, signal, subprocess, time
    import pytest

    def devices():
        verbs = ctypes.CDLL("libibverbs.so.1")
        verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
        count = ctypes.c_int()
        verbs.ibv_get_device_list(ctypes.byref(count))
        return count.value
"""


@pytest.fixture
def check(pytester: pytest.Pytester):
    """Runs a pytest over a module with this code; its result."""

    def run(code: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=DEVICE + code)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA", *arguments, timeout=LIMIT_S)

    return run


def test_a_marked_test_runs_on_a_device_and_others_do_not(check) -> None:
    result = check(
        """
    PID = os.getpid()

    def test_outside():
        assert "SOFTEFA_RUN_DIR" not in os.environ

    @pytest.mark.softefa
    def test_inside(softefa_device):
        assert devices() == 1
        assert softefa_device.name == "rdmap0s6" and softefa_device["tx_pkts"] == 0

    def test_fixture_alone(softefa_device):
        assert softefa_device.kind == "EFA"

    @pytest.mark.softefa(roce=True, fault="loss=1%,seed=7")
    def test_options(softefa_device):
        assert softefa_device.kind != "EFA"
        assert os.environ["SOFTEFA_FAULT"].startswith("loss=1%")
    """
    )
    result.assert_outcomes(passed=4)


def test_outcomes_come_back_with_their_reasons(check) -> None:
    result = check(
        """
    pytestmark = pytest.mark.softefa

    def test_failing():
        print("what the test printed")
        assert devices() == 17

    def test_skipped():
        pytest.skip("no time")

    @pytest.mark.xfail(reason="known")
    def test_known():
        assert False

    @pytest.fixture
    def broken():
        yield 1
        raise ValueError("at the end")

    def test_teardown(broken):
        assert devices() == 1
    """
    )
    result.assert_outcomes(failed=1, skipped=1, xfailed=1, passed=1, errors=1)
    result.stdout.fnmatch_lines(["*assert 1 == 17*", "*what the test printed*", "*at the end*"])
    result.stdout.fnmatch_lines(["*no time*"])


def test_a_process_that_dies_fails_its_test_and_no_other(check) -> None:
    result = check(
        """
    @pytest.mark.softefa
    def test_dying(capfd):
        os.kill(os.getpid(), signal.SIGSEGV)

    @pytest.mark.softefa
    def test_leaving():
        os._exit(3)

    def test_after():
        pass
    """
    )
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["*ended by Segmentation fault (signal 11)*"])
    result.stdout.fnmatch_lines(["*ended with 3 before the test did*"])


def test_a_test_that_hangs_is_ended(check) -> None:
    result = check(
        """
    @pytest.mark.softefa(timeout_s=3)
    def test_hanging():
        subprocess.run(["sleep", "1000"])
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*took longer than 3.0 s (timeout_s of the mark) and was ended*"])


def test_a_timer_of_another_plugin_fails_its_test_and_no_other(check, pytester: pytest.Pytester) -> None:
    # As pytest-timeout does it.
    pytester.makeconftest(
        """
        import signal
        import pytest

        def late(number, frame):
            pytest.fail("late")

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(item):
            signal.signal(signal.SIGALRM, late)
            signal.alarm(2)
            yield
            signal.alarm(0)
        """
    )
    result = check(
        """
    @pytest.mark.softefa
    def test_hanging():
        subprocess.run(["sleep", "1000"])

    def test_after():
        pass
    """
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*late*"])
    assert "INTERNALERROR" not in result.stdout.str()


def test_wrong_marks_are_failures_that_say_what_is_right(check) -> None:
    result = check(
        """
    @pytest.mark.softefa(faults="loss=1%")
    def test_name(): pass

    @pytest.mark.softefa("loss=1%")
    def test_place(): pass

    @pytest.mark.softefa(fault="los=1%")
    def test_spec(): pass
    """
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*no option faults; there are fault, device*"])
    result.stdout.fnmatch_lines(["*write softefa(fault='loss=1%'): the mark takes names*"])
    result.stdout.fnmatch_lines(["*softefa could not run the test:*", "*'los'*"])


def test_a_command_that_is_not_there_fails_tests_and_not_pytest(check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTEFA_COMMAND", "/nonexistent/softefa")
    result = check(
        """
    @pytest.mark.softefa
    def test_inside(): pass

    def test_outside(): pass
    """
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*SOFTEFA_COMMAND: /nonexistent/softefa cannot be run*"])


def test_parameters_classes_and_fixtures_of_modules(check) -> None:
    result = check(
        """
    @pytest.fixture(scope="module")
    def shared():
        yield os.getpid()

    def test_first(shared): pass

    @pytest.mark.softefa
    @pytest.mark.parametrize("text", ["a/b", "a::b", "x y", "[1]", "é"])
    def test_text(text, shared):
        assert shared == os.getpid() and devices() == 1

    @pytest.mark.softefa
    class TestClass:
        def test_method(self, tmp_path):
            assert devices() == 1

    def test_last(shared): pass
    """,
        "--junitxml=result.xml",
        "--strict-markers",
    )
    result.assert_outcomes(passed=8)


@pytest.mark.parametrize(
    "arguments",
    [
        ["one", "-k", "one"],
        ["-k", "one", "one", "other", "--deselect", "other"],
        ["one", "-k", "one", "other"],
        ["-k", "one", "--", "one"],
    ],
    ids=" ".join,
)
def test_an_option_may_have_the_value_of_a_path(pytester: pytest.Pytester, arguments: list) -> None:
    body = "import pytest\n@pytest.mark.softefa\ndef test_it(request): print('given:', *request.config.args)"
    for name in ("one", "other"):
        path = pytester.mkdir(name) / f"test_{name}.py"
        path.write_text(body)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA", *arguments, timeout=LIMIT_S)
    result.assert_outcomes(passed=1, deselected=int("other" in arguments))
    # And the test's own process reads its file alone.
    result.stdout.fnmatch_lines([f"given: {pytester.path}/one/test_one.py"])


def test_processes_that_a_test_starts_are_none_of_the_plugin(check) -> None:
    result = check(
        """
    import sys

    @pytest.mark.softefa
    def test_pytest_in_a_test(tmp_path):
        inner = tmp_path / "test_inner.py"
        inner.write_text("def test_a(): pass\\ndef test_b(): pass")
        done = subprocess.run([sys.executable, "-m", "pytest", str(inner)], capture_output=True, text=True)
        assert "2 passed" in done.stdout, done.stdout

    @pytest.mark.softefa
    def test_left_behind():
        subprocess.Popen(["sleep", "1000"])
    """
    )
    result.assert_outcomes(passed=2)


def test_what_was_set_up_before_is_torn_down(pytester: pytest.Pytester) -> None:
    conftest = """
        import pytest
        @pytest.fixture(scope="package")
        def package():
            yield
            print("package is down")
    """
    for name, body in {
        "a/test_a": "def test_a(package): pass",
        "a/test_b": "import pytest\n@pytest.mark.softefa\ndef test_b(): pass",
        "b/test_c": "def test_c(): pass",
    }.items():
        path = pytester.path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(body)
    pytester.makeconftest(conftest)
    result = pytester.runpytest_subprocess("-s", "-p", "no:cacheprovider", timeout=LIMIT_S)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*package is down*"])


#: Traffic between two processes.
PING = """
    def ping(port):
        words = ["fi_pingpong", "-p", "efa", "-e", "rdm", "-I", "500", "-S", "1024", "-c"]
        server = subprocess.Popen([*words, "-B", port])
        while server.poll() is None:  # It refuses until the server listens.
            client = subprocess.run([*words, "-P", port, "127.0.0.1"], capture_output=True, text=True)
            if client.returncode == 0:
                break
        assert client.returncode == 0, client.stdout + client.stderr
        assert server.wait(timeout=60) == 0
"""
needs_ping = pytest.mark.skipif(shutil.which("fi_pingpong") is None, reason="no fi_pingpong (libfabric-bin)")


@needs_ping
def test_faults_are_dealt_and_counted(check) -> None:
    result = check(
        PING
        + """
    @pytest.mark.softefa(fault="loss=5%,seed=1", wire="udp")
    def test_losses(softefa_device):
        ping("47600")
        assert softefa_device["fault_lost"] > 0
        assert softefa_device["retrans_pkts"] >= softefa_device["fault_lost"] / 2
    """
    )
    result.assert_outcomes(passed=1)


@needs_ping
@pytest.mark.skipif(not has_live_faults(), reason="this softefa has no command fault")
def test_live_faults_act_while_they_are_set(check) -> None:
    result = check(
        PING
        + """
    @pytest.mark.softefa(wire="udp")
    def test_losses(softefa_device):
        with softefa_device.fault("loss=5%,seed=1"):
            ping("47610")
        lost = softefa_device["fault_lost"]
        assert lost > 0
        ping("47611")
        assert softefa_device["fault_lost"] == lost
    """
    )
    result.assert_outcomes(passed=1)
