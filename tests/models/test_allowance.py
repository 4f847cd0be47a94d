"""What one trial may spend: it holds at any width, and candidates are blamed for their own doing alone."""

import asyncio
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from loopty.domain.errors import Crowded, Exhausted
from loopty.domain.model import Message, Outage, Prompt, Reply, Role, Speaker, Usage
from loopty.models.allowance import Allowance, AllowanceExceeded
from loopty.models.meter import Subject
from loopty.models.spend_caps import Price
from loopty.record.calls import CallReserved, CallSettled, Spend

from .spending import RunWithModels
from .test_caps import CALLS, WIDTH, WORST, Greedy, spend

CAP = Price(8_000, 0.02)


def of_tokens(tokens):
    return Allowance(Price(tokens, math.inf))


def test_a_call_that_does_not_fit_is_refused_in_words_that_say_what_to_raise():
    allowance = of_tokens(100)
    allowance.reserve("a", Price(60, 0.0))
    allowance.settle("a", Price(60, 0.0), failed=False)
    allowance.admit(Price(40, 0.0))
    told = r"a request of 41 tokens beside 60 used would pass the 100 that one trial may use \(trial_tokens of"
    with pytest.raises(AllowanceExceeded, match=told):
        allowance.admit(Price(41, 0.0))


def test_money_is_bounded_as_tokens_are():
    allowance = Allowance(Price(math.inf, 0.01))
    allowance.reserve("a", Price(60, 0.009))
    with pytest.raises(Crowded):
        allowance.admit(Price(9, 0.002))
    allowance.settle("a", Price(60, 0.009), failed=False)
    told = r"a request of \$0.0020 beside \$0.0090 spent would pass the \$0.0100 .* \(trial_money_usd of"
    with pytest.raises(AllowanceExceeded, match=told):
        allowance.admit(Price(9, 0.002))


def test_what_is_overspent_ends_no_run():
    assert not issubclass(AllowanceExceeded, Exhausted)


def test_calls_in_flight_count_at_their_worst_and_give_the_rest_back():
    allowance = of_tokens(100)
    allowance.reserve("a", Price(90, 0.0))
    with pytest.raises(Crowded):
        allowance.admit(Price(20, 0.0))
    allowance.settle("a", Price(10, 0.0), failed=False)
    allowance.admit(Price(90, 0.0))


def test_what_the_provider_failed_to_answer_is_spent_and_no_fault_of_the_candidate():
    allowance = of_tokens(100)
    for call, failed in (("a", True), ("b", False)):
        allowance.reserve(call, Price(50, 0.0))
        allowance.settle(call, Price(50, 0.0), failed=failed)
    with pytest.raises(Outage, match=r"requests without an answer .* beside 100 used"):
        allowance.admit(Price(50, 0.0))
    with pytest.raises(AllowanceExceeded):
        allowance.admit(Price(51, 0.0))


class Watched:
    """Sees what the calls of one trial cost, and by how much the costliest has passed its own estimate."""

    def __init__(self, desk):
        self.reserved = {}
        self.tokens = self.over_tokens = 0
        self.money = self.over_money = 0.0
        desk.recorder.listeners.append(self.check)

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
@example([WORST] * 24)
def test_no_allowance_is_passed_by_more_than_one_call_exceeds_its_own_estimate(calls):
    with tempfile.TemporaryDirectory() as folder:
        desk = RunWithModels(Path(folder))
        Watched(desk)
        asyncio.run(spend(desk, calls, Subject("benchmark", allowance=Allowance(CAP))))
        assert Spend.of(desk.run).reservations == {}, "everything is settled"


async def test_a_server_that_passes_its_limits_does_not_pass_an_allowance_with_many_calls_at_once(tmp_path):
    desk = RunWithModels(tmp_path)
    line = desk.line(Greedy(), Role.USER, max_output_tokens=500)
    subject = Subject("benchmark", allowance=of_tokens(50_000))

    async def worker():
        while True:
            await line.ask_about(Prompt("", (Message(Speaker.ASKER, "What next?"),)), subject)

    ends = await asyncio.gather(*(worker() for _ in range(WIDTH)), return_exceptions=True)
    assert all(isinstance(end, AllowanceExceeded) for end in ends), ends
    assert Spend.of(desk.run).tokens == {"user": 4 * 14_000}, "the last of them began with room for its estimate"


class Slow:
    """Answers when it is let."""

    name = "openai:slow"

    def __init__(self):
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def reply(self, _):
        self.asked.set()
        await self.go.wait()
        return Reply("this", Usage(5, 5))


async def test_a_reply_that_nobody_waited_for_is_the_candidates(tmp_path):
    desk, model = RunWithModels(tmp_path), Slow()
    line = desk.line(model, Role.USER, max_output_tokens=50)
    subject = Subject("benchmark", allowance=of_tokens(100))
    prompt = Prompt("", (Message(Speaker.ASKER, "What next?"),))
    asking = asyncio.create_task(line.ask_about(prompt, subject))
    await model.asked.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    with pytest.raises(AllowanceExceeded):
        await line.ask_about(prompt, subject)
