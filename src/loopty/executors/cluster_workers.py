"""Workers that a cluster's scheduler places: Slurm or Ray finds them a machine, and they join by the URL.

The scheduler runs no trial and retries nothing: leases, cancels and retries are the pool's.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import ClusterSpec
from loopty.executors.modal_workers import run_modal_container
from loopty.executors.ray_workers import NoteNodes, RayPlacer
from loopty.executors.rented_workers import requirement
from loopty.executors.sky_workers import run_sky_worker, sky_python
from loopty.executors.slurm_workers import run_slurm_worker
from loopty.kit.own_installation import extra_command

_RUNNERS: Mapping[str, Callable[[ClusterSpec, str], Awaitable[str]]] = {
    "slurm": run_slurm_worker,
    "sky": run_sky_worker,
    "modal": run_modal_container,
}
KINDS = (*_RUNNERS, "ray")
_MODULES = {"slurm": "submitit", "modal": "modal", "ray": "ray"}
Run = Callable[[], Awaitable[str]]
"""Runs one worker to its end; returns why it ended."""


def _note_nothing(_cluster: str, _nodes: object) -> None:
    return None


@dataclass(frozen=True)
class ClusterTerms:
    """What workers of a cluster need from the session around them."""

    url: Callable[[], str] = str
    """What they join by."""
    note_nodes: NoteNodes = _note_nothing
    """Records which nodes a cluster has."""


def cluster_runs(host: str, terms: ClusterTerms, say: Callable[[str], None]) -> list[Run]:
    """Make what runs each worker of an entry that names a cluster. Refuses a fault or a missing package."""
    spec = ClusterSpec.parse(host)
    if spec.kind == "ray":
        placer = RayPlacer(spec, terms.url, say, functools.partial(terms.note_nodes, host))
        _require_package(spec.kind)
        return [placer.run] * spec.workers
    _require_package(spec.kind)
    if spec.kind in ("sky", "modal"):
        requirement(spec)  # before anything is rented

    async def run() -> str:
        return await _RUNNERS[spec.kind](spec, terms.url())

    return [run] * spec.workers


def _require_package(kind: str) -> None:
    if kind == "sky":
        sky_python()
    elif importlib.util.find_spec(_MODULES[kind]) is None:
        raise Misuse(f"`{kind}:` under [executor] hosts needs {_MODULES[kind]}: run {extra_command(kind)}")
