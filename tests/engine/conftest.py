"""A run over fakes: no git, no sandbox, no disk."""

import itertools

import pytest

from loopty.domain.access import Access
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.outcome import Pool
from loopty.domain.space import ParameterKind, Parameter, Space
from loopty.domain.task import Audit, Benchmark, PluginChoice, Limits, Noise, Pools, SandboxSpec, Task
from loopty.engine import decisions
from loopty.engine.loop import Loop
from loopty.engine.protocols import CommittedFiles
from loopty.engine.trials import TrialRunner
from loopty.ledgers.memory import MemoryLedger
from loopty.models.purse import Purse
from loopty.proposers.random import RandomProposer
from loopty.record.recorder import Recorder
from loopty.testing.fakes import FunctionExecutor, MemoryWorkspaces

SPACE = Space({"x": Parameter(ParameterKind.FLOAT, 0.0, 1.0)})


def make_task(objective=None, pools=None, seed=0, noise=None, gates=()):
    return Task(
        "",
        Benchmark("true", 1.0),
        objective or Objective(),
        Access(),
        SPACE,
        Limits(),
        pools or Pools(attempts=20),
        noise or Noise(),
        Audit(),
        SandboxSpec(),
        gates,
        PluginChoice("random"),
        PluginChoice("random"),
        PluginChoice("none"),
        1,
        seed,
    )


class Bench:
    """One run in memory, driven as often as a test likes."""

    def __init__(
        self,
        score,
        objective=None,
        pools=None,
        seed=0,
        width=1,
        proposer=None,
        pause=None,
        control=None,
        noise=None,
        gates=(),
    ):
        self.task = make_task(objective, pools, seed, noise, gates)
        self.ticks = itertools.count()
        self.ledger = MemoryLedger()
        self.workspaces = MemoryWorkspaces()
        self.executor = FunctionExecutor(score, width, pause)
        self.proposer = proposer or RandomProposer(SPACE)
        self.control = control or RandomProposer(SPACE)
        self.scribe = self.new_scribe()
        self.scribe.record(
            lambda history: decisions.start_run(history, self.task, "", "", CommittedFiles("c0", "t0"), "first")
        )

    def new_scribe(self):
        return Recorder(self.ledger, lambda: next(self.ticks) / 100)

    def measure(self, owner="me"):
        task = self.task
        return TrialRunner(self.scribe, task.pools, task.noise, task.gates, self.executor, self.workspaces, owner)

    def start(self, node, owner="me", pools=None):
        """Record the start of the next trial of a node."""
        pools, noise = pools or self.task.pools, self.task.noise
        return self.scribe.record(lambda h: decisions.start_trial(h, NodeId(node), owner, pools, noise))

    def end(self, node, number, outcome):
        """Record the end of a trial, and what follows from it."""
        pools, noise = self.task.pools, self.task.noise
        return self.scribe.record(lambda h: decisions.end_trial(h, NodeId(node), number, outcome, pools, noise))

    def loop(self, owner="me", pruner=None):
        lanes = {Pool.ATTEMPT: self.proposer}
        if self.task.pools.control:
            lanes[Pool.CONTROL] = self.control
        return Loop(
            self.scribe,
            1,
            self.task.pools,
            lanes,
            self.measure(owner),
            self.workspaces,
            pruner,
            lambda _: ((), {}),
            Purse(self.scribe, 1, self.task.pools, owner, self.task.roles),
            owner,
            lambda: next(self.ticks) / 100,
        )

    async def drive(self, **how):
        return await self.loop(**how).drive()

    @property
    def history(self):
        return self.scribe.history

    @property
    def run(self):
        return self.history.runs[1]

    def tree(self):
        """What a run is judged identical by."""
        return [(node, dict(self.history[node].params), self.history[node].verdict) for node in self.history.ids]


@pytest.fixture
def bench():
    return Bench
