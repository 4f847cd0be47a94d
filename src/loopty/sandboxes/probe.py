"""Can this machine run a trial in a sandbox?"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loopty.core.launch import Bounds, Launch, Sandbox, SandboxError

_BOUNDS = Bounds(seconds=30, memory_mb=256, processes=8, output_mb=1, disk_mb=16)


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of trying a sandbox: `problem` is empty when it works, else the reason and the remedy."""

    name: str
    problem: str
    unenforced: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether trials can run in this sandbox."""
        return not self.problem


async def probe(sandbox: Sandbox) -> Probe:
    """Really run a command that does nothing."""
    with tempfile.TemporaryDirectory(prefix="loopty-probe-") as directory:
        launch = Launch(
            argv=("/usr/bin/true",),
            cwd="/",
            bounds=_BOUNDS,
            stdout=Path(directory) / "stdout",
            stderr=Path(directory) / "stderr",
        )
        try:
            result = await sandbox.run(launch, asyncio.Event())
        except SandboxError as error:
            return Probe(sandbox.name, str(error), sandbox.unenforced)
    problem = "" if result.code == 0 else f"a command that does nothing ended with {result.code}"
    return Probe(sandbox.name, problem, sandbox.unenforced)
