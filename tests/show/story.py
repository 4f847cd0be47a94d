"""Histories for tests: events written through a real ledger, one second apart."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping

from loopty.domain.benchmark import Gate
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective, with_weighted_sum
from loopty.domain.space import Value
from loopty.domain.task import Noise
from loopty.domain.trial import Ending, Integrity, Outcome, Pool
from loopty.judge.judge import MeasureAgain, judge
from loopty.judge.revisions import start_confirmation
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.calls import CallReserved
from loopty.record.fold import Event, Recorded
from loopty.record.history import History
from loopty.record.nodes import GateAdded, NodeAdded, ProposalRefused
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted, SessionEnded, SessionStarted
from loopty.record.trials import MachineSeen, RunRebaselined, TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents

OWNER = "host:4711:99"
TREE = "f0" * 20
"""Of the baseline."""


Measured = Callable[[NodeId], float]
"""The score of a repeated measurement of a node."""


class Story:
    """One run, event by event; the baseline is measured first."""

    def __init__(
        self,
        direction: Direction = Direction.MAX,
        baseline: float | None = 1.0,
        noise: Noise | None = None,
        again: Measured | None = None,
        machine: str = "",
        driven: bool = True,
        metrics: tuple[Metric, ...] = (),
        params: Mapping[str, Value] | None = None,
    ) -> None:
        """One measurement decides unless `again` gives repeats. Without `driven` there is no session.

        `params` are those of the baseline.
        """
        self.metrics = metrics
        self.noise = noise or Noise(repeat="auto" if again else "never")
        self.again: Measured = again or (lambda _: 0.0)
        self.machine = machine
        self.integrity = Integrity.STRONG
        self.ledger = MemoryLedger()
        self.now = 1000.0
        self.recorder = Recorder(self.ledger, self._tick)
        self.tell(RunStarted(1, "c0ffee", Objective(direction, metrics), 7, "the first run"))
        self.tell(
            NodeAdded(NodeId("1"), Pool.ATTEMPT, "baseline", "the code as it is", "a" * 40, TREE, params or {})
        )
        if driven:
            self.tell(SessionStarted(1, OWNER))
        if baseline is not None:
            self.ends(NodeId("1"), baseline)

    @property
    def history(self) -> History:
        """The history as another process opens it: from the saved pages."""
        return self.ledger.history()

    def tell(self, *events: Event) -> list[Recorded]:
        return list(self.recorder.record(lambda _: events))

    def adds(
        self,
        parent: str,
        pool: Pool = Pool.ATTEMPT,
        summary: str = "a change",
        params: Mapping[str, Value] | None = None,
        operator: str = "rewrite",
        tree: str = "",
        edits: tuple[str, ...] = (),
    ) -> NodeId:
        node = NodeId(parent).child(self.recorder.history[NodeId(parent)].children + 1)
        digest = tree if tree == TREE else hashlib.sha1((tree or node).encode()).hexdigest()
        self.tell(NodeAdded(node, pool, operator, summary, "b" * 40, digest, params or {}, edits=edits))
        return node

    def starts(self, node: NodeId) -> None:
        found = self.recorder.history[node]
        self.tell(TrialStarted(node, found.trials + 1, found.pool, OWNER))

    def ends(self, node: NodeId, score: float | None, ending: Ending = Ending.FAILED, **metrics: float) -> NodeId:
        """One trial, the repeats that the judge asks for, and the verdict; None as score is a failure."""
        self.starts(node)
        if score is None:
            outcome = Outcome(ending, reason="exit code 1", seconds=0.5, fingerprint=self.machine)
        else:
            outcome = self._finished({"score": score, **metrics})
        self.tell(TrialEnded(node, self.recorder.history[node].trials, outcome))
        while isinstance(ruled := judge(self.recorder.history, node, self.noise), MeasureAgain):
            self.repeats(node, ruled)
        self.tell(ruled)
        return node

    def repeats(self, subject: NodeId, again: MeasureAgain) -> None:
        """One more measurement to judge the subject."""
        number = self.recorder.history[again.node].trials + 1
        self.tell(TrialStarted(again.node, number, Pool.REPEAT, OWNER, subject, again.incumbent))
        self.tell(TrialEnded(again.node, number, self._finished({"score": self.again(again.node)})))

    def confirms(self) -> None:
        """Every measurement of the confirmation at the end of the run."""
        while events := list(start_confirmation(self.recorder.history, 1, OWNER, self.noise, self.noise.confirm)):
            (started,) = events
            assert isinstance(started, TrialStarted)
            self.tell(started)
            outcome = self._finished({"score": self.again(started.node)})
            self.tell(TrialEnded(started.node, started.number, outcome))

    def moves(self, machine: str, scores: Mapping[str, float], incumbent: str) -> None:
        """Move to another machine, where these nodes are measured and the run continues."""
        self.machine = machine
        for node, score in scores.items():
            number = self.recorder.history[NodeId(node)].trials + 1
            self.tell(TrialStarted(NodeId(node), number, Pool.REBASE, OWNER))
            self.tell(TrialEnded(NodeId(node), number, self._finished({"score": score})))
        self.tell(RunRebaselined(1, machine, NodeId(incumbent)))

    def sees(self, machine: str, **facts: str) -> None:
        self.tell(MachineSeen(1, machine, facts))

    def gates(self, node: str, name: str) -> None:
        self.tell(GateAdded(NodeId(node), Gate(name, "true")))

    def tries(
        self,
        parent: str,
        score: float | None,
        pool: Pool = Pool.ATTEMPT,
        ending: Ending = Ending.FAILED,
        **metrics: float,
    ) -> NodeId:
        return self.ends(self.adds(parent, pool), score, ending, **metrics)

    def refuses(self) -> None:
        self.tell(ProposalRefused(1, Pool.ATTEMPT, "rewrite", "the same as @2"))

    def reserves(self, tokens: int, money_usd: float) -> None:
        self.tell(CallReserved(1, "call", "evolver", tokens, money_usd, OWNER))

    def stops(self, reason: str) -> None:
        self.tell(SessionEnded(1, reason))

    def history_and_reads(self) -> tuple[History, list[NodeId]]:
        """The history as another process opens it, and the nodes whose records are read, as they are."""
        history, read = self.history, list[NodeId]()
        table = history._table
        body = table.body

        def note(node: NodeId) -> str | None:
            read.append(node)
            return body(node)

        table.body = note  # type: ignore[method-assign]
        return history, read

    def _finished(self, metrics: Mapping[str, float]) -> Outcome:
        metrics = with_weighted_sum(metrics, self.metrics)
        return Outcome(Ending.FINISHED, metrics, seconds=0.5, integrity=self.integrity, fingerprint=self.machine)

    def _tick(self) -> float:
        self.now += 1.0
        return self.now


def random_story(seed: int, attempts: int, control: int = 0, direction: Direction = Direction.MAX) -> Story:
    """A run like a real one: slow gains, some failures, a control that gains less."""
    rng = random.Random(seed)
    story = Story(direction, baseline=1.94)
    best = {Pool.ATTEMPT: NodeId("1"), Pool.CONTROL: NodeId("1")}
    left = [Pool.ATTEMPT] * attempts + [Pool.CONTROL] * control
    rng.shuffle(left)
    for pool in left:
        parent = best[pool] if rng.random() < 0.7 else NodeId("1")
        if rng.random() < 0.07:
            story.tries(parent, None, pool)
            continue
        base = story.recorder.history[best[pool]].outcome
        assert base is not None
        reach = 0.02 if pool is Pool.ATTEMPT else 0.006
        score = round(base.metrics["score"] + direction.sign * rng.gauss(-0.06, 0.05 + reach * 2), 4)
        story.tries(parent, score, pool)
        best[pool] = Incumbents.of(story.recorder.history.runs[1], pool).best or best[pool]
    return story
