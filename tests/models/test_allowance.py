"""The allowance of a trial holds at any width, and candidates are blamed only for their own calls."""

import asyncio
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from loopty.domain.errors import Crowded, Exhausted
from loopty.domain.model import Message, Outage, Prompt, Reply, Role, Speaker, Usage
from loopty.models.meter import Subject
from loopty.models.purse import Price
from loopty.models.trial_access import Allowance, AllowanceExceeded
from loopty.record.calls import CallReserved, CallSettled, Spend

from .spending import PaidRun
from .test_caps import CALLS, COSTLIEST, WIDTH, Greedy, spend

CAP = Price(8_000, 0.02)


def token_allowance(tokens):
    return Allowance(Price(tokens, math.inf))


def test_a_call_that_does_not_fit_is_refused_and_the_message_names_the_limit():
    allowance = token_allowance(100)
    allowance.reserve("a", Price(60, 0.0))
    allowance.settle("a", Price(60, 0.0), failed=False)
    allowance.admit(Price(40, 0.0))
    message = (
        r"a request of 41 tokens on top of 60 used would pass the 100 that one trial may use \(trial_tokens of"
    )
    with pytest.raises(AllowanceExceeded, match=message):
        allowance.admit(Price(41, 0.0))


def test_money_is_limited_like_tokens():
    allowance = Allowance(Price(math.inf, 0.01))
    allowance.reserve("a", Price(60, 0.009))
    with pytest.raises(Crowded):
        allowance.admit(Price(9, 0.002))
    allowance.settle("a", Price(60, 0.009), failed=False)
    message = r"a request of \$0.0020 on top of \$0.0090 spent would pass the \$0.0100 .* \(trial_money_usd of"
    with pytest.raises(AllowanceExceeded, match=message):
        allowance.admit(Price(9, 0.002))


def test_an_exceeded_allowance_ends_no_run():
    assert not issubclass(AllowanceExceeded, Exhausted)


def test_calls_in_flight_count_at_their_maximum_and_return_the_rest():
    allowance = token_allowance(100)
    allowance.reserve("a", Price(90, 0.0))
    with pytest.raises(Crowded):
        allowance.admit(Price(20, 0.0))
    allowance.settle("a", Price(10, 0.0), failed=False)
    allowance.admit(Price(90, 0.0))


def test_unanswered_requests_cost_tokens_but_are_not_the_candidates_fault():
    allowance = token_allowance(100)
    for call, failed in (("a", True), ("b", False)):
        allowance.reserve(call, Price(50, 0.0))
        allowance.settle(call, Price(50, 0.0), failed=failed)
    with pytest.raises(Outage, match=r"requests without an answer .* on top of 100 used"):
        allowance.admit(Price(50, 0.0))
    with pytest.raises(AllowanceExceeded):
        allowance.admit(Price(51, 0.0))


class AllowanceCheck:
    """Checks the cost of one trial's calls, and the largest excess of a call over its own estimate."""

    def __init__(self, paid_run):
        self.reserved = {}
        self.tokens = self.over_tokens = 0
        self.money = self.over_money = 0.0
        paid_run.recorder.listeners.append(self.check)

    def check(self, recorded):
        event = recorded.event
        if isinstance(event, CallReserved):
            self.reserved[event.call] = event
        if isinstance(event, CallSettled):
            estimate = self.reserved[event.call]
            self.tokens, self.money = self.tokens + event.tokens, self.money + event.money_usd
            self.over_tokens = max(self.over_tokens, event.tokens - estimate.tokens)
            self.over_money = max(self.over_money, event.money_usd - estimate.money_usd)
        assert self.tokens <= CAP.tokens + self.over_tokens
        assert self.money <= CAP.money_usd + self.over_money + 1e-9


@settings(max_examples=40)
@given(CALLS)
@example([COSTLIEST] * 24)
def test_an_allowance_is_passed_by_at_most_one_calls_excess_over_its_estimate(calls):
    with tempfile.TemporaryDirectory() as folder:
        paid_run = PaidRun(Path(folder))
        AllowanceCheck(paid_run)
        asyncio.run(spend(paid_run, calls, Subject("benchmark", allowance=Allowance(CAP))))
        assert Spend.of(paid_run.run).reservations == {}, "everything is settled"


async def test_a_server_that_ignores_limits_does_not_pass_an_allowance_with_concurrent_calls(tmp_path):
    paid_run = PaidRun(tmp_path)
    role_model = paid_run.role_model(Greedy(), Role.USER, max_output_tokens=500)
    subject = Subject("benchmark", allowance=token_allowance(50_000))

    async def worker():
        while True:
            await role_model.ask_about(Prompt("", (Message(Speaker.ASKER, "What next?"),)), subject)

    results = await asyncio.gather(*(worker() for _ in range(WIDTH)), return_exceptions=True)
    assert all(isinstance(result, AllowanceExceeded) for result in results), results
    assert Spend.of(paid_run.run).tokens == {"user": 4 * 14_000}, "the last call began with room for its estimate"


class Slow:
    """Answers when the test allows it."""

    name = "openai:slow"

    def __init__(self):
        self.started, self.go = asyncio.Event(), asyncio.Event()

    async def reply(self, _):
        self.started.set()
        await self.go.wait()
        return Reply("this", Usage(5, 5))


async def test_a_cancelled_call_counts_against_the_candidates_allowance(tmp_path):
    paid_run, model = PaidRun(tmp_path), Slow()
    role_model = paid_run.role_model(model, Role.USER, max_output_tokens=50)
    subject = Subject("benchmark", allowance=token_allowance(100))
    prompt = Prompt("", (Message(Speaker.ASKER, "What next?"),))
    task = asyncio.create_task(role_model.ask_about(prompt, subject))
    await model.started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(AllowanceExceeded):
        await role_model.ask_about(prompt, subject)
