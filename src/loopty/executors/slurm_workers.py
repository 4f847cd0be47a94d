"""Workers as jobs of Slurm, through submitit."""

from __future__ import annotations

import asyncio
from pathlib import Path

from loopty.executors.cluster_spec import ClusterSpec
from loopty.executors.node_worker import run_worker

_POLL_SECONDS = 0.5


async def run_slurm_worker(spec: ClusterSpec, url: str) -> str:
    """Have Slurm run one worker as a job, and wait for its end; cancelling this ends it."""
    import submitit

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
        return str(found or (await asyncio.to_thread(job.result)).text)
    except asyncio.CancelledError:
        await asyncio.to_thread(job.cancel)
        raise
