"""Gives the benchmark's own command access to the model that loopty serves.

A socket leads to the model, and a port inside the sandbox leads to the socket (`model_port.py` of the SDK), so
that ordinary clients work with their usual variables. A candidate in the benchmark's sandbox shares the access; in
a sandbox of its own it has no access, and gets only what the benchmark passes on.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.launch import Mount
from loopty.domain.trial import Ending, Outcome
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators.benchmark_runner import Command
from loopty.evaluators.contract import SandboxPaths
from loopty.kit.records import replace
from loopty.kit.sockets import listen

if TYPE_CHECKING:
    from loopty.models.trial_access import ServeTrial, TrialAccess

_BACKLOG = 128
_NO_PORT = "loopty: there is no python3 here, so there is no port: reach the model through LOOPTY_MODEL_SOCKET"
# The image of a container may have no Python.
_WITH_PORT = (
    'port=$1; shift; command -v python3 >/dev/null 2>&1 && exec python3 -I -S -B "$port" "$@"; '
    f'echo "{_NO_PORT}" >&2; exec "$@"'
)
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
_ENDINGS_ABOUT_CANDIDATE = (Ending.FINISHED, Ending.FAILED, Ending.TIMED_OUT)
"""Endings that say something about the candidate, unless the model was at fault."""


@contextlib.asynccontextmanager
async def open_model_access(
    serve: ServeTrial, trial: Trial, stage: Stage, command: Command, paths: SandboxPaths
) -> AsyncIterator[tuple[Command, TrialAccess]]:
    """Serve the model; yields the command with access to it, and the access."""
    with listen(stage.outbox.beside("model"), socket.SOCK_STREAM, _BACKLOG) as listener:
        async with serve(trial.node.id, listener.socket) as access:
            yield _with_model_access(command, access, listener.path, paths), access


def adjust_outcome(access: TrialAccess, outcome: Outcome) -> Outcome:
    """Adjust the outcome for what happened to the trial's calls to the model.

    Raises Exhausted or Outage when the outcome says nothing about the candidate.
    """
    if outcome.ending not in _ENDINGS_ABOUT_CANDIDATE:
        return outcome
    if access.allowance_exceeded is not None:  # answered calls alone exceed it: no outage excuses that
        return Outcome(Ending.FAILED, reason=str(access.allowance_exceeded), seconds=outcome.seconds)
    if (excuse := access.excuse(outcome.is_finished)) is not None:
        raise excuse
    if access.refusal and not outcome.is_finished:  # clients rarely report more than its status
        return replace(outcome, reason=f"{outcome.reason}; its last request to the model: {access.refusal}")
    return outcome


def _with_model_access(command: Command, access: TrialAccess, socket_path: Path, paths: SandboxPaths) -> Command:
    variables = {
        "LOOPTY_MODEL": access.model,
        "LOOPTY_MODEL_SOCKET": paths.model,
        **dict.fromkeys(_KEYS, access.key),
    }
    return replace(
        command,
        argv=("/bin/sh", "-c", _WITH_PORT, "loopty", f"{paths.sdk}/model_port.py", *command.argv),
        env={**command.env, **variables},
        mounts=(*command.mounts, Mount(socket_path, paths.model)),
    )
