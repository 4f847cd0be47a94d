"""Publishes the CPU time of a command as the score: `python3 -m loopty_sdk.cpu_time make check`.

CPU time varies less than the time on the clock, because other programs on the machine do not count. Both are
published, in seconds: `score` is the CPU time of the command and of all processes that it waited for.

`--to PATH` writes them there instead, beside what the command itself publishes as its result. Where loopty counts
instructions, this command alone is counted: what runs before it in a shell line is not.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence

from .counted import counted_command
from .publish import publish_once, replace

_USAGE = "usage: python3 -m loopty_sdk.cpu_time [--to PATH] COMMAND [WORD ...]; a single word is a shell line"
_COUNT = "LOOPTY_COUNT"
"""Where the counter writes, if instructions are counted."""


def main(words: Sequence[str]) -> int:
    """Run the command, publish what it took when it succeeded, and return its exit code."""
    target = ""
    if words[:1] == ["--to"]:
        target, words = words[1] if len(words) > 1 else "", words[2:]
    if not words:
        print(_USAGE, file=sys.stderr)
        return 2
    command = list(words) if len(words) > 1 else ["/bin/sh", "-c", words[0]]
    if count := os.environ.pop(_COUNT, ""):  # not for the command: what it starts is counted with it
        command = counted_command(command, count)
    sys.stdout.flush()
    started_at = time.monotonic()
    try:
        child = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        print(f"{command[0]}: {'not found' if isinstance(error, FileNotFoundError) else error}", file=sys.stderr)
        return 127
    _, status, usage = os.wait4(child, 0)
    wall = time.monotonic() - started_at
    if status:
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    text = json.dumps({"score": usage.ru_utime + usage.ru_stime, "wall_seconds": wall})
    path = os.environ.get("EVO_RESULT_PATH")
    if target:
        replace(target, text)  # whatever the command has left there
    elif path:
        publish_once(path, text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
