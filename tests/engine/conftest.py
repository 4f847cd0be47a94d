"""A run over fakes: no git, no sandbox, no disk."""

import itertools

import pytest

from loopty.domain.access import Access
from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.task import Audit, Noise, PluginChoice, Pools, SandboxSpec, Task
from loopty.domain.trial import Pool
from loopty.engine import decisions
from loopty.engine.loop import Loop
from loopty.engine.protocols import CommittedFiles
from loopty.engine.prune_watch import PruneWatch
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.tuning import Judging
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.purse import RunPurse
from loopty.proposers.parameters.points import RandomProposer
from loopty.record.recorder import Recorder
from loopty.session.runs import start_run
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
    """One run in memory, which a test can drive several times."""

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
        secret="a secret",
    ):
        self.task = make_task(objective, pools, seed, noise, gates)
        self.ticks = itertools.count()
        self.ledger = MemoryLedger()
        self.workspaces = MemoryWorkspaces()
        self.executor = FunctionExecutor(score, width, pause)
        self.proposer = proposer or RandomProposer(SPACE)
        self.control = control or RandomProposer(SPACE)
        self.reviewer = None
        self.tuning = None
        self.editable_share = None
        self.recorder = self.new_recorder()
        self.recorder.record(
            lambda history: start_run(
                history, self.task, "", "", CommittedFiles("c0" * 20, "f0" * 20), "first", secret=secret
            )
        )

    def new_recorder(self):
        return Recorder(self.ledger, lambda: next(self.ticks) / 100)

    def measure(self, owner="me"):
        gates, workspaces = self.task.gates, self.workspaces
        return TrialRunner(self.recorder, self.judging(), gates, self.executor, workspaces, owner, self.reviewer)

    def judging(self, pools=None):
        mode = self.reviewer.mode if self.reviewer else "off"
        return Judging(pools or self.task.pools, self.task.noise, mode, self.tuning, self.editable_share)

    def start(self, node, owner="me", pools=None):
        """Record the start of the next trial of a node."""
        judging = self.judging(pools)
        return self.recorder.record(lambda h: decisions.start_trial(h, NodeId(node), owner, judging))

    def end(self, node, number, outcome):
        """Record the end of a trial, and what follows from it."""
        judging = self.judging()
        return self.recorder.record(lambda h: decisions.end_trial(h, NodeId(node), number, outcome, judging))

    def loop(self, owner="me", pruner=None, pace=None):
        proposers = {Pool.ATTEMPT: self.proposer}
        if self.task.pools.control:
            proposers[Pool.CONTROL] = self.control
        return Loop(
            self.recorder,
            1,
            self.task.pools,
            proposers,
            self.measure(owner),
            self.workspaces,
            PruneWatch(lambda: self.history, pruner, lambda _: ((), {}), ""),
            RunPurse(self.recorder, 1, self.task.pools, owner, self.task.roles),
            owner,
            lambda: next(self.ticks) / 100,
            pace,
        )

    async def drive(self, **how):
        return await self.loop(**how).drive()

    @property
    def history(self):
        return self.recorder.history

    @property
    def run(self):
        return self.history.runs[1]

    def tree(self):
        """The part of a run that must be equal in two equal runs."""
        return [(node, dict(self.history[node].params), self.history[node].verdict) for node in self.history.ids]


@pytest.fixture
def bench():
    return Bench
