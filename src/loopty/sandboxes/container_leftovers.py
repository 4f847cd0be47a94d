"""No container outlives the loopty that started it: names tell the owner, a watcher buries, a sweep is second."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

from loopty.core.launch import SandboxError
from loopty.sandboxes.container_engine import Engine, environment

_PREFIX = "loopty"

# It reads a line when all is well, and the end of its input when loopty is gone, however it went. Several times,
# because an engine's program that has outlived loopty may be about to start a container.
_WATCH = """
read -r _ && exit
for pause in 0 1 5 20; do
    sleep $pause
    names=$("$1" ps --all --filter "name=^$2-" --format '{{.Names}}')
    [ -z "$names" ] || "$1" rm --force --volumes $names
done
"""


def fresh_name() -> str:
    """A name for a container of this process."""
    return f"{_owner(os.getpid())}-{secrets.token_hex(8)}"


def sweep(engine: Engine) -> None:
    """Remove the containers of processes that are gone."""
    gone = [name for name in engine.names(f"{_neighbourhood()}-") if not _is_owned(name)]
    if gone:
        # Whose they were is gone; a failure is no trial's matter.
        with contextlib.suppress(SandboxError):
            engine.remove(*gone)


def watch(engine: Engine) -> Callable[[], None]:
    """Have this process's containers removed when it is killed. Returns how to call that off."""
    try:
        watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", engine.program, _owner(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd="/",
            # A Ctrl-C in the terminal must not take the watcher along with the watched.
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start /bin/sh: {error.strerror}") from error
    owner = os.getpid()

    def call_off() -> None:
        # A forked child inherits this, but not the right to call off its parent's watcher.
        if os.getpid() == owner:
            with contextlib.suppress(BrokenPipeError):
                watcher.communicate(b"\n")

    return call_off


def _is_owned(name: str) -> bool:
    """Whether the process that a name tells of is alive; true as well of names that are not ours."""
    match = re.fullmatch(rf"{_neighbourhood()}-(\d+)-\d+-[0-9a-f]+", name)
    if match is None:
        return True
    pid = int(match[1])
    try:
        with contextlib.suppress(PermissionError):
            os.kill(pid, 0)
        return name.startswith(f"{_owner(pid)}-")
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        # Another user's, who shares the engine, on a machine that hides users from each other.
        return True


def _owner(pid: int) -> str:
    # The start time, because numbers of processes are used again: the 20th after a name that may hold anything.
    started = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    return f"{_neighbourhood()}-{pid}-{started}"


def _neighbourhood() -> str:
    # Containers that share their host's engine have process numbers of their own.
    return f"{_PREFIX}-{Path('/proc/self/ns/pid').stat().st_ino}"
