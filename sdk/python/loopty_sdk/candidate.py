"""Runs a command of the candidate and passes its exit code on: for gates such as the candidate's own tests.

python3 -m loopty_sdk.candidate --seconds 30 -- python3 -m pytest -q
"""

from __future__ import annotations

import argparse
import sys

from .candidates import candidate
from .errors import CandidateError

# As a shell says it of a command that it could not run, or that was killed.
_NOT_RUN = 126


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m loopty_sdk.candidate", description="Run a command of the candidate."
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it may take (60)")
    parser.add_argument("--memory-mb", type=int, help="how much memory it may use (the task's limit)")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND", help="the command and its arguments")
    wanted = parser.parse_args()
    try:
        ran = candidate.run(wanted.command, seconds=wanted.seconds, memory_mb=wanted.memory_mb)
    except CandidateError as error:
        print(error, file=sys.stderr)
        return _NOT_RUN
    sys.stdout.buffer.write(ran.stdout)
    if ran.code and ran.stderr:
        print(ran.stderr, file=sys.stderr)
    return ran.code


if __name__ == "__main__":
    sys.exit(main())
