"""Every proposal of a paid reply is taken once, in any order, also when the process is stopped."""

import asyncio
import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import ModelOption
from loopty.domain.task import Pools
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.models.purse import RunPurse
from loopty.proposers.code.code_proposer import CodeProposer
from loopty.proposers.code.options import CodeOptions, Operator
from loopty.proposers.parameters.llm_parameters import ParametersOptions, ParametersProposer
from loopty.proposers.selectors.choices import RootSelector
from loopty.proposers.shared_pool import UnreadReplies
from loopty.record.calls import CallReserved, CallSettled, Spend
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.testing.fakes import ScriptedRoleModel

from ..engine.conftest import SPACE, Bench
from .desk import Plain, reply_with

BATCH, CALLS = 4, 5


class Slow:
    """A proposer whose proposals are recorded after a pause, some of them later than others."""

    def __init__(self, proposer, pause):
        self.name, self.width = proposer.name, proposer.width
        self._proposer = proposer
        self._pause = pause

    async def propose(self, ask):
        suggestion = await self._proposer.propose(ask)
        await self._pause()
        return suggestion


def parameters(role_model, width):
    return ParametersProposer(SPACE, role_model, Plain(), ParametersOptions(batch=BATCH), width)


def points(number):
    return reply_with(*({"x": (number * BATCH + item) / 100} for item in range(BATCH)))


def code(role_model, width):
    def text(_commit, _path):
        return "def area(x):\n    return x * 2\n"

    def files(_commit):
        return ["main.py"]

    options = CodeOptions(operators=(Operator.DIFF,), batch=BATCH)
    return CodeProposer(
        {ModelOption(role_model.model): role_model},
        options,
        RootSelector(),
        Plain(),
        files,
        files,
        text,
        lambda *_: None,
        lambda *_: None,
        width=width,
    )


def blocks(number):
    wanted = (f"    return x * {100 + number * BATCH + item}" for item in range(BATCH))
    changes = (f"main.py\n<<<<<<< SEARCH\n    return x * 2\n=======\n{new}\n>>>>>>> REPLACE\n" for new in wanted)
    return "".join(f"=== PROPOSAL {n} ===\n{change}" for n, change in enumerate(changes, 1)) + "=== END ===\n"


class Runs:
    """Sessions of one run, each with new proposers, until there is no money for another call."""

    def __init__(self, make, reply, rng, width):
        self.bench = Bench(lambda _: 1.0, pools=Pools(attempts=100), width=width)
        self._make, self._reply, self._rng, self._width = make, reply, rng, width
        self._calls = iter(range(CALLS))
        self._archive = {}

    async def drive(self, stops):
        finish = None
        while finish is None or "the money is spent" not in finish.reason:
            self.bench.recorder = self.bench.new_recorder()
            role_model = ScriptedRoleModel(
                self._reply_or_error, purse=RunPurse(self.bench.recorder, 1, Pools(), "me")
            )
            role_model.archive = self._archive
            self.bench.proposer = Slow(self._make(role_model, self._width), self._pause)
            loop = self.bench.loop()
            driving = asyncio.create_task(loop.drive())
            if stops > 0:
                stops -= 1
                await self._pause(200)
                loop.stop("enough for today")
            finish = await asyncio.wait_for(driving, 60)

    async def _reply_or_error(self, _prompt):
        await self._pause()
        number = next(self._calls, None)
        return Exhausted("the money is spent") if number is None else self._reply(number)

    async def _pause(self, limit=30):
        for _ in range(self._rng.randint(0, limit)):
            await asyncio.sleep(0)


@pytest.mark.parametrize(("make", "reply"), [(parameters, points), (code, blocks)])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), width=st.sampled_from([1, 2, 8]))
def test_no_proposal_is_lost_and_none_is_taken_twice(make, reply, seed, width):
    runs = Runs(make, reply, random.Random(seed), width)
    asyncio.run(runs.drive(stops=4))
    events = [recorded.event for recorded in runs.bench.ledger.read()]
    paid = [event.call for event in events if isinstance(event, CallSettled)]
    taken = Counter(
        (event.calls[-1], event.index_in_reply)
        for event in events
        if isinstance(event, NodeAdded | ProposalRefused) and event.calls
    )
    assert len(paid) == CALLS
    assert taken == Counter(itertools.product(paid, range(BATCH)))
    assert Spend.of(runs.bench.run).unread == {}


def test_a_proposal_recorded_before_an_earlier_one_is_not_taken_again_by_the_next_process():
    bench = Bench(lambda _: 1.0)
    about = {"operator": "op", "node": NodeId("1"), "pool": Pool.ATTEMPT}
    bench.recorder.record(
        lambda _: [CallReserved(1, "call", "evolver", 1, 0.0, "me", **about), CallSettled(1, "call", 1, 0.0)]
    )

    def record_refusal(item):
        event = ProposalRefused(
            1, Pool.ATTEMPT, "op", "no use", calls=("call",), remaining_in_reply=3 - item, index_in_reply=item
        )
        bench.recorder.record(lambda _: [event])

    def take_index(queue):
        unread = queue.take(Ask(bench.history, 1, Pool.ATTEMPT, random.Random))
        return None if unread is None else unread.index

    record_refusal(3)
    record_refusal(1)
    queue = UnreadReplies(("op",))
    assert [take_index(queue) for _ in range(3)] == [0, 2, None]
    record_refusal(0)
    assert [take_index(UnreadReplies(("op",))), take_index(queue)] == [2, None]
    record_refusal(2)
    assert Spend.of(bench.run).unread == {}
