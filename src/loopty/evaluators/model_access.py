"""How the benchmark's own command reaches the model that loopty serves it.

A socket leads to it, and a port inside the sandbox leads to the socket (`model_port.py` of the SDK), so that
ordinary clients work with the variables that they know. The candidate shares it where it runs beside the
benchmark; in a sandbox of its own it has none, and gets from the model what the benchmark hands it.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.launch import Mount
from loopty.domain.outcome import Ending, Outcome
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators.benchmark_runner import Command
from loopty.evaluators.contract import SandboxPaths
from loopty.kit.unix_socket import listen

if TYPE_CHECKING:
    from loopty.models.endpoint.trial_access import ServeTrial, TrialAccess

_BACKLOG = 128
_NO_PORT = "loopty: there is no python3 here, so there is no port: the model is at LOOPTY_MODEL_SOCKET alone"
# In a container the image may have no Python.
_WITH_PORT = (
    'port=$1; shift; command -v python3 >/dev/null 2>&1 && exec python3 -I -S -B "$port" "$@"; '
    f'echo "{_NO_PORT}" >&2; exec "$@"'
)
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
_ENDINGS_ABOUT_CANDIDATE = (Ending.FINISHED, Ending.FAILED, Ending.TIMED_OUT)
"""Endings that say something of the candidate, and would not if it was the model that failed."""


@contextlib.asynccontextmanager
async def open_model_access(
    serving: ServeTrial, trial: Trial, stage: Stage, command: Command, places: SandboxPaths
) -> AsyncIterator[tuple[Command, TrialAccess]]:
    """The command as it reaches the model, while that is served."""
    with listen(stage.outbox.with_name("model"), socket.SOCK_STREAM, _BACKLOG) as listener:
        async with serving(trial.node.id, listener.socket) as door:
            yield _with_model_access(command, door, listener.path, places), door


def adjust_outcome(door: TrialAccess, outcome: Outcome) -> Outcome:
    """The outcome, in view of what the trial had of the model.

    Raises Exhausted or Outage where it says nothing of the candidate.
    """
    if outcome.ending not in _ENDINGS_ABOUT_CANDIDATE:
        return outcome
    if door.allowance_exceeded is not None:  # by what was answered alone: no outage excuses it
        return Outcome(Ending.FAILED, reason=str(door.allowance_exceeded), seconds=outcome.seconds)
    if (reason := door.excuse(outcome.is_finished)) is not None:
        raise reason
    if door.refusal and not outcome.is_finished:  # clients rarely tell more of it than its status
        return replace(outcome, reason=f"{outcome.reason}; its last request to the model: {door.refusal}")
    return outcome


def _with_model_access(command: Command, door: TrialAccess, place: Path, places: SandboxPaths) -> Command:
    told = {"LOOPTY_MODEL": door.model, "LOOPTY_MODEL_SOCKET": places.model, **dict.fromkeys(_KEYS, door.key)}
    return replace(
        command,
        argv=("/bin/sh", "-c", _WITH_PORT, "loopty", f"{places.sdk}/model_port.py", *command.argv),
        env={**command.env, **told},
        mounts=(*command.mounts, Mount(place, places.model)),
    )
