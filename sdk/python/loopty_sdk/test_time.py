"""Publishes the CPU time of tests without their start: `python3 -m loopty_sdk.test_time python3 -m pytest`.

Of a small suite, start, imports, collection and compilers are nearly all that it takes, and no candidate changes
them. So what runs the tests says what counts: pytest the bodies of the tests, Node the code of the repository, by
its profiler, and Go and cargo the programs of tests that they built.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import node_profile
from .publish import publish_once

_USAGE = "usage: python3 -m loopty_sdk.test_time COMMAND [WORD ...]; a single word is a shell line"
FOLDER, ROOT = "LOOPTY_TEST_TIME", "LOOPTY_TEST_ROOT"
"""Where processes say what their tests took, and the repository whose code counts."""
_ONE = "--one"
"""Before a program of tests: it reports what that takes to the folder."""
_LEAST = 0.002
"""Some samples of a profiler; what is less is chance."""
_MOST_RUNS = 3
_SECONDS = 3.0
"""A run that takes less is repeated, where one process does not repeat its tests itself."""


def main(words: Sequence[str]) -> int:
    """Run the command, publish what its tests took when they passed, and return its exit code."""
    if not words:
        print(_USAGE, file=sys.stderr)
        return 2
    if words[0] == _ONE:
        return _run_one(words[1:])
    command = list(words) if len(words) > 1 else ["/bin/sh", "-c", words[0]]
    measured: list[float] = []
    started_at = time.monotonic()
    while True:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.flush()
            try:
                code = subprocess.call(command, env=_environment(os.environ, folder))
            except FileNotFoundError:
                print(f"{command[0]}: not found", file=sys.stderr)
                return 127
            if code:
                return code if code > 0 else 128 - code
            seconds, is_repeated = _reported(Path(folder))
        if seconds is None:
            print("the tests ran, and nothing reported what they took", file=sys.stderr)
            return 1
        if seconds < _LEAST and not is_repeated:
            print(
                f"the tests keep the code busy for {1000 * seconds:.2g} ms: too little to measure", file=sys.stderr
            )
            return 1
        measured.append(seconds)
        spent = time.monotonic() - started_at
        if is_repeated or len(measured) == _MOST_RUNS or spent * (1 + 1 / len(measured)) > _SECONDS:
            break
    text = json.dumps({"score": statistics.fmean(measured)})
    if path := os.environ.get("EVO_RESULT_PATH"):
        publish_once(path, text)
    else:
        print(text)
    return 0


def _run_one(command: Sequence[str]) -> int:
    code = subprocess.call(command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = {"seconds": used.ru_utime + used.ru_stime, "repeated": False}
    Path(os.environ[FOLDER], f"{os.getpid()}.json").write_text(json.dumps(report))
    return code if code >= 0 else 128 - code


def _environment(before: Mapping[str, str], folder: str) -> dict[str, str]:
    """Let pytest and Node load what measures, and Go and cargo start their programs by this one."""
    preload = Path(folder, "node_profile.cjs")
    preload.write_text(node_profile.TEXT)
    runner = Path(folder, "runner")  # Go takes one word
    runner.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m loopty_sdk.test_time {_ONE} "$@"\n')
    runner.chmod(0o755)
    return {
        **before,
        FOLDER: folder,
        ROOT: os.path.realpath("."),
        "PYTEST_PLUGINS": ",".join(filter(None, (before.get("PYTEST_PLUGINS"), "loopty_sdk.pytest_bodies"))),
        "NODE_OPTIONS": " ".join(filter(None, (before.get("NODE_OPTIONS"), f'--require "{preload}"'))),
        "GOFLAGS": " ".join(filter(None, (before.get("GOFLAGS"), f"-exec={runner} -vet=off"))),
        f"CARGO_TARGET_{platform.machine().upper()}_UNKNOWN_LINUX_GNU_RUNNER": str(runner),
    }


def _reported(folder: Path) -> tuple[float | None, bool]:
    """Add up what the processes said, None if none did, and say whether they repeated their tests."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    seconds = sum(one["seconds"] for one in found) if found else None
    return seconds, any(one["repeated"] for one in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
