"""Run a command of the candidate and pass on its exit code: for gates such as the candidate's own tests.

python3 -m loopty_sdk.candidate --seconds 30 -- python3 -m pytest -q
"""

from __future__ import annotations

import argparse
import sys

from .candidates import candidate
from .errors import CandidateError

# The exit code that a shell uses for a command that it could not execute; here also for one that was killed.
_NOT_RUN = 126


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m loopty_sdk.candidate", description="Run a command of the candidate."
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit (60)")
    parser.add_argument("--memory-mb", type=int, help="memory limit (the task's limit)")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND", help="the command and its arguments")
    options = parser.parse_args()
    try:
        result = candidate.run(options.command, seconds=options.seconds, memory_mb=options.memory_mb)
    except CandidateError as error:
        print(error, file=sys.stderr)
        return _NOT_RUN
    sys.stdout.buffer.write(result.stdout)
    if result.code and result.stderr:
        print(result.stderr, file=sys.stderr)
    return result.code


if __name__ == "__main__":
    sys.exit(main())
