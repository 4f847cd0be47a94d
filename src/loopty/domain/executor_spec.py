"""Where trials run: on this machine, or on workers elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.kit.option import option

MOST_WORKERS = 4096
"""A pool takes no more workers."""


@dataclass(frozen=True, slots=True)
class ExecutorSpec:
    """Where trials run."""

    kind: str = option(
        "`local`: on this machine. `pool`: on workers, which `hosts` start or `loopty worker` adds.",
        "local",
        choices=("local", "pool"),
    )
    hosts: tuple[str, ...] = option(
        "Where to start a worker each: a directory, `ssh://USER@HOST/DIRECTORY`, `slurm:PARTITION?…`, "
        "`ray:ADDRESS?…` (`docs/workers.md`).",
        (),
    )
    listen: str = option(
        "`ADDRESS:PORT` where workers may join with `loopty worker`; `optimize --listen` wins. Default: none.",
        "",
    )
    lease_seconds: float = option(
        "A worker that is silent for this long loses its trial to another worker.", 30.0, above=0
    )
    wait_seconds: float = option("How long a trial waits for a worker while there is none.", 300.0, above=0)
