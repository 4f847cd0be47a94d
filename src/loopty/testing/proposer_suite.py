"""Tests that every proposer of parameters must pass: subclass ProposerConformance and give it a `make` fixture."""

from __future__ import annotations

import random
from collections.abc import Callable

from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.objective import SCORE, Objective
from loopty.domain.proposal import Proposal
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask, Proposer
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.fold import Event
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged

_OBJECT = ObjectName("c0" * 20)
SPACE = Space(
    {
        "x": Parameter(ParameterKind.FLOAT, -5.0, 5.0),
        "rate": Parameter(ParameterKind.FLOAT, 1e-4, 1.0, log=True),
        "n": Parameter(ParameterKind.INT, 1, 8),
        "method": Parameter(ParameterKind.CATEGORICAL, choices=("a", "b")),
        "depth": Parameter(ParameterKind.INT, 1, 3, when={"method": "b"}),
    }
)

MakeProposer = Callable[[Space], Proposer]


class ScoredRun:
    """A run in memory that scores nodes by the distance of `x` from zero."""

    def __init__(self) -> None:
        self._recorder = Recorder(MemoryLedger(), lambda: 0.0)
        root = NodeId("1")
        self._append(
            RunStarted(1, "criteria", Objective(), 0, "the first run"),
            NodeAdded(
                node=root,
                pool=Pool.ATTEMPT,
                operator="baseline",
                summary="",
                commit=_OBJECT,
                tree=_OBJECT,
                params=SPACE.baseline(),
            ),
        )
        self._record_score(root, 0.0)

    @property
    def ask(self) -> Ask:
        return Ask(self._recorder.history, 1, Pool.ATTEMPT, lambda position: random.Random(position))

    def record(self, proposal: Proposal) -> None:
        """Record the proposal as a node with its score."""
        history = self._recorder.history
        node = proposal.parent.child(history[proposal.parent].children + 1)
        self._append(
            NodeAdded(
                node=node,
                pool=Pool.ATTEMPT,
                operator=proposal.operator,
                summary="",
                commit=_OBJECT,
                tree=_OBJECT,
                params=proposal.params,
                known_event=history.number,
            )
        )
        self._record_score(node, -abs(float(proposal.params["x"])))

    def _record_score(self, node: NodeId, score: float) -> None:
        self._append(
            TrialStarted(node, 1, Pool.ATTEMPT, "owner"),
            TrialEnded(node, 1, Outcome(Ending.FINISHED, {SCORE: score})),
            NodeJudged(node, Verdict.DISCARDED, ""),
        )

    def _append(self, *events: Event) -> None:
        self._recorder.record(lambda _: events)


class ProposerConformance:
    """The contract of the Proposer protocol, as tests (for pytest with asyncio in automatic mode)."""

    async def test_every_proposal_is_a_point_of_the_space_and_names_its_proposer(self, make: MakeProposer) -> None:
        proposer, run = make(SPACE), ScoredRun()
        for _ in range(25):
            proposal = await self._propose(proposer, run)
            assert SPACE.fault(proposal.params) is None
            assert proposal.operator == proposer.name
            assert proposal.summary
            run.record(proposal)

    async def test_a_new_proposer_continues_where_the_last_one_stopped(self, make: MakeProposer) -> None:
        proposer, whole_run, resumed_run = make(SPACE), ScoredRun(), ScoredRun()
        for number in range(24):
            expected = await self._propose(proposer, whole_run)
            if number % 8 == 0:
                resumed = make(SPACE)
            assert await self._propose(resumed, resumed_run) == expected
            whole_run.record(expected)
            resumed_run.record(expected)

    async def _propose(self, proposer: Proposer, run: ScoredRun) -> Proposal:
        proposal = await proposer.propose(run.ask)
        assert isinstance(proposal, Proposal), "no trial is running, so there is nothing to wait for"
        return proposal
