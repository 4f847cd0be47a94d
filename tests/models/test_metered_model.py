"""A role model: metered, capped, throttled, retried, archived."""

import asyncio
import json

import pytest

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.model import (
    Message,
    ModelFault,
    ModelSpec,
    Outage,
    Prompt,
    Reply,
    Role,
    RoleBudget,
    Roles,
    Speaker,
    Usage,
)
from loopty.domain.task import Pools
from loopty.domain.trial import Pool
from loopty.models.meter import USEFUL_OUTPUT, RequestSize
from loopty.models.retry import Throttle
from loopty.models.scripted_model import ScriptedModel
from loopty.record.calls import Spend
from loopty.record.recorder import Recorder
from loopty.testing.role_model_suite import PROMPT, RoleModelConformance, reservations, settlements

from .spending import PaidRun


class TestMeteredModel(RoleModelConformance):
    @pytest.fixture
    def make_role_model(self, tmp_path):
        def make(script, cap):
            paid_run = PaidRun(tmp_path, Pools(tokens=cap))
            return paid_run.role_model(ScriptedModel(script)), paid_run.ledger

        return make


def test_a_request_is_estimated_with_its_schema_and_limited_by_the_context():
    spec = ModelSpec("openai", "m", max_output_tokens=4000, context_tokens=5000)
    bare = RequestSize.of_prompt(Prompt("s" * 400, (Message(Speaker.ASKER, "t" * 400),)), spec)
    assert 200 <= bare.input < 220
    assert bare.max_input > 800
    assert bare.output == 4000
    schema = RequestSize.of_prompt(
        Prompt("s" * 400, (Message(Speaker.ASKER, "t" * 400),), {"enum": ["x" * 400]}), spec
    )
    assert schema.input > bare.input + 100
    long = RequestSize.of_prompt(Prompt("s" * 12_000, ()), spec)
    assert long.input + long.output == 5000
    assert RequestSize.of_prompt(Prompt("s" * 40_000, ()), spec).output == USEFUL_OUTPUT, (
        "the provider decides whether it fits"
    )
    assert RequestSize.of_prompt(Prompt("", (), max_output_tokens=100), spec).output == 100


async def test_a_shorter_reply_is_requested_where_the_whole_does_not_fit(tmp_path):
    paid_run = PaidRun(tmp_path, Pools(tokens=1000))
    model = ScriptedModel(["short"], Usage(10, 10))
    await paid_run.role_model(model).ask(Prompt("", (Message(Speaker.ASKER, "?"),)), "guess")
    (sent,) = model.prompts
    (reserved,) = reservations(paid_run.ledger)
    assert USEFUL_OUTPUT <= sent.max_output_tokens < 1000
    assert reserved.tokens == 1000, "all that remains"


async def test_a_short_money_budget_shortens_the_reply(tmp_path):
    paid_run = PaidRun(tmp_path, roles=Roles(evolver=RoleBudget(money_usd=0.01)))
    model = ScriptedModel(["short"], Usage(10, 10))
    role_model = paid_run.role_model(model, input_usd=1.0, output_usd=10.0)
    await role_model.ask(Prompt("", (Message(Speaker.ASKER, "?"),)), "guess")
    assert 990 < model.prompts[0].max_output_tokens < 1000
    assert reservations(paid_run.ledger)[0].money_usd <= 0.01
    assert Spend.of(paid_run.run).money_usd == {"evolver": pytest.approx(0.00011)}


async def test_a_call_without_room_waits_for_another_to_settle(tmp_path):
    paid_run = PaidRun(tmp_path, Pools(tokens=2000))
    started, go = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def reply(self, prompt):
            started.set()
            await go.wait()
            return await super().reply(prompt)

    role_model = paid_run.role_model(Slow(["one", "two"], Usage(10, 10)), max_output_tokens=1500)
    first = asyncio.create_task(role_model.ask(PROMPT, "guess"))
    await started.wait()
    long = Prompt("", (Message(Speaker.ASKER, "?"),), max_output_tokens=1500)
    second = asyncio.create_task(role_model.ask(long, "guess"))
    await asyncio.sleep(0)
    assert len(reservations(paid_run.ledger)) == 1
    go.set()
    await asyncio.gather(first, second)
    assert len(reservations(paid_run.ledger)) == 2


async def test_settlements_of_another_process_are_noticed(tmp_path):
    paid_run = PaidRun(tmp_path, Pools(tokens=1000))
    other = PaidRun(tmp_path, Pools(tokens=1000), ledger=paid_run.ledger)
    call = other.purse.reserve("evolver", 600, 0.0)
    task = asyncio.create_task(paid_run.role_model(ScriptedModel(["this"])).ask(PROMPT, "guess"))
    await asyncio.sleep(0)
    assert not task.done()
    other.purse.settle(call, 10, 0.0)
    assert (await task).reply.text == "this"


async def test_a_call_does_not_wait_for_ever_for_calls_of_a_dead_process(tmp_path):
    paid_run = PaidRun(tmp_path, Pools(tokens=1000))
    paid_run.purse.reserve("evolver", 600, 0.0)
    role_model = paid_run.role_model(ScriptedModel(["this"]), timeout_seconds=1.0, outage_seconds=1.0)
    task = asyncio.create_task(role_model.ask(PROMPT, "guess"))
    await asyncio.sleep(0)
    paid_run.time.now += 3
    with pytest.raises(Exhausted, match="calls in flight may need the rest"):
        await task


async def test_usage_is_estimated_for_a_server_that_reports_none(tmp_path):
    paid_run = PaidRun(tmp_path)
    await paid_run.role_model(ScriptedModel([Reply("x" * 400, Usage())])).ask(PROMPT, "guess")
    assert Spend.of(paid_run.run).tokens["evolver"] > 100


async def test_the_throttle_spaces_requests_and_learns_their_real_usage(tmp_path):
    paid_run = PaidRun(tmp_path)
    throttle = Throttle(None, 1100, paid_run.time.clock, paid_run.time.sleep)
    role_model = paid_run.role_model(ScriptedModel(["a", "b", "c"], Usage(100, 300)), throttle=throttle)
    for _ in range(2):
        await role_model.ask(PROMPT, "guess")
    assert paid_run.time.now == 1000, "600 tokens were estimated, 400 used"
    await role_model.ask(PROMPT, "guess")
    assert paid_run.time.now >= 1060


async def test_a_request_that_a_cap_forbids_does_not_count_as_started(tmp_path):
    paid_run = PaidRun(tmp_path, Pools(tokens=10))
    throttle = Throttle(1, None, paid_run.time.clock, paid_run.time.sleep)
    role_model = paid_run.role_model(ScriptedModel([]), throttle=throttle)
    for _ in range(3):
        with pytest.raises(Exhausted):
            await role_model.ask(PROMPT, "guess")
    assert paid_run.time.now == 1000


async def test_a_key_gets_neither_into_files_nor_into_the_ledger_nor_into_messages(tmp_path):
    key = "sk-1234567890abcdef"
    paid_run = PaidRun(tmp_path)
    paid_run.archive.hide(key)
    prompt = Prompt(f"the key is {key}", (Message(Speaker.ASKER, key),), {"const": key}, 600)
    model = ScriptedModel([f"{key}!", ModelFault(f"401: {key} was refused", transient=False)])
    role_model = paid_run.role_model(model)
    answer = await role_model.ask(prompt, "guess")
    (sent,) = model.prompts
    assert (sent.system, sent.messages[0].text) == ("the key is [key]", "[key]"), "a log may contain a key"
    assert answer.reply.text == "[key]!", "otherwise it would get into proposals, and with them into commits"
    with pytest.raises(Outage) as caught:
        await role_model.ask(prompt, "guess")
    assert key not in str(caught.value)
    assert key not in repr([recorded.event for recorded in paid_run.ledger.read()])
    (file,) = (tmp_path / "calls").iterdir()
    assert file.read_text().count("\n") == 2
    assert key not in file.read_text()
    assert role_model.reply_of(answer.call).text == "[key]!"


@pytest.mark.parametrize(
    "usage", [Usage(-1_000_000, 5), Usage(5, -4), Usage(10**400, 1), Usage(1, 10**10), Usage(5, 5, -3)]
)
async def test_an_impossible_count_is_not_believed(tmp_path, usage):
    paid_run = PaidRun(tmp_path)
    await paid_run.role_model(ScriptedModel(["hello"], usage)).ask(PROMPT, "guess")
    (reserved,), (settled,) = reservations(paid_run.ledger), settlements(paid_run.ledger)
    assert (settled.tokens, settled.money_usd) == (reserved.tokens, reserved.money_usd)


async def test_a_reply_that_cannot_be_archived_is_paid_for_and_not_used(tmp_path):
    paid_run = PaidRun(tmp_path)
    (tmp_path / "calls").write_text("in the way")
    with pytest.raises(Misuse, match="cannot save"):
        await paid_run.role_model(ScriptedModel(["this"], Usage(5, 5))).ask(PROMPT, "guess", pool=Pool.ATTEMPT)
    assert Spend.of(paid_run.run).tokens == {"evolver": 10}
    assert Spend.of(paid_run.run).unread == {}


async def test_a_bug_in_a_model_leaves_no_call_open(tmp_path):
    def fail(_):
        raise KeyError("a bug")

    paid_run = PaidRun(tmp_path)
    with pytest.raises(KeyError):
        await paid_run.role_model(ScriptedModel(fail)).ask(PROMPT, "guess")
    assert Spend.of(paid_run.run).reservations == {}
    assert len(settlements(paid_run.ledger)) == 1


async def test_each_role_has_its_own_account(tmp_path):
    paid_run = PaidRun(tmp_path, roles=Roles(verifier=RoleBudget(tokens=100)))
    await paid_run.role_model(ScriptedModel(["a"], Usage(10, 10))).ask(PROMPT, "guess")
    with pytest.raises(Exhausted, match="for the verifier"):
        await paid_run.role_model(ScriptedModel(["b"]), role=Role.VERIFIER).ask(PROMPT, "review")
    assert Spend.of(paid_run.run).tokens == {"evolver": 20}


async def test_a_settlement_is_visible_to_others_at_once(tmp_path):
    paid_run = PaidRun(tmp_path)
    await paid_run.role_model(ScriptedModel(["a"], Usage(10, 10))).ask(PROMPT, "guess")
    assert Spend.of(Recorder(paid_run.ledger, lambda: 0.0).history.runs[1]).tokens == {"evolver": 20}
    call = settlements(paid_run.ledger)[0].call
    assert json.loads((tmp_path / "calls" / f"{call}.jsonl").read_text())["operator"] == "guess"
