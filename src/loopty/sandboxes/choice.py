"""Which sandbox trials run in: the one that is named, or the first that gives what is required."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopty.domain.launch import Exit, Gap, Launch, Sandbox, SandboxError
from loopty.domain.task import SandboxSpec
from loopty.kit import codec
from loopty.kit.atomic_file import write_atomically
from loopty.sandboxes.cgroup import can_make_cgroups
from loopty.sandboxes.probe import ProbeReport, probe
from loopty.version import __version__

_KINDS = ("bubblewrap", "landlock", "container")
_PROGRAMS = ("bwrap", "prlimit", "setpriv", "podman", "docker")
_ENGINES = ("podman", "docker")
_ELSEWHERE = (
    "trials need Linux (pidfd, /proc), with a sandbox or without: run loopty in a Linux virtual machine; there is "
    "no Seatbelt back end for macOS, because none could be tested honestly"
)
_UNSAFE = "`--unsafe-no-sandbox` runs candidates with all your rights"


@dataclass(frozen=True, slots=True)
class BackEnd:
    """A back end and what came of trying it."""

    probe: ProbeReport
    make: Callable[[], Sandbox] | None
    """None when it was not even tried."""

    def refusal(self, spec: SandboxSpec) -> str:
        """Why it cannot be taken, or an empty text."""
        if self.probe.problem:
            return self.probe.problem
        return "; ".join(f"{gap.protection}: {gap.words}" for gap in self.probe.gaps_in(spec.require))


class Tried:
    """A sandbox with the gaps that were found by trying it, beside those that it knows of."""

    def __init__(self, sandbox: Sandbox, gaps: tuple[Gap, ...]) -> None:
        self.name = sandbox.name
        self.gaps = gaps
        self._sandbox = sandbox

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """As the sandbox does."""
        return await self._sandbox.run(launch, cancel)


def choose_sandbox(spec: SandboxSpec, cache: Path | None = None, system: str = sys.platform) -> Sandbox:
    """The sandbox for trials that start in the calling thread. SandboxError when none gives what is required.

    What was found is kept in the file `cache` until the machine or a program changes.
    """
    if system != "linux":
        raise SandboxError(_ELSEWHERE)
    refusals = []
    for candidate in back_ends(spec, cache, system):
        reason = candidate.refusal(spec)
        if candidate.make is not None and not reason:
            return Tried(candidate.make(), candidate.probe.gaps)
        refusals.append(f"{candidate.probe.name}: {reason}")
    raise SandboxError(
        "no sandbox here gives what [sandbox] requires:\n  "
        + "\n  ".join(refusals)
        + f"\nrequire less with [sandbox] require = […], or knowingly nothing: {_UNSAFE}"
    )


def back_ends(spec: SandboxSpec, cache: Path | None = None, system: str = sys.platform) -> Iterator[BackEnd]:
    """The back ends that may be taken, in their order; each is tried when it is asked for."""
    for kind in _KINDS if spec.kind == "auto" else (spec.kind,):
        if obstacle := _obstacle(kind, spec, system):
            yield BackEnd(ProbeReport(kind, obstacle, ()), None)
        else:
            make = _maker(kind, spec)
            yield BackEnd(_probe_with_cache(kind, spec, make, cache), make)


def _obstacle(kind: str, wanted: SandboxSpec, system: str) -> str:
    """Why it is not even worth trying."""
    if system != "linux":
        return _ELSEWHERE
    if kind == "container" and not wanted.image:
        engines = [name for name in _ENGINES if shutil.which(name)]
        there = (
            f"{' and '.join(engines)} is there, but " if engines else "neither podman nor docker is there, and "
        )
        return f'{there}no image is named: [sandbox] image = "…"'
    return ""


def _maker(kind: str, wanted: SandboxSpec) -> Callable[[], Sandbox]:
    match kind:
        case "bubblewrap":
            from loopty.sandboxes.bubblewrap import Bubblewrap

            return Bubblewrap
        case "landlock":
            from loopty.sandboxes.landlock import Landlock

            return Landlock
        case _:
            from loopty.sandboxes.container import Container

            return lambda: Container(wanted.engine, wanted.image, wanted.gpus)


def _probe_with_cache(
    kind: str, wanted: SandboxSpec, make: Callable[[], Sandbox], cache: Path | None
) -> ProbeReport:
    key = _cache_key(wanted)
    known = _read_cache(cache)
    if known.get(kind, {}).get("key") == key:
        with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError):
            return codec.build(ProbeReport, known[kind]["probe"])
    found = _run_probe(make)
    # A problem is looked at again each time: it may have been mended.
    if cache is not None and found.ok:
        _write_cache(cache, {**known, kind: {"key": key, "probe": codec.plain(found)}})
    return found


def _run_probe(make: Callable[[], Sandbox]) -> ProbeReport:
    # In a thread of its own: the caller may be in an event loop, and a sandbox binds the thread that uses it.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(probe(make()))).result()


def _cache_key(wanted: SandboxSpec) -> str:
    """What the answer of a probe depends on."""
    facts: list[object] = [__version__, platform.release(), os.geteuid(), can_make_cgroups()]
    facts += [wanted.engine, wanted.image, wanted.gpus]
    with contextlib.suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    programs = (shutil.which(name) for name in _PROGRAMS)
    for path in (*programs, sys.executable, *sorted(Path(__file__).parent.rglob("*.py"))):
        if path is not None:
            status = Path(path).stat()
            facts.append([str(path), status.st_mtime_ns, status.st_size])
    return json.dumps(facts)


def _read_cache(cache: Path | None) -> dict[str, Any]:
    try:
        known = json.loads(cache.read_text(encoding="utf-8")) if cache is not None else {}
    except (OSError, ValueError):
        return {}
    is_sound = isinstance(known, dict) and all(isinstance(entry, dict) for entry in known.values())
    return known if is_sound else {}


def _write_cache(cache: Path, known: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        write_atomically(cache.parent, cache.name, json.dumps(known).encode())
