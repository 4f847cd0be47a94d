"""Workers that a cluster's scheduler places: Slurm finds them a machine, and they join by the URL.

The scheduler runs no trial and retries nothing: leases, cancels and retries are the pool's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import PATIENCE_SECONDS, ClusterSpec

_POLL_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1

Run = Callable[[], Awaitable[str]]


def run_worker(url: str) -> str:
    """Run a worker on the machine where this is called, until it ends; it dies with this process."""
    command = [sys.executable, "-m", "loopty", "worker", "--trust", "--patience", PATIENCE_SECONDS]
    done = subprocess.run(
        command,
        env={**os.environ, "LOOPTY_WORKER_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_die_with_parent,
    )
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def run_slurm_worker(spec: ClusterSpec, url: str) -> str:
    """Have Slurm run one worker as a job, and wait for its end; cancelling this ends it."""
    try:
        import submitit
    except ImportError:
        raise Misuse(
            "`slurm:` under [executor] hosts needs submitit: install it with `pip install 'loopty[slurm]'`"
        ) from None
    folder = Path(spec.options.get("folder", "~/.local/state/loopty/slurm")).expanduser()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the jobs in it hold the URL
    executor = submitit.AutoExecutor(folder=folder, cluster=spec.options.get("cluster"))
    executor.update_parameters(
        timeout_min=int(spec.number("minutes", 24 * 60)),
        cpus_per_task=int(spec.number("cpus", 1)),
        gpus_per_node=int(spec.number("gpus", 0)),
        **({"slurm_partition": spec.place} if spec.place else {}),
    )
    job = await asyncio.to_thread(executor.submit, run_worker, url)
    try:
        while not await asyncio.to_thread(job.done):  # noqa: ASYNC110 - a job knows no event
            await asyncio.sleep(_POLL_SECONDS)
        found = await asyncio.to_thread(job.exception)
        return str(found) if found else str(await asyncio.to_thread(job.result))
    except asyncio.CancelledError:
        await asyncio.to_thread(job.cancel)
        raise


async def _run_sky(spec: ClusterSpec, url: str) -> str:
    from loopty.executors.rented_workers import run_sky_worker

    return await run_sky_worker(spec, url)


async def _run_modal(spec: ClusterSpec, url: str) -> str:
    from loopty.executors.rented_workers import run_modal_container

    return await run_modal_container(spec, url)


RUNNERS: dict[str, Callable[[ClusterSpec, str], Awaitable[str]]] = {
    "slurm": run_slurm_worker,
    "sky": _run_sky,
    "modal": _run_modal,
}


def cluster_runs(host: str, url: Callable[[], str]) -> list[Run]:
    """What runs each worker of an entry that names a cluster."""
    spec = ClusterSpec.parse(host)

    async def run() -> str:
        return await RUNNERS[spec.kind](spec, url())

    return [run] * spec.workers
