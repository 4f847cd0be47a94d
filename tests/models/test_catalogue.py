"""Names to models, each made once; all lines to one share its limits."""

import asyncio
import math

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelSpec, Outage, Prompt, Role, Speaker
from loopty.domain.task import Pools, RoleBudget, Roles
from loopty.models.catalogue import Catalogue
from loopty.proposers.code.code_options import CodeOptions
from loopty.proposers.parameters.parameters_options import ParametersOptions
from loopty.testing.role_model_suite import reservations

from . import tiny_gguf
from .server import ScriptedServer, refusal
from .spending import RunWithModels
from .timing import Time

PROMPT = Prompt("", (Message(Speaker.ASKER, "?"),), max_output_tokens=600)


def scripts(top, **stated):
    """A catalogue of scripted models, one for each name; each says its name again and again."""
    for name in stated:
        (top / f"{name}.jsonl").write_text(f'{{"text": "{name}"}}\n' * 20)
    models = {name: ModelSpec("scripted", file=f"{name}.jsonl", **how) for name, how in stated.items()}
    time = Time()
    return Catalogue(models, {}, top, time.clock, time.sleep), time


async def test_a_name_leads_to_its_model_and_paths_begin_at_the_top(tmp_path):
    catalogue, _ = scripts(tmp_path, fast={}, slow={})
    assert (await catalogue.model("slow").reply(PROMPT)).text == "slow"
    assert catalogue.model("fast") is catalogue.model("fast")
    assert catalogue.model("fast").name == "scripted:fast"


def test_a_provider_and_its_model_need_no_table(tmp_path):
    catalogue, _ = scripts(tmp_path)
    assert catalogue.spec("openai:gpt-4o") == ModelSpec("openai", "gpt-4o")
    assert catalogue.spec("openai:org/a:b").model == "org/a:b"


def test_prompts_leave_room_for_a_reply_and_keep_to_what_a_file_was_trained_for(tmp_path):
    file = tiny_gguf.write_model(tmp_path / "tiny.gguf")
    catalogue = Catalogue(
        {"tiny": ModelSpec("local", file=file.name), "far": ModelSpec("openai", "m")}, {}, tmp_path
    )
    assert 0 < catalogue.prompt_tokens("tiny") < tiny_gguf.CONTEXT
    most = catalogue.prompt_tokens("far")
    assert most + ModelSpec("openai").max_output_tokens < ModelSpec("openai").window_tokens
    assert CodeOptions().within(most) == CodeOptions()
    assert ParametersOptions().within(most) == ParametersOptions()


@pytest.mark.parametrize("name", ["fst", ":m", "openai:", ""])
def test_an_unknown_name_is_told_the_known_ones(tmp_path, name):
    catalogue, _ = scripts(tmp_path, fast={}, slow={})
    with pytest.raises(Misuse, match="known are fast, slow"):
        catalogue.model(name)


def test_a_missing_key_is_said_when_the_line_is_made_not_when_it_is_used(tmp_path):
    desk = RunWithModels(tmp_path)
    catalogue = Catalogue({"m": ModelSpec("openai", "gpt-4o")}, {}, tmp_path)
    with pytest.raises(Misuse, match="OPENAI_API_KEY"):
        catalogue.role_model(Role.EVOLVER, "m", desk.purse, desk.archive)


async def test_a_wrong_key_ends_it_at_once_and_is_written_down_nowhere(tmp_path):
    pytest.importorskip("pydantic_ai")
    key, desk = "sk-wrong-wrong-wrong", RunWithModels(tmp_path)
    with ScriptedServer(refusal(401, f"Incorrect API key provided: {key}")) as server:
        stated = ModelSpec("openai", "gpt-4o", url=f"{server.url}/v1", key_env="MY_KEY")
        catalogue = Catalogue({"m": stated}, {"MY_KEY": key}, tmp_path)
        line = catalogue.role_model(Role.EVOLVER, "m", desk.purse, desk.archive)
        with pytest.raises(Outage, match="MY_KEY") as caught:
            await line.ask(Prompt("", (Message(Speaker.ASKER, f"is {key} a key?"),)), "guess")
    assert len(server.requests) == 1
    assert key not in str(caught.value)
    assert not any(key in path.read_text() for path in (tmp_path / "calls").iterdir())


async def test_all_lines_to_a_model_share_its_throttle(tmp_path):
    catalogue, time = scripts(tmp_path, slow={"requests_per_minute": 2}, fast={})
    desk = RunWithModels(tmp_path)
    lines = [
        catalogue.role_model(role, "slow", desk.purse, desk.archive) for role in (Role.EVOLVER, Role.VERIFIER)
    ]
    other = catalogue.role_model(Role.EVOLVER, "fast", desk.purse, desk.archive)
    await asyncio.gather(*(line.ask(PROMPT, "guess") for line in lines), other.ask(PROMPT, "guess"))
    assert time.now == 1000
    await lines[0].ask(PROMPT, "guess")
    assert time.now >= 1060


async def test_an_outage_that_one_line_found_is_known_to_all(tmp_path):
    (tmp_path / "s").write_text('{"fault": "503: down", "transient": true}\n' * 50)
    time = Time()
    stated = ModelSpec("scripted", file="s", outage_seconds=100)
    catalogue, desk = Catalogue({"m": stated}, {}, tmp_path, time.clock, time.sleep), RunWithModels(tmp_path)
    lines = [catalogue.role_model(role, "m", desk.purse, desk.archive) for role in (Role.EVOLVER, Role.VERIFIER)]
    for line in lines:
        with pytest.raises(Outage, match="503: down"):
            await line.ask(PROMPT, "guess")
    by_role = [event.role for event in reservations(desk.ledger)]
    assert by_role.count("verifier") == 0, "it is out, and was a moment ago"


def test_capped_money_and_no_price_is_refused_before_anything_is_asked(tmp_path):
    stated = {"m": ModelSpec("openai", "house-model", url="http://10.0.0.7/v1")}
    catalogue = Catalogue(stated, {}, tmp_path)
    with pytest.raises(Misuse, match="money is capped for the user, but model m has no known price"):
        catalogue.meter(Role.USER, "m", RunWithModels(tmp_path, Pools(money_usd=1.0)).purse)
    catalogue.meter(Role.USER, "m", RunWithModels(tmp_path, Pools(money_usd=1.0, tokens=10**6)).purse)
    role = Roles(user=RoleBudget(money_usd=1.0))
    with pytest.raises(Misuse, match=r"\[roles.user\]"):
        catalogue.meter(Role.USER, "m", RunWithModels(tmp_path, roles=role).purse)
    catalogue.meter(Role.EVOLVER, "m", RunWithModels(tmp_path, roles=role).purse)


def test_a_meter_and_the_line_of_a_model_have_the_same_name(tmp_path):
    catalogue, _ = scripts(tmp_path, fast={})
    desk = RunWithModels(tmp_path)
    assert math.isinf(desk.purse.remaining("evolver").tokens)
    line = catalogue.role_model(Role.EVOLVER, "fast", desk.purse, desk.archive)
    asyncio.run(line.ask(PROMPT, "guess"))
    assert [event.model for event in reservations(desk.ledger)] == [line.model]


def test_a_key_that_may_not_be_sent_is_not_handed_out(tmp_path):
    stated = {
        "m": ModelSpec("openai", "gpt-4o", url="https://evil.example/v1"),
        "near": ModelSpec("scripted", "x"),
    }
    catalogue = Catalogue(
        stated, {"OPENAI_API_KEY": "sk-1"}, tmp_path, key_refusal=lambda name, found: f"{name}: not to {found.url}"
    )
    for wanted in (catalogue.key, catalogue.model):
        with pytest.raises(Misuse, match="m: not to https://evil"):
            wanted("m")
    assert catalogue.key("near") is None
