"""Whatever happens in a run, the history in the ledger's tables equals the fold of its events."""

import random
import tempfile
from pathlib import Path

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.model import Role, Usage
from loopty.domain.proposal import Objection, Proposal
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.judge.tuning import Judging
from loopty.kit import codec
from loopty.kit.records import replace
from loopty.ledgers.sqlite import MemoryLedger, SqliteLedger
from loopty.record.calls import CallReserved, CallSettled, Spend
from loopty.record.directives import DirectiveSeen, DirectiveSet, NoteAdded
from loopty.record.fold import Recorded
from loopty.record.history import decode_event, encode_event
from loopty.record.nodes import ProposalRefused
from loopty.record.recorder import Recorder
from loopty.record.search_learning import DirectionsGiven
from loopty.record.search_summary import RungChanged
from loopty.record.sessions import SessionStalled
from loopty.record.tickets import TicketEnded, TicketMode, TicketOpened, Tickets
from loopty.record.trials import Trials, trial_parts
from loopty.session.runs import start_run

from ..engine.conftest import make_task

POOLS = Pools(attempts=1000, control=1000, repeats=40)
NOISE = Noise()


class RandomRun:
    """A run with random events of every kind."""

    def __init__(self, ledger, seed):
        self.rng = random.Random(seed)
        self.clock = 0.0
        self.recorder = Recorder(ledger, self.time)
        task = make_task(pools=POOLS)
        self.recorder.record(lambda h: start_run(h, task, "", "", CommittedFiles("c0" * 20, "f0" * 20), "first"))
        self.recorder.record(lambda h: decisions.start_session(h, 1, "me"))
        self.recorder.record(lambda h: self.start_trial(h, NodeId("1")))

    def time(self):
        self.clock += 0.5
        return self.clock

    @property
    def run(self):
        return self.recorder.history.runs[1]

    def start_trial(self, history, node):
        review = self.rng.choice(["off", "flag", "reject"])
        return decisions.start_trial(history, node, self.rng.choice("ab"), Judging(POOLS, NOISE, review))

    def step(self):
        actions = [
            self.add,
            self.refuse,
            self.start,
            self.end,
            self.end,
            self.reserve,
            self.settle,
            self.record_other_event,
            self.open_or_end_ticket,
        ]
        self.rng.choice([*actions, self.lose])()

    def calls(self):
        waiting = [*Spend.of(self.run).unread, "unknown"]
        return tuple(self.rng.sample(waiting, min(self.rng.randint(0, 2), len(waiting))))

    def index_in_reply(self):
        """How many proposals follow in a reply of three, and the index of this one."""
        index = self.rng.randint(0, 2)
        return 2 - index, index

    def add(self):
        rng, ids = self.rng, list(self.recorder.history.ids)
        pool, params = rng.choice([Pool.ATTEMPT, Pool.CONTROL]), {"x": rng.randint(0, 30) / 30}
        proposal = Proposal("op", rng.choice(ids), "s", params, {}, (), self.calls(), *self.index_in_reply())
        proposal = replace(proposal, author=rng.choice(["", "a"]), surface=rng.choice(["", "loop", "cache"]))
        self.recorder.record(
            lambda h: decisions.add_node(h, proposal, CommittedFiles("c1" * 20, "f1" * 20), pool, False, 1)
        )

    def refuse(self):
        objection = self.rng.choice(list(Objection))
        refused = ProposalRefused(1, Pool.ATTEMPT, "op", "why", objection, self.calls(), *self.index_in_reply())
        self.recorder.record(lambda _: [refused])

    def start(self):
        waiting = [node for node in self.recorder.history.ids if self.recorder.history[node].is_pending]
        if waiting:
            self.recorder.record(lambda h: self.start_trial(h, self.rng.choice(waiting)))

    def end(self):
        running = Trials.of(self.run).running
        if not running:
            return
        name = self.rng.choice(list(running))
        ending = self.rng.choice([Ending.FINISHED] * 5 + list(Ending))
        metrics = {"score": self.rng.choice([0.0, 0.5, 1.0, self.rng.random()])}
        # Sometimes on another machine.
        fingerprint = self.rng.choice(["here"] * 9 + ["there"])
        outcome = Outcome(ending, metrics, reason="r", seconds=1.25, fingerprint=fingerprint)
        review = self.rng.choice(["off", "flag", "reject"])
        judging = Judging(POOLS, NOISE, review)
        self.recorder.record(lambda h: decisions.end_trial(h, *trial_parts(name), outcome, judging))

    def reserve(self):
        rng = self.rng
        pool, node = rng.choice([None, Pool.ATTEMPT]), rng.choice([None, NodeId("1")])
        call, role = f"call{self.recorder.history.number}", rng.choice(list(Role))
        worst = rng.choice([(0, 0.0), (20, 0.5), (12.5, 0.0)])
        event = CallReserved(1, call, role, 10, 0.1, rng.choice("ab"), "m", "op", node, pool, *worst)
        self.recorder.record(lambda _: [event])

    def settle(self):
        call = self.rng.choice([*Spend.of(self.run).reservations, "unknown"])
        failure, usage = self.rng.choice(["", "", "no"]), self.rng.choice([None, Usage(3, 4, 1, 2)])
        self.recorder.record(lambda _: [CallSettled(1, call, 7, 0.03, usage, failure)])

    def record_other_event(self):
        events = [
            RungChanged(1, Pool.ATTEMPT, self.rng.randint(0, 2), "rung", "why"),
            DirectionsGiven(1, Pool.ATTEMPT, self.rng.choice(["", "look elsewhere"])),
            SessionStalled(1, "out", 1.5),
            DirectiveSet(1, self.rng.choice(["", "faster"])),
            DirectiveSeen(1, self.rng.choice("ab"), "0123"),
            NoteAdded(1, self.rng.choice("ab"), "a note", self.rng.choice([None, NodeId("1")])),
        ]
        self.recorder.record(lambda _: [self.rng.choice(events)])

    def open_or_end_ticket(self):
        tickets = Tickets.of(self.run)
        if tickets.open and self.rng.random() < 0.5:
            event = TicketEnded(1, int(self.rng.choice(list(tickets.open))), self.rng.choice(["", "no"]))
        else:
            mode = self.rng.choice(list(TicketMode))
            event = TicketOpened(
                1, tickets.newest + 1, NodeId("1"), mode, "a", ObjectName("c" * 40), ObjectName("d" * 40)
            )
        self.recorder.record(lambda _: [event])

    def lose(self):
        """Sometimes a process dies, and another one closes what it left open."""
        if self.rng.random() < 0.2:
            gone = self.rng.choice("ab")
            self.recorder.record(lambda h: decisions.close_abandoned(h, lambda owner: owner != gone))


def content(history):
    return (
        history.number,
        {number: codec.plain(run) for number, run in history.runs.items()},
        [(node, history[node]) for node in history.ids],
        {pool: list(history.nodes_of_pool(1, pool)) for pool in Pool},
        {pool: [node.id for node in history.waiting_nodes(1, pool)] for pool in Pool},
        {pool: list(history.facts(1, pool)) for pool in Pool},
        {pool: list(history.labels(1, pool)) for pool in Pool},
        [list(history.newest_nodes(1, pools)) for pools in (tuple(Pool), [Pool.ATTEMPT], [Pool.CONTROL])],
        history.children(1),
        list(history.bodies()),
    )


def fold(ledger):
    history = MemoryLedger().history()
    for recorded in ledger.read():
        event = decode_event(*encode_event(recorded.event))
        history.apply(Recorded(recorded.number, recorded.at, event))
    return history


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 120))
def test_the_tables_equal_the_fold_of_the_events(seed, steps):
    ledger = MemoryLedger()
    run = RandomRun(ledger, seed)
    for _ in range(steps):
        run.step()
    expected = content(fold(ledger))
    assert content(ledger.history()) == expected
    assert content(run.recorder.history) == expected


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_tables_that_are_made_again_are_the_same(seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        ledger = SqliteLedger(path)
        run = RandomRun(ledger, seed)
        for _ in range(60):
            run.step()
        expected = content(ledger.history())
        ledger.close()
        with apsw.Connection(str(path)) as db:
            db.execute("UPDATE fold SET version = 0")
        db.close()
        again = SqliteLedger(path)
        assert content(again.history()) == expected
        again.close()
