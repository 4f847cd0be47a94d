"""A session ends closed and within its budget, whatever proposers and trials do and whenever it is stopped."""

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Crowded, Exhausted
from loopty.domain.launch import SandboxError
from loopty.domain.model import Outage
from loopty.domain.proposal import Proposal, Refusal, RungChange
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.record.calls import Spend
from loopty.record.nodes import NodeAdded, NodeCount
from loopty.record.sessions import Session, SessionEnded
from loopty.record.trials import TrialEnded, Trials, TrialStarted

from .conftest import Bench

ATTEMPTS, CONTROL = 12, 6
FAULTS = (Outage("out"), SandboxError("broken"), Exhausted("spent"), Crowded("crowded"), RuntimeError("a bug"))


class RandomAnswers:
    """Proposes, refuses, changes the rung, has nothing, or raises, at random and after some time."""

    name = "random-answers"

    def __init__(self, rng, width, faults):
        self.width = width
        self.times = 0
        self._rng = rng
        self._faults = faults

    async def propose(self, ask):
        self.times += 1
        rng, call = self._rng, None
        if rng.random() < 0.3:
            call = ask.purse.reserve("evolver", 1, 0.0, operator=self.name, node=ask.root.id, pool=ask.pool)
        try:
            await pause(rng)
            draw = rng.random()
            if draw < self._faults:
                raise rng.choice(FAULTS)
            if draw < 0.15:
                return None
            if draw < 0.3:
                return Refusal(self.name, "no use", calls=(call,) if call else ())
            if draw < 0.4:
                return RungChange(rng.randint(0, 1), "rung", "why")
            params = {"x": rng.randint(0, 40) / 40}  # some values occur twice
            edits = {"forbidden": "x"} if draw < 0.5 else {}
            return Proposal(self.name, ask.root.id, "", params, edits, calls=(call,) if call else ())
        finally:
            if call:
                ask.purse.settle(call, 1, 0.0)


async def pause(rng):
    for _ in range(rng.randint(0, 15)):
        await asyncio.sleep(0)


def most_charged(events, pool):
    """The highest number of trials of a pool that were ever started and not cancelled."""
    started, most, pools = 0, 0, {}
    for event in events:
        if isinstance(event, TrialStarted):
            pools[event.node, event.number] = event.pool
            started += event.pool is pool and event.node.parent is not None
        elif isinstance(event, TrialEnded) and event.outcome.ending is Ending.CANCELLED:
            started -= pools[event.node, event.number] is pool and event.node.parent is not None
        most = max(most, started)
    return most


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), width=st.sampled_from([1, 2, 8]), faults=st.sampled_from([0.0, 0.03]))
def test_a_session_ends_closed_and_within_its_budget(seed, width, faults):
    rng = random.Random(seed)

    def score(trial):
        draw = rng.random()
        if trial.node.id.parent and draw < faults:
            raise rng.choice(FAULTS)
        if trial.node.id.parent and draw < 0.2:
            return Outcome(Ending.FAILED, reason="crashed")
        return trial.node.params["x"]

    async def one_session(bench):
        bench.proposer = RandomAnswers(rng, rng.choice([1, width]), faults)
        bench.control = RandomAnswers(rng, 1, 0.0)
        loop = bench.loop()
        driving = asyncio.create_task(loop.drive())
        if rng.random() < 0.4:
            for _ in range(rng.randint(0, 12)):
                await pause(rng)
            loop.stop("enough")
        (end,) = await asyncio.gather(asyncio.wait_for(driving, 60), return_exceptions=True)
        assert not isinstance(end, TimeoutError | AssertionError)
        # Each answer leads to an event or to a wait for a trial, so this number is bounded.
        return bench.proposer.times + bench.control.times

    async def sessions():
        pools = Pools(attempts=ATTEMPTS, control=CONTROL, repeats=4)
        bench = Bench(score, pools=pools, width=width, pause=lambda _: pause(rng))
        for number in range(1, 5):
            before = bench.history.number
            times = await one_session(bench)
            events = [recorded.event for recorded in bench.ledger.read()]
            assert times <= (len(events) - before) * (width + 1)
            assert sum(isinstance(event, SessionEnded) for event in events) == number
            assert (
                Session.of(bench.run).driver,
                Trials.of(bench.run).running,
                Spend.of(bench.run).reservations,
            ) == ("", {}, {})
            assert most_charged(events, Pool.ATTEMPT) <= ATTEMPTS
            assert most_charged(events, Pool.CONTROL) <= CONTROL
            assert sum(isinstance(event, NodeAdded) for event in events) == NodeCount.of(bench.run).nodes
            assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(sessions())
