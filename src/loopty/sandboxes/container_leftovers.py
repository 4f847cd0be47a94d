"""No container outlives the loopty that started it: a watcher removes it, or else the next loopty does."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable

from loopty.domain.launch import SandboxError
from loopty.kit.owned_names import common_prefix, is_abandoned, prefix_of
from loopty.sandboxes.container_engine import ContainerEngine, engine_environment

# The watcher reads a line when all is well, and the end of its input when loopty is gone, for any reason. It looks
# several times, because an engine's program that outlives loopty may be about to start a container.
_WATCH = """
read -r _ && exit
for pause in 0 1 5 20; do
    sleep $pause
    names=$("$1" ps --all --filter "name=^$2-" --format '{{.Names}}')
    [ -z "$names" ] || "$1" rm --force --volumes $names
done
"""


def remove_abandoned(engine: ContainerEngine) -> None:
    """Remove the containers of loopty processes that are gone."""
    abandoned = [name for name in engine.container_names(f"{common_prefix()}-") if is_abandoned(name)]
    if abandoned:
        # Their owner is gone; a failure here concerns no trial.
        with contextlib.suppress(SandboxError):
            engine.remove(*abandoned)


def start_watcher(engine: ContainerEngine) -> Callable[[], None]:
    """Start a watcher that removes this process's containers when it is killed; returns how to stop it."""
    try:
        watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", engine.program, prefix_of(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=engine_environment(),
            cwd="/",
            # A Ctrl-C in the terminal must not kill the watcher together with loopty.
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start /bin/sh: {error.strerror}") from error
    owner = os.getpid()

    def stop_watcher() -> None:
        # A forked child inherits this function, but must not stop its parent's watcher.
        if os.getpid() == owner:
            with contextlib.suppress(BrokenPipeError):
                watcher.communicate(b"\n")

    return stop_watcher
