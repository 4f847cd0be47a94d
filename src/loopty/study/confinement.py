"""Confine a process forked from this one with Landlock: it may read, and write to temporary folders alone."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import tempfile
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.sandboxes.landlock.order import enter, make_ruleset, version
from loopty.sandboxes.raw_calls import PR_SET_NO_NEW_PRIVS, prctl

_STANDARD_ERROR = 2
_MAP_FIXED = 0x10
"""As in mman.h of Linux on every machine but Alpha."""


def require_confinement() -> None:
    """Raise Misuse where this kernel cannot do it."""
    try:
        version()
    except OSError:
        raise Misuse(
            "isolated=True needs Landlock, which this kernel does not have: leave it out, or write a benchmark "
            "and use `loopty run`, which knows other sandboxes"
        ) from None


def confine(folder: Path, keep: int) -> None:
    """Confine this process for good. It cannot write to `folder`, which has the ledger, nor connect anywhere.

    Landlock does not limit what is open already: of that, the standard streams and the descriptor `keep` stay.
    """
    home = Path(tempfile.mkdtemp(prefix="loopty-isolated-"))
    os.environ["TMPDIR"] = str(home)
    tempfile.tempdir = str(home)
    os.chdir(home)
    _unshare_memory(folder)
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > _STANDARD_ERROR and descriptor != keep:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(descriptor)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    enter(make_ruleset(version(), [str(Path(folder.anchor))], [str(home)], [], network=False))


def _unshare_memory(folder: Path) -> None:
    """Lay empty pages of this process over the files of the folder that are mapped, such as the ledger's index."""
    place = ctypes.CDLL(None, use_errno=True).mmap
    place.restype = ctypes.c_void_p
    place.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    rights, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        span, _, _, _, _, *path = line.split(maxsplit=5)
        if path and Path(path[0]).is_relative_to(folder.resolve()):
            start, end = (int(text, 16) for text in span.split("-"))
            if place(start, end - start, rights, how, -1, 0) != start:
                raise OSError(ctypes.get_errno(), "memory that is shared with the parent process stays shared")
