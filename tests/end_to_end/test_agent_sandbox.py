"""In the shell of a sandboxed agent (no sockets, no namespaces, a read-only `.git`) verbs say what is wrong."""

import subprocess
import sys

import pytest

from ..needs import require

FORBID = """
import ctypes, os, platform, struct, sys
CALLS = {"x86_64": (41, 42, 272), "aarch64": (198, 203, 97)}[platform.machine()]  # socket, connect, unshare
program = [struct.pack("HBBI", 0x20, 0, 0, 0)]
for number in CALLS:
    program += [struct.pack("HBBI", 0x15, 0, 1, number), struct.pack("HBBI", 0x06, 0, 0, 0x50001)]
program.append(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(program))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def shell(code_place):
    """Runs loopty where Codex's default sandbox would run it."""
    require("bwrap")
    top = str(code_place.top)
    code_place.loopty("run", "1")
    inside = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", top, top]
    inside += ["--ro-bind", f"{top}/.git", f"{top}/.git", "--chdir", top]

    def run(*args: str) -> subprocess.CompletedProcess:
        command = [*inside, sys.executable, "-c", FORBID, sys.executable, "-m", "loopty.cli.main", *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    if subprocess.run([*inside, sys.executable, "-c", FORBID, "/bin/true"], capture_output=True).returncode:
        pytest.skip("no such sandbox can be made here")
    return run


def test_doctor_says_what_is_forbidden_and_what_to_do(shell):
    done = shell("doctor")
    assert done.returncode == 1
    told = " ".join(done.stdout.split())
    assert "may make no sockets" in told
    assert "is read-only: in a sandbox, call loopty's tools" in told


def test_verbs_that_read_work_and_those_that_write_say_why_not(shell):
    assert "score 5" in shell("status").stdout
    assert "TASK" in shell("context").stdout
    assert "is read-only" in shell("new").stderr
    assert "is read-only" in shell("tool", "context").stdout
