"""A line: metered, capped, throttled, retried, kept."""

import asyncio
import json

import pytest

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.model import Message, ModelFault, ModelSpec, Outage, Prompt, Reply, Role, Speaker, Usage
from loopty.domain.task import Pools, RoleBudget, Roles
from loopty.models.meter import USEFUL_OUTPUT, RequestSize
from loopty.models.scripted_model import ScriptedModel
from loopty.models.throttle import Throttle
from loopty.record.calls import Spend
from loopty.record.recorder import Recorder
from loopty.testing.role_model_suite import PROMPT, RoleModelConformance, reservations, settlements

from .spending import RunWithModels


class TestMeteredLine(RoleModelConformance):
    @pytest.fixture
    def make_role_model(self, tmp_path):
        def make(script, cap):
            desk = RunWithModels(tmp_path, Pools(tokens=cap))
            return desk.line(ScriptedModel(script)), desk.ledger

        return make


def test_a_request_is_estimated_with_its_schema_and_bounded_by_the_context():
    stated = ModelSpec("openai", "m", max_output_tokens=4000, context_tokens=5000)
    bare = RequestSize.of_prompt(Prompt("s" * 400, (Message(Speaker.ASKER, "t" * 400),)), stated)
    assert 200 <= bare.input < 220
    assert bare.worst_input > 800
    assert bare.output == 4000
    schema = RequestSize.of_prompt(
        Prompt("s" * 400, (Message(Speaker.ASKER, "t" * 400),), {"enum": ["x" * 400]}), stated
    )
    assert schema.input > bare.input + 100
    long = RequestSize.of_prompt(Prompt("s" * 12_000, ()), stated)
    assert long.input + long.output == 5000
    assert RequestSize.of_prompt(Prompt("s" * 40_000, ()), stated).output == USEFUL_OUTPUT, (
        "the provider says whether it fits"
    )
    assert RequestSize.of_prompt(Prompt("", (), max_output_tokens=100), stated).output == 100


async def test_where_the_whole_reply_does_not_fit_a_shorter_one_is_asked_for(tmp_path):
    desk = RunWithModels(tmp_path, Pools(tokens=1000))
    model = ScriptedModel(["short"], Usage(10, 10))
    await desk.line(model).ask(Prompt("", (Message(Speaker.ASKER, "?"),)), "guess")
    (sent,) = model.prompts
    (reserved,) = reservations(desk.ledger)
    assert USEFUL_OUTPUT <= sent.max_output_tokens < 1000
    assert reserved.tokens == 1000, "all that is left"


async def test_where_money_is_short_the_reply_is_as_long_as_it_can_pay(tmp_path):
    desk = RunWithModels(tmp_path, roles=Roles(evolver=RoleBudget(money_usd=0.01)))
    model = ScriptedModel(["short"], Usage(10, 10))
    line = desk.line(model, input_usd=1.0, output_usd=10.0)
    await line.ask(Prompt("", (Message(Speaker.ASKER, "?"),)), "guess")
    assert 990 < model.prompts[0].max_output_tokens < 1000
    assert reservations(desk.ledger)[0].money_usd <= 0.01
    assert Spend.of(desk.run).money_usd == {"evolver": pytest.approx(0.00011)}


async def test_who_is_crowded_out_waits_for_a_call_to_settle(tmp_path):
    desk = RunWithModels(tmp_path, Pools(tokens=2000))
    asked, go = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def reply(self, prompt):
            asked.set()
            await go.wait()
            return await super().reply(prompt)

    line = desk.line(Slow(["one", "two"], Usage(10, 10)), max_output_tokens=1500)
    first = asyncio.create_task(line.ask(PROMPT, "guess"))
    await asked.wait()
    long = Prompt("", (Message(Speaker.ASKER, "?"),), max_output_tokens=1500)
    second = asyncio.create_task(line.ask(long, "guess"))
    await asyncio.sleep(0)
    assert len(reservations(desk.ledger)) == 1
    go.set()
    await asyncio.gather(first, second)
    assert len(reservations(desk.ledger)) == 2


async def test_what_another_process_settles_is_noticed(tmp_path):
    desk = RunWithModels(tmp_path, Pools(tokens=1000))
    other = RunWithModels(tmp_path, Pools(tokens=1000), ledger=desk.ledger)
    call = other.purse.reserve("evolver", 600, 0.0)
    asking = asyncio.create_task(desk.line(ScriptedModel(["this"])).ask(PROMPT, "guess"))
    await asyncio.sleep(0)
    assert not asking.done()
    other.purse.settle(call, 10, 0.0)
    assert (await asking).reply.text == "this"


async def test_what_a_dead_process_left_in_flight_is_not_waited_for_for_ever(tmp_path):
    desk = RunWithModels(tmp_path, Pools(tokens=1000))
    desk.purse.reserve("evolver", 600, 0.0)
    line = desk.line(ScriptedModel(["this"]), timeout_seconds=1.0, outage_seconds=1.0)
    asking = asyncio.create_task(line.ask(PROMPT, "guess"))
    await asyncio.sleep(0)
    desk.time.now += 3
    with pytest.raises(Exhausted, match="calls in flight may need the rest"):
        await asking


async def test_a_server_that_does_not_count_is_counted_for(tmp_path):
    desk = RunWithModels(tmp_path)
    await desk.line(ScriptedModel([Reply("x" * 400, Usage())])).ask(PROMPT, "guess")
    assert Spend.of(desk.run).tokens["evolver"] > 100


async def test_the_throttle_holds_requests_apart_and_learns_what_they_used(tmp_path):
    desk = RunWithModels(tmp_path)
    throttle = Throttle(None, 1100, desk.time.clock, desk.time.sleep)
    line = desk.line(ScriptedModel(["a", "b", "c"], Usage(100, 300)), throttle=throttle)
    for _ in range(2):
        await line.ask(PROMPT, "guess")
    assert desk.time.now == 1000, "600 tokens were estimated, 400 used"
    await line.ask(PROMPT, "guess")
    assert desk.time.now >= 1060


async def test_a_request_that_a_cap_forbids_does_not_count_as_started(tmp_path):
    desk = RunWithModels(tmp_path, Pools(tokens=10))
    throttle = Throttle(1, None, desk.time.clock, desk.time.sleep)
    line = desk.line(ScriptedModel([]), throttle=throttle)
    for _ in range(3):
        with pytest.raises(Exhausted):
            await line.ask(PROMPT, "guess")
    assert desk.time.now == 1000


async def test_a_key_gets_neither_into_files_nor_into_the_ledger_nor_into_words(tmp_path):
    key = "sk-1234567890abcdef"
    desk = RunWithModels(tmp_path)
    desk.archive.hide(key)
    prompt = Prompt(f"the key is {key}", (Message(Speaker.ASKER, key),), {"const": key}, 600)
    model = ScriptedModel([f"{key}!", ModelFault(f"401: {key} was refused", transient=False)])
    line = desk.line(model)
    answer = await line.ask(prompt, "guess")
    (sent,) = model.prompts
    assert (sent.system, sent.messages[0].text) == ("the key is [key]", "[key]"), "a log may hold another's key"
    assert answer.reply.text == "[key]!", "else it would get into proposals, and with them into commits"
    with pytest.raises(Outage) as caught:
        await line.ask(prompt, "guess")
    assert key not in str(caught.value)
    assert key not in repr([recorded.event for recorded in desk.ledger.read()])
    (file,) = (tmp_path / "calls").iterdir()
    assert file.read_text().count("\n") == 2
    assert key not in file.read_text()
    assert line.saved_reply(answer.call).text == "[key]!"


@pytest.mark.parametrize(
    "told", [Usage(-1_000_000, 5), Usage(5, -4), Usage(10**400, 1), Usage(1, 10**10), Usage(5, 5, -3)]
)
async def test_a_count_that_cannot_be_is_not_believed(tmp_path, told):
    desk = RunWithModels(tmp_path)
    await desk.line(ScriptedModel(["hello"], told)).ask(PROMPT, "guess")
    (reserved,), (settled,) = reservations(desk.ledger), settlements(desk.ledger)
    assert (settled.tokens, settled.money_usd) == (reserved.tokens, reserved.money_usd)


async def test_a_reply_that_cannot_be_kept_is_paid_for_and_not_to_be_read(tmp_path):
    desk = RunWithModels(tmp_path)
    (tmp_path / "calls").write_text("in the way")
    with pytest.raises(Misuse, match="cannot keep"):
        await desk.line(ScriptedModel(["this"], Usage(5, 5))).ask(PROMPT, "guess", pool="attempt")
    assert Spend.of(desk.run).tokens == {"evolver": 10}
    assert Spend.of(desk.run).unread == {}


async def test_a_bug_in_a_model_leaves_no_call_open(tmp_path):
    def broken(_):
        raise KeyError("a bug")

    desk = RunWithModels(tmp_path)
    with pytest.raises(KeyError):
        await desk.line(ScriptedModel(broken)).ask(PROMPT, "guess")
    assert Spend.of(desk.run).reservations == {}
    assert len(settlements(desk.ledger)) == 1


async def test_roles_have_accounts_of_their_own(tmp_path):
    desk = RunWithModels(tmp_path, roles=Roles(verifier=RoleBudget(tokens=100)))
    await desk.line(ScriptedModel(["a"], Usage(10, 10))).ask(PROMPT, "guess")
    with pytest.raises(Exhausted, match="for the verifier"):
        await desk.line(ScriptedModel(["b"]), role=Role.VERIFIER).ask(PROMPT, "review")
    assert Spend.of(desk.run).tokens == {"evolver": 20}


async def test_what_is_settled_is_seen_by_others_at_once(tmp_path):
    desk = RunWithModels(tmp_path)
    await desk.line(ScriptedModel(["a"], Usage(10, 10))).ask(PROMPT, "guess")
    assert Spend.of(Recorder(desk.ledger, lambda: 0.0).history.runs[1]).tokens == {"evolver": 20}
    call = settlements(desk.ledger)[0].call
    assert json.loads((tmp_path / "calls" / f"{call}.jsonl").read_text())["operator"] == "guess"
