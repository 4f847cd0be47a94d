"""Workers in containers that Modal rents out."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import Any

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import ClusterSpec
from loopty.executors.rented_workers import URL_VARIABLE, requirement, worker_line, worker_seconds


def run_modal_worker(line: str) -> int:
    """Run a worker inside a container of Modal."""
    import subprocess

    return subprocess.run(shlex.split(line), stdin=subprocess.DEVNULL).returncode


def modal_function(modal: Any, spec: ClusterSpec, url: str) -> tuple[Any, Any]:
    """The app and the function that Modal runs in one container, with a limit on its time and no retries."""
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
