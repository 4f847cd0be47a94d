"""Choose the sandbox for trials: the one that is named, or the first that gives the required protections."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from loopty.domain.launch import Exit, Gap, Launch, Sandbox, SandboxError
from loopty.domain.task import SandboxSpec
from loopty.kit import codec
from loopty.kit.installation import working_program
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile
from loopty.sandboxes.back_ends import BACK_ENDS
from loopty.sandboxes.cgroup import can_make_cgroups
from loopty.sandboxes.probe import ProbeReport, probe
from loopty.version import __version__

_PROGRAMS = ("bwrap", "prlimit", "setpriv", "podman", "docker")
_ENGINES = ("podman", "docker")
_LINUX_ONLY = (
    "trials need Linux (pidfd, /proc), with or without a sandbox: run loopty in a Linux virtual machine; there is "
    "no Seatbelt back end for macOS, because we could not test one"
)
_UNSAFE = "`--unsafe-no-sandbox` runs candidates with your full permissions"


class BackEnd(Record):
    """A back end and the report of its probe."""

    probe: ProbeReport
    make: Callable[[], Sandbox] | None
    """None when it was not probed."""

    def refusal(self, spec: SandboxSpec) -> str:
        """Say why trials cannot run in it; empty if they can."""
        if self.probe.problem:
            return self.probe.problem
        return "; ".join(f"{gap.protection}: {gap.words}" for gap in self.probe.gaps_in(spec.require))


class ProbedSandbox:
    """A sandbox whose gaps include those that its probe found."""

    def __init__(self, sandbox: Sandbox, gaps: tuple[Gap, ...]) -> None:
        self.name = sandbox.name
        self.gaps = gaps
        self._sandbox = sandbox

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run as the sandbox does."""
        return await self._sandbox.run(launch, cancel)


def choose_sandbox(spec: SandboxSpec, cache: SafeFile | None = None, system: str = sys.platform) -> Sandbox:
    """Choose the sandbox for trials that start in the calling thread.

    Reports of probes are kept in the file `cache` until the machine or a program changes. Raises SandboxError when
    no sandbox gives the required protections.
    """
    if system != "linux":
        raise SandboxError(_LINUX_ONLY)
    refusals = []
    for back_end in back_ends(spec, cache, system):
        reason = back_end.refusal(spec)
        if back_end.make is not None and not reason:
            return ProbedSandbox(back_end.make(), back_end.probe.gaps)
        refusals.append(f"{back_end.probe.name}: {reason}")
    raise SandboxError(
        "no sandbox here gives the protections that [sandbox] requires:\n  "
        + "\n  ".join(refusals)
        + f"\nrequire less with [sandbox] require = […], or run without a sandbox: {_UNSAFE}"
    )


def back_ends(spec: SandboxSpec, cache: SafeFile | None = None, system: str = sys.platform) -> Iterator[BackEnd]:
    """Yield the back ends to choose from, in order of preference; each is probed when the iterator reaches it."""
    for kind in BACK_ENDS if spec.kind == "auto" else (spec.kind,):
        if obstacle := _obstacle(kind, spec, system):
            yield BackEnd(ProbeReport(kind, obstacle, ()), None)
        else:
            make = functools.partial(BACK_ENDS[kind].load_make(), spec)
            yield BackEnd(_probe_with_cache(kind, spec, make, cache), make)


def _obstacle(kind: str, spec: SandboxSpec, system: str) -> str:
    """Say why probing it is pointless; empty if it is not."""
    if system != "linux":
        return _LINUX_ONLY
    if BACK_ENDS[kind].needs_image and not spec.image:
        engines = [name for name in _ENGINES if working_program(name)]
        installed = (
            f"{' and '.join(engines)} {'are' if len(engines) > 1 else 'is'} installed, but "
            if engines
            else "neither podman nor docker is installed, and "
        )
        return f'{installed}no image is named: [sandbox] image = "…"'
    return ""


def _probe_with_cache(
    kind: str, spec: SandboxSpec, make: Callable[[], Sandbox], cache: SafeFile | None
) -> ProbeReport:
    key = _cache_key(spec)
    known = _read_cache(cache)
    if known.get(kind, {}).get("key") == key:
        with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError):
            return codec.build(ProbeReport, known[kind]["probe"])
    report = _run_probe(make)
    # A problem is not kept: the user may have fixed it by the next time.
    if cache is not None and report.ok:
        _write_cache(cache, {**known, kind: {"key": key, "probe": codec.plain(report)}})
    return report


def _run_probe(make: Callable[[], Sandbox]) -> ProbeReport:
    # In its own thread: the caller may be in an event loop, and a sandbox is bound to the thread that uses it.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(probe(make()))).result()


def _cache_key(spec: SandboxSpec) -> str:
    """Return everything that the report of a probe depends on, as text."""
    facts: list[object] = [__version__, os.uname().release, os.geteuid(), can_make_cgroups()]
    facts += [spec.engine, spec.image, spec.gpus]
    with contextlib.suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip())
    programs = (shutil.which(name) for name in _PROGRAMS)
    for path in (*programs, sys.executable):
        if path is not None:
            status = Path(path).stat()
            facts.append([path, status.st_mtime_ns, status.st_size])
    return json.dumps([*facts, *_own_source()])


@functools.cache
def _own_source() -> list[tuple[str, int, int]]:
    """List the files of this room as this process found them: it does not see later ones."""
    return sorted(_source_files(str(Path(__file__).parent)))


def _source_files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield the files of this room, with when they were written, and their sizes."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_mtime_ns, status.st_size
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _source_files(entry.path)


def _read_cache(cache: SafeFile | None) -> dict[str, Any]:
    try:
        known = json.loads(cache.read()) if cache is not None else {}
    except (OSError, ValueError):
        return {}
    is_sound = isinstance(known, dict) and all(isinstance(entry, dict) for entry in known.values())
    return known if is_sound else {}


def _write_cache(cache: SafeFile, known: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        cache.write(json.dumps(known).encode())
