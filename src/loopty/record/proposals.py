"""The family of proposals: how many a pool's proposer made, and how many were refused."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.declared_types import cut_words
from loopty.domain.pool import Pool
from loopty.domain.proposal import Objection, Refusal
from loopty.kit.records import field, replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import PoolPart

_LONGEST_REASON = 160


class ProposalRefused(Event):
    """A proposal that got no trial. It costs no attempt."""

    run: int
    pool: Pool
    operator: str
    reason: str
    objection: Objection = Objection.OTHER
    calls: tuple[str, ...] = ()
    remaining_in_reply: int = 0
    index_in_reply: int = 0
    arm_reason: str = ""
    """Why its operator and its model were chosen."""


class Proposals(PoolPart):
    """The answers of one pool's proposer."""

    nodes: int = 0
    refused: int = 0
    refused_in_row: int = 0
    last_refusal: str = ""
    """Shortened: the fold is written with every event."""
    fruitless_calls: int = 0
    """Consecutive model calls without a usable proposal."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Answers by operator, refused ones included."""

    @property
    def answer_count(self) -> int:
        """How many answers the proposer has given: the position of the seeded generator."""
        return self.nodes + self.refused

    def with_node(self, operator: str) -> Proposals:
        """One more node."""
        return replace(self.with_fresh_streak(), nodes=self.nodes + 1, answers=self._answers_with(operator))

    def with_refusal(self, event: ProposalRefused) -> Proposals:
        """One more proposal without a trial."""
        from loopty.kit.fence import one_line  # its patterns take long to compile, and refusals are rare

        calls = 0 if event.index_in_reply else len(event.calls)  # the rest of a batch cost no call
        return replace(
            self,
            refused=self.refused + 1,
            refused_in_row=self.refused_in_row + 1,
            last_refusal=one_line(event.reason, _LONGEST_REASON),
            fruitless_calls=self.fruitless_calls + calls,
            answers=self._answers_with(event.operator),
        )

    def with_fresh_streak(self) -> Proposals:
        """The same answers, with the counts of consecutive refusals and fruitless calls reset."""
        return replace(self, refused_in_row=0, fruitless_calls=0)

    def _answers_with(self, operator: str) -> Mapping[str, int]:
        return {**self.answers, operator: self.answers.get(operator, 0) + 1}


def _refuse(state: FoldState, event: ProposalRefused, _at: float) -> None:
    run = state.runs[event.run]
    state.put_run(run.with_pool_part(event.pool, Proposals.of(run, event.pool).with_refusal(event)))


def refuse_proposal(run: int, pool: Pool, refusal: Refusal) -> Event:
    """The event of a proposal that gets no node."""
    objected = refusal.operator, cut_words(refusal.reason), refusal.objection
    place = refusal.remaining_in_reply, refusal.index_in_reply
    return ProposalRefused(run, pool, *objected, refusal.calls, *place, refusal.arm_reason)


FAMILY = Family((ProposalRefused,), {ProposalRefused: _refuse})
