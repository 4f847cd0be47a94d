"""Mutation changes one writable file of the selected node, the same way for the same seed."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.mutate import MutateProposer
from loopty.proposers.selectors.choices import BestSelector
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.testing.fakes import object_name


def make_ask(seed: int = 0) -> Ask:
    recorder = Recorder(MemoryLedger(), lambda: 0.0)
    root = NodeId("1")
    recorder.record(
        lambda _: [
            RunStarted(1, "criteria", Objective(), 0, ""),
            NodeAdded(root, Pool.ATTEMPT, "baseline", "", object_name("commit"), object_name("tree")),
            TrialStarted(root, 1, Pool.ATTEMPT, "owner"),
            TrialEnded(root, 1, Outcome(Ending.FINISHED, {"score": 1.0})),
            NodeJudged(root, Verdict.KEPT, ""),
        ]
    )
    return Ask(recorder.history, 1, Pool.ATTEMPT, lambda position: random.Random(f"{seed} {position}"))


def proposer(files: Mapping[str, str | None]) -> MutateProposer:
    return MutateProposer(BestSelector(), lambda _: list(files), lambda _, path: files[path])


CODE = "def area(x):\n    return 3.14 * x + 7\n"


async def test_one_writable_file_is_changed_and_the_seed_decides_how() -> None:
    files = {"a.py": CODE, "b.py": CODE}
    proposals = [await proposer(files).propose(make_ask(seed)) for seed in (1, 1, 2, 3, 4, 5)]
    assert proposals[0] == proposals[1]
    for proposal in proposals:
        assert proposal is not None
        ((path, text),) = proposal.edits.items()
        assert path in files
        assert text != CODE
        assert proposal.summary.startswith(f"{path}: ")
    assert len({str(proposal) for proposal in proposals}) > 2


@pytest.mark.parametrize("files", [{}, {"empty.py": ""}, {"binary": None}])
async def test_the_search_ends_when_nothing_can_be_changed(files: dict[str, str | None]) -> None:
    with pytest.raises(Exhausted, match=r"access\.write"):
        await proposer(files).propose(make_ask())


async def test_files_that_cannot_be_changed_do_not_end_the_search_while_others_can() -> None:
    files = {"a.py": CODE, **{f"blob{number}": None for number in range(50)}}
    for seed in range(20):
        assert await proposer(files).propose(make_ask(seed)) is not None


async def test_unpaired_markers_are_reported_with_file_and_line() -> None:
    with pytest.raises(Misuse, match=r"a\.py, line 1: EVOLVE-BLOCK-END"):
        await proposer({"a.py": "# EVOLVE-BLOCK-END\n" + CODE}).propose(make_ask())
