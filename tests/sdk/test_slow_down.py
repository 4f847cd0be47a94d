"""A command that is slowed down takes longer, and ends as it would."""

import subprocess
import sys
import time

from loopty_sdk import slow_down


def seconds_of(*words: str) -> float:
    started = time.monotonic()
    subprocess.run(words, check=True)
    return time.monotonic() - started


def test_the_exit_code_and_the_output_are_those_of_the_command():
    line = "echo out; echo err >&2; exit 3"
    done = subprocess.run(
        [sys.executable, "-m", "loopty_sdk.slow_down", line], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_it_takes_longer_and_leaves_no_process():
    line = f"{sys.executable} -c 'sum(range(30_000_000))'"
    usual = seconds_of("sh", "-c", line)
    assert seconds_of(sys.executable, slow_down.__file__, line) > usual
    left = subprocess.run(["pgrep", "-f", slow_down.__file__], capture_output=True, check=False)
    assert left.stdout == b""
