"""Runs inside the sandbox: what attack scripts share, then the script itself. For Python 3.8 and later."""

import ctypes
import json
import os
import platform
import sys
import time
from typing import Any, Callable  # noqa: UP035 - collections.abc has no subscripts in 3.8

TREE = os.environ["TREE"]
OUT = os.environ["OUT"]
# Where the second launch of an attack has its mount.
PLACE = os.environ["PLACE"]
# What an attacker may know of the host.
HOST = json.loads(os.environ["HOST"])

_LIBC = ctypes.CDLL(None, use_errno=True)


def claim(words: str) -> None:
    """Say what was won, for what leaves no trace in the arena."""
    with open(OUT + "/claims", "a") as file:  # noqa: PTH123 - pathlib takes as long to import as all the rest
        file.write(words + "\n")


def tell(path: str) -> None:
    """Carry the content of a file out."""
    with open(path, "rb") as source, open(OUT + "/told", "ab") as told:  # noqa: PTH123
        told.write(source.read())


def attempt(action: Callable[[], Any]) -> bool:
    """Try one way of several; whether it was let pass."""
    try:
        action()
    except OSError as error:
        print("refused:", error, flush=True)
        return False
    return True


def call(x86_64: int, aarch64: int, *arguments: Any) -> int:
    """A system call by number; both numbers are the same for calls since Linux 5.1."""
    number = {"x86_64": x86_64, "aarch64": aarch64}[platform.machine()]
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *passed)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def hold() -> None:
    """Keep what was taken for as long as any watcher needs to notice."""
    time.sleep(HOST["hold"])


print("begun", flush=True)
try:
    exec(sys.argv[1])
except OSError as error:
    print("refused:", error, flush=True)
