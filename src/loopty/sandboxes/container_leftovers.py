"""No container outlives the loopty that started it: a watcher buries, a sweep is second."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable

from loopty.domain.launch import SandboxError
from loopty.sandboxes.container_engine import ContainerEngine, engine_environment
from loopty.sandboxes.owned_names import is_abandoned, prefix_of, shared_prefix

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


def remove_abandoned(engine: ContainerEngine) -> None:
    """Remove the containers of processes that are gone."""
    gone = [name for name in engine.container_names(f"{shared_prefix()}-") if is_abandoned(name)]
    if gone:
        # Whose they were is gone; a failure is no trial's matter.
        with contextlib.suppress(SandboxError):
            engine.remove(*gone)


def start_watcher(engine: ContainerEngine) -> Callable[[], None]:
    """Have this process's containers removed when it is killed. Returns how to call that off."""
    try:
        watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", engine.program, prefix_of(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=engine_environment(),
            cwd="/",
            # A Ctrl-C in the terminal must not take the watcher along with the watched.
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start /bin/sh: {error.strerror}") from error
    owner = os.getpid()

    def stop_watcher() -> None:
        # A forked child inherits this, but not the right to call off its parent's watcher.
        if os.getpid() == owner:
            with contextlib.suppress(BrokenPipeError):
                watcher.communicate(b"\n")

    return stop_watcher
