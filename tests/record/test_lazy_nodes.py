"""A history that reads nodes when they are asked for answers every question like one that folded all events."""

import contextlib
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal
from loopty.domain.trial import Pool
from loopty.engine import decisions
from loopty.engine.loop import next_pending
from loopty.engine.protocols import CommittedFiles
from loopty.ledgers.sqlite import MemoryLedger, SqliteLedger
from loopty.record import fold as fold_state
from loopty.record.recorder import Recorder
from loopty.session import hand_decisions

from .test_fold import RandomRun, content, fold

FILES = CommittedFiles("c1" * 20, "f1" * 20)


def answers(history):
    ids = list(history.ids)
    return (
        content(history),
        [history.node_of_handle(handle + 1) for handle in range(len(ids))],
        [history.twin(1, pool, history[node].identity) for node in ids for pool in Pool],
        [history[node].handle for node in ids],
        [list(reversed(history.nodes_of_pool(1, pool))) for pool in Pool],
        [history.nodes_of_pool(1, pool)[start:stop] for pool in Pool for start, stop in SLICES],
        [len(history.nodes_of_pool(1, pool)) for pool in Pool],
        history.count,
    )


SLICES = [(0, 3), (2, None), (-3, None), (None, -2), (5, 2), (-4, -1)]


class DraftingRun(RandomRun):
    """A random run with drafts: some are sealed or dropped, some are forgotten."""

    def step(self):
        if self.rng.random() < 0.25:
            self.rng.choice([self.draft, self.seal, self.drop])()
        else:
            super().step()

    def draft(self):
        parent = self.rng.choice(list(self.recorder.history.ids))
        proposal = Proposal("hand", parent, "s", {"x": self.rng.random()})
        self._record(lambda h: decisions.add_node(h, proposal, FILES, Pool.ATTEMPT, draft=True))

    def seal(self):
        if node := self._random_draft():
            tree = f"{self.rng.randrange(16**40):040x}"
            self._record(lambda h: hand_decisions.seal_node(h, node, CommittedFiles("c2" * 20, tree)))

    def drop(self):
        if node := self._random_draft():
            self._record(lambda h: hand_decisions.drop_draft(h, node))

    def add(self):
        with contextlib.suppress(Misuse):  # below a dropped draft
            super().add()

    def _random_draft(self):
        history = self.recorder.history
        return self.rng.choice([node for node in history.ids if history[node].draft] or [None])

    def _record(self, decide):
        with contextlib.suppress(Misuse):
            self.recorder.record(decide)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 100), in_memory=st.booleans())
def test_every_answer_equals_that_of_the_folded_events(seed, steps, in_memory):
    with tempfile.TemporaryDirectory() as folder:
        ledger = MemoryLedger() if in_memory else SqliteLedger(Path(folder, "ledger.db"))
        run = DraftingRun(ledger, seed)
        for _ in range(steps):
            run.step()
        expected = answers(fold(ledger))
        assert answers(ledger.history()) == expected
        assert answers(run.recorder.history) == expected
        assert ledger.flaw() is None


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_two_writers_in_turn_fold_like_one(seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        one = DraftingRun(SqliteLedger(path), seed)
        other, rng = Recorder(SqliteLedger(path), one.time), random.Random(seed)
        recorders = [one.recorder, other]
        reading = SqliteLedger(path)
        reader = reading.history()
        for _ in range(60):
            one.recorder = rng.choice(recorders)
            one.recorder.refresh()
            one.step()
            if rng.random() < 0.2:
                reading.update(reader)
        expected = answers(fold(SqliteLedger(path)))
        reading.update(reader)
        assert answers(reader) == expected
        assert [answers(recorder.refresh()) for recorder in recorders] == [expected, expected]
        assert reading.flaw() is None


def test_a_reader_sees_the_nodes_of_its_moment_while_others_add_more(tmp_path):
    run = DraftingRun(SqliteLedger(tmp_path / "ledger.db"), 5)
    for _ in range(40):
        run.step()
    other = SqliteLedger(tmp_path / "ledger.db")
    reader = other.history()
    seen = list(reader.ids), reader.children(1), [list(reader.nodes_of_pool(1, pool)) for pool in Pool]
    for _ in range(40):
        run.step()
    assert run.recorder.history.count > reader.count
    assert (list(reader.ids), reader.children(1), [list(reader.nodes_of_pool(1, pool)) for pool in Pool]) == seen
    other.update(reader)
    assert answers(reader) == answers(fold(other))


def test_a_decision_sees_the_nodes_that_it_has_just_added():
    run = RandomRun(MemoryLedger(), 0)

    def decide(history):
        first = decisions.add_node(history, Proposal("op", NodeId("1"), "s", {"x": 2.0}), FILES, Pool.ATTEMPT)
        yield from first
        node = first[0].node
        assert history.nodes_of_pool(1, Pool.ATTEMPT)[-1] == node
        assert history.node_of_handle(history.count) == node
        assert [each.id for each in history.waiting_nodes(1, Pool.ATTEMPT)] == [node]
        assert history.twin(1, Pool.ATTEMPT, history[node].identity) == node
        assert list(history.ids)[-1] == node

    run.recorder.record(decide)


def test_few_nodes_stay_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(fold_state, "_MOST_DECODED", 5)
    run = RandomRun(SqliteLedger(tmp_path / "ledger.db"), 3)
    for _ in range(100):
        run.step()
    assert len(run.recorder.history._decoded) <= 5
    assert content(run.recorder.history) == content(fold(SqliteLedger(tmp_path / "ledger.db")))


@pytest.mark.parametrize("ledger", [MemoryLedger, None], ids=["memory", "sqlite"])
def test_a_forgotten_draft_waits_for_no_trial(ledger, tmp_path):
    run = RandomRun(ledger() if ledger else SqliteLedger(tmp_path / "ledger.db"), 0)
    proposal = Proposal("hand", NodeId("1"), "s", {"x": 0.25})
    run.recorder.record(lambda h: decisions.add_node(h, proposal, FILES, Pool.ATTEMPT, draft=True))
    assert next_pending(run.recorder.history, 1, Pool.ATTEMPT) is None
