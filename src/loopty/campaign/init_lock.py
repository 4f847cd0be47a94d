"""One `init` at a time in a repository: each writes its drafts to the same task file and runs what is there."""

from __future__ import annotations

import fcntl
import functools
import os

from loopty.domain.errors import Misuse
from loopty.kit.work_end import at_work_end
from loopty.workspaces.state_folder import StateFolder


def lock_init(state: StateFolder) -> None:
    """Keep every other `init` of this repository out until this work or process ends. Raises Misuse."""
    state.prepare()
    descriptor = state.init_lock.open(os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        process = f" (process {holder})" if holder.isdecimal() else ""
        raise Misuse(
            f"another `loopty init` works in this repository{process}: wait until it ends, then try again"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    at_work_end(functools.partial(os.close, descriptor))
