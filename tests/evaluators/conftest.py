"""A benchmark in one sandbox and its candidate in others, for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import loopty_sdk
from loopty.domain.benchmark import Benchmark, Gate, Limits
from loopty.domain.ids import NodeId
from loopty.domain.launch import Mount, Sandbox
from loopty.domain.objective import Directions
from loopty.domain.trial import Outcome, Pool, Row
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators.command import CommandEvaluator
from loopty.evaluators.contract import SandboxPaths
from loopty.evaluators.steps import GateResult
from loopty.kit.process import trial_owner
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.models.trial_access import ServeTrial
from loopty.record.node_record import Node
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.toolchain import user_toolchain

from ..needs import require

LIMITS = Limits(memory_mb=512, processes=32, output_mb=1, disk_mb=16)
PATHS = SandboxPaths("/t/tree", "/t/benchmark", "/t/in", "/t/out", "/t/candidate", "/t/sdk/loopty_sdk", "/t/model")


def never(_rows: Sequence[Row], _directions: Directions) -> str | None:
    return None


@dataclass
class Bench:
    """A benchmark's files, a candidate's files, and where a trial of them runs."""

    root: Path
    outcome_of_root: Outcome | None = field(default=None, init=False)
    gates: tuple[Gate, ...] = ()
    sandbox: Sandbox = field(default_factory=Bubblewrap)
    tampering: str | None = None
    isolated: bool = True
    seconds: float = 30.0
    serving: ServeTrial | None = None
    path: str = ""

    @property
    def folder(self) -> Path:
        return self.root / "node"

    @property
    def log(self) -> str:
        return (self.folder / "stdout.log").read_text()

    def write(self, part: str, name: str, text: str) -> None:
        path = self.root / part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    async def run(self, evaluate: str, program: str = "", *, cancel: asyncio.Event | None = None) -> Outcome:
        """Score a program with `python3 evaluate.py`."""
        self.write("benchmark", "evaluate.py", evaluate)
        self.write("tree", "program.py", program)
        evaluator = self._evaluator("python3 evaluate.py")
        return await evaluator.evaluate(self._trial(), never, cancel or asyncio.Event())

    async def shell(self, command: str) -> Outcome:
        """Score with a line of shell."""
        return await self._evaluator(command).evaluate(self._trial(), never, asyncio.Event())

    async def run_gates(self) -> list[GateResult]:
        return await self._evaluator("true").run_gates(self._trial(), asyncio.Event())

    def _evaluator(self, command: str) -> CommandEvaluator:
        tools = user_toolchain()
        sdk = Path(loopty_sdk.__file__).resolve().parent
        benchmark = Benchmark(command, self.seconds)
        return CommandEvaluator(
            replace(benchmark, isolated=self.isolated, scratch=("build",)),
            LIMITS,
            self.sandbox,
            self.stage,
            lambda _: self.tampering,
            PATHS,
            env={"PATH": self.path or tools.path, "PYTHONPATH": "/t/sdk"},
            mounts=[*(Mount(prefix, str(prefix)) for prefix in tools.prefixes), Mount(sdk, "/t/sdk/loopty_sdk")],
            serve_model=self.serving,
        )

    def _trial(self) -> Trial:
        node = Node(NodeId("1.2"), Pool.ATTEMPT, "o", "", "commit", "tree", 0.0, order=1, position=0)
        return Trial(node, replace(node, outcome=self.outcome_of_root), 3, Pool.ATTEMPT, 7, self.gates)

    @contextmanager
    def stage(self, _trial: Trial) -> Iterator[Stage]:
        inbox, outbox, scratch = (self.root / name for name in ("in", "out", "scratch"))
        for folder in (inbox, outbox, outbox / "traces", outbox / "checkpoint", scratch):
            folder.mkdir(exist_ok=True)
        for part in ("tree", "benchmark"):
            (self.root / part / "build").mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(exist_ok=True)
        (inbox / "params.json").write_text("{}")
        if owner := trial_owner():
            for owned in (outbox, outbox / "traces", outbox / "checkpoint", scratch):
                os.chown(owned, *owner)
        boxes = (Mount(inbox, PATHS.inbox), Mount(outbox, PATHS.outbox, writable=True))
        tree = Mount(self.root / "tree", PATHS.tree)
        scratch_mount = Mount(scratch, f"{PATHS.tree}/build", writable=True)
        benchmark = Mount(self.root / "benchmark", PATHS.benchmark)
        here = SafeFolder(self.root)
        yield Stage(
            (benchmark if self.isolated else tree, *boxes),
            here.below("in"),
            here.below("out").written_by(owner[0] if owner else None),
            here.below("node"),
            (tree, scratch_mount),
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    require("bwrap")
    return Bench(tmp_path.resolve())
