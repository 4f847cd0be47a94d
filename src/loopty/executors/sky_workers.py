"""Workers on machines that SkyPilot rents: the driver's side of the process that talks to SkyPilot."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import shutil
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import ClusterSpec
from loopty.executors.last_line import last_line
from loopty.executors.rented_workers import URL_VARIABLE, requirement, worker_line

_MACHINE = Path(__file__).with_name("sky_machine.py")
_IDLE_MINUTES = 5
"""A rented machine without a worker is given back after this time, by itself."""
_GIVE_BACK_SECONDS = 180.0
_LONGEST_LINE = 1 << 20


def sky_order(spec: ClusterSpec, url: str) -> dict[str, Any]:
    """What to ask SkyPilot for, in the fields of its task files."""
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
    """The Python of the environment that has SkyPilot: the one beside the program `sky`."""
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
