"""Workers that a command of the user starts, on any scheduler or cloud: `recipes` has three."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio.subprocess import DEVNULL, STDOUT, Process
from pathlib import Path

from loopty.features.fleet.cluster_spec import last_written
from loopty.kit.installation import requirement_elsewhere
from loopty.kit.temporary_folder import temporary_top

URL_VARIABLE, _NUMBER_VARIABLE = "LOOPTY_WORKER_URL", "LOOPTY_WORKER_NUMBER"
_GIVE_BACK_SECONDS = 180.0
"""How long a command may take to give a machine back, before it is killed."""
_LOOK_SECONDS = 0.1
RECIPES = {"slurm": "slurm.sh", "sky": "sky.sh", "modal": "modal_app.py"}


def recipe_text(name: str) -> str:
    """Read a recipe, and fill in what installs this loopty elsewhere; nothing if it came from a folder here."""
    text = Path(__file__).with_name("recipes").joinpath(RECIPES[name]).read_text("utf-8")
    return text.replace("@INSTALL@", requirement_elsewhere() or "")


async def run_start_command(command: str, url: str, number: int) -> str:
    """Run the command until it ends, and return why it did. Cancelling this ends it, with all of its group."""
    # To a file, not a pipe: a driver that is killed must not take down what gives the machine back.
    with tempfile.TemporaryFile(dir=temporary_top()) as output:
        try:
            process = await asyncio.create_subprocess_shell(
                command,
                env={**os.environ, URL_VARIABLE: url, _NUMBER_VARIABLE: str(number)},
                # Not the repository: the user allowed the command, and not what its files may become.
                cwd=os.path.expanduser("~"),  # noqa: PTH111 - never raises
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"it cannot be started ({error.strerror})"
        try:
            code = await process.wait()
        finally:
            await asyncio.shield(_end_group(process))
        return last_written(output) or f"it ended with exit code {code} and no word"


async def _end_group(process: Process) -> None:
    """Let all that the command has started end, and give back what it has; kill what is left."""
    clock = asyncio.get_running_loop()
    until = clock.time() + _GIVE_BACK_SECONDS
    with contextlib.suppress(ProcessLookupError):  # nothing of the group is left
        os.killpg(process.pid, signal.SIGTERM)
        while _is_alive(process.pid) and clock.time() < until:  # noqa: ASYNC110 - a group knows no event
            await asyncio.sleep(_LOOK_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _is_alive(group: int) -> bool:
    """Say whether a process of the group runs. A signal would reach zombies, which some containers never reap."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # State and group: fields 0 and 2 after a name in parentheses, which may contain anything.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                return True
    return False
