"""Workers on rented machines, in containers of Modal or through SkyPilot.

Nothing that is rented stays: a worker ends when its driver is gone or its minutes are over, and what it ran on is
told at its launch to end when it is idle, so that this holds also when this process is killed at any instant.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import ClusterSpec, last_line
from loopty.kit.installation import requirement_elsewhere

URL_VARIABLE = "LOOPTY_WORKER_URL"
_MINUTES = 12 * 60
_PATIENCE_SECONDS = 120
"""A worker that finds no driver for this long ends: nobody else would end it."""


def worker_seconds(spec: ClusterSpec) -> int:
    """Return how long a worker may run at most, in seconds."""
    return int(60 * spec.number("minutes", _MINUTES))


def worker_line(spec: ClusterSpec) -> str:
    """Write the command of a worker that ends without a driver, and at the latest when its minutes are over."""
    return f"timeout {worker_seconds(spec)} loopty worker --trust --patience {_PATIENCE_SECONDS}"


def requirement(spec: ClusterSpec) -> str:
    """Return what pip installs on the rented machine: what the user says, or this loopty from where it came."""
    found = spec.options.get("install") or requirement_elsewhere()
    if found is None:
        raise Misuse(
            "this loopty came from a folder here; say what pip installs on the rented machine, "
            "as install=git%2Bhttps://HOST/loopty or the address of a wheel"
        )
    return found


def run_modal_worker(line: str) -> int:
    """Run a worker inside a container of Modal."""
    return subprocess.run(shlex.split(line), stdin=subprocess.DEVNULL).returncode


def modal_function(modal: Any, spec: ClusterSpec, url: str) -> tuple[Any, Any]:
    """Make the app and the function that Modal runs in one container, with a time limit and no retries."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"  # the function travels pickled
    image = modal.Image.debian_slim(python_version=version).apt_install("git", "bubblewrap")
    app = modal.App("loopty-workers")
    function = app.function(
        image=image.pip_install(requirement(spec)),
        gpu=spec.options.get("gpus"),
        cpu=spec.number("cpus", 1),
        timeout=worker_seconds(spec) + 60,
        retries=0,
        scaledown_window=60,
        secrets=[modal.Secret.from_dict({URL_VARIABLE: url})],
        serialized=True,
        name="worker",
    )(run_modal_worker)
    return app, function


async def run_modal_container(spec: ClusterSpec, url: str) -> str:
    """Run one worker in a container of Modal to its end; the app ends with this process, however it ends."""
    import modal

    app, function = modal_function(modal, spec, url)
    try:
        async with app.run.aio():  # not detached: Modal ends it when it no longer hears of this process
            call = await function.spawn.aio(worker_line(spec))
            try:
                return f"its container ended with exit code {await call.get.aio()}"
            except asyncio.CancelledError:
                await asyncio.shield(call.cancel.aio(terminate_containers=True))
                raise
    except modal.exception.AuthError as error:
        raise Misuse(f"Modal lets nobody in ({error}): log in with `modal setup`, then start again") from None
    except modal.exception.Error as error:
        return str(error) or type(error).__name__


_MACHINE = Path(__file__).with_name("sky_machine.py")
_IDLE_MINUTES = 5
"""A rented machine without a worker is given back after this time, by itself."""
_GIVE_BACK_SECONDS = 180.0
_LONGEST_LINE = 1 << 20


def sky_order(spec: ClusterSpec, url: str) -> dict[str, Any]:
    """Say what to ask SkyPilot for, in the fields of its task files."""
    asked = {
        "infra": spec.place,
        "cpus": spec.options.get("cpus"),
        "accelerators": spec.options.get("gpus"),
        "use_spot": spec.options.get("spot") == "yes",
    }
    return {
        "name": f"loopty-{secrets.token_hex(4)}",
        "task": {
            "name": "loopty-worker",
            "setup": "command -v bwrap >/dev/null || sudo apt-get install -y bubblewrap || true\n"
            f"pip install {shlex.quote(requirement(spec))}",
            "run": worker_line(spec),
        },
        "resources": {
            **{name: value for name, value in asked.items() if value},
            "autostop": {"idle_minutes": _IDLE_MINUTES, "down": True},
        },
        "secrets": {URL_VARIABLE: url},
    }


def sky_python() -> Path:
    """Find the Python of the environment that has SkyPilot: the one beside the program `sky`."""
    if (program := shutil.which("sky")) is None:
        raise Misuse(
            "`sky:` under [executor] hosts needs SkyPilot's program `sky`, and there is none on the PATH: install "
            "it with `uv tool install 'skypilot[aws]'` or pipx, with the names of your clouds. It has to be an "
            "environment of its own, because SkyPilot and loopty need different releases of click"
        )
    python = Path(program).resolve().with_name("python3")
    if not python.exists():
        raise Misuse(
            f"`sky:` under [executor] hosts uses the Python beside SkyPilot's program, and there is no {python}: "
            "install SkyPilot into an environment of its own, with `uv tool install skypilot` or pipx"
        )
    return python


async def run_sky_worker(spec: ClusterSpec, url: str) -> str:
    """Rent one machine through SkyPilot, run a worker there to its end, and give the machine back."""
    process = await asyncio.create_subprocess_exec(
        sky_python(),
        "-I",  # nothing of this folder or of loopty's environment is imported there
        _MACHINE,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=_LONGEST_LINE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    messages = asyncio.create_task(last_line(process.stderr))
    try:
        process.stdin.write(f"{json.dumps(sky_order(spec, url))}\n".encode())
        line = await process.stdout.readline()
        note = (
            json.loads(line) if line else {"ended": await messages or "the process that talks to SkyPilot ended"}
        )
    finally:
        await asyncio.shield(_close(process))
        messages.cancel()
    if "failed" in note:
        raise Misuse(note["failed"])
    return str(note["ended"])


async def _close(process: Process) -> None:
    """Have the machine given back; a process that takes too long is ended, and the machine ends by itself."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _GIVE_BACK_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
