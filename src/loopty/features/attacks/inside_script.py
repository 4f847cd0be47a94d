"""Runs inside the sandbox: functions for attack scripts, then the script itself. For Python 3.8 and later."""

import ctypes
import json
import os
import platform
import sys
import time
from typing import Any, Callable  # noqa: UP035 - collections.abc has no subscripts in 3.8

TREE = os.environ["TREE"]
OUT = os.environ["OUT"]
# The mount of an attack's second launch.
PLACE = os.environ["PLACE"]
# What the attacker knows about the host.
HOST = json.loads(os.environ["HOST"])

_LIBC = ctypes.CDLL(None, use_errno=True)


def claim(words: str) -> None:
    """Report a success that leaves no other trace in the arena."""
    with open(OUT + "/claims", "a") as file:  # noqa: PTH123 - pathlib takes as long to import as all the rest
        file.write(words + "\n")


def leak(path: str) -> None:
    """Copy the content of a file to the outbox."""
    with open(path, "rb") as source, open(OUT + "/leaked", "ab") as leaked:  # noqa: PTH123
        leaked.write(source.read())


def ready() -> None:
    """Say that everything is in place for what loopty does meanwhile."""
    with open(OUT + "/ready", "w"):  # noqa: PTH123
        pass


def attempt(action: Callable[[], Any]) -> bool:
    """Try one of several ways; returns whether it succeeded."""
    try:
        action()
    except OSError as error:
        print("refused:", error, flush=True)
        return False
    return True


def call(x86_64: int, aarch64: int, *arguments: Any) -> int:
    """Make a system call by number; calls since Linux 5.1 have the same number on both machines."""
    number = {"x86_64": x86_64, "aarch64": aarch64}[platform.machine()]
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *passed)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def hold() -> None:
    """Keep the taken resources as long as a watcher needs to notice."""
    time.sleep(HOST["hold"])


print("begun", flush=True)
try:
    exec(sys.argv[1])
except OSError as error:
    print("refused:", error, flush=True)
