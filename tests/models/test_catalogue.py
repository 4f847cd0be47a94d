"""Models by name, each made once; all role models of one model share its limits."""

import asyncio
import math

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelSpec, Outage, Prompt, Role, RoleBudget, Roles, Speaker
from loopty.domain.task import Pools
from loopty.models.catalogue import Catalogue
from loopty.proposers.code.options import CodeOptions
from loopty.proposers.parameters.llm_parameters import ParametersOptions
from loopty.testing.role_model_suite import reservations

from .server import ScriptedServer, refusal
from .spending import PaidRun
from .timing import Time

PROMPT = Prompt("", (Message(Speaker.ASKER, "?"),), max_output_tokens=600)


def script_catalogue(top, **options):
    """A catalogue of scripted models, one for each name, that always reply with their name."""
    for name in options:
        (top / f"{name}.jsonl").write_text(f'{{"text": "{name}"}}\n' * 20)
    models = {name: ModelSpec("scripted", file=f"{name}.jsonl", **how) for name, how in options.items()}
    time = Time()
    return Catalogue(models, {}, top, time.clock, time.sleep), time


async def test_a_name_gives_its_model_and_paths_start_at_the_top(tmp_path):
    catalogue, _ = script_catalogue(tmp_path, fast={}, slow={})
    assert (await catalogue.model("slow").reply(PROMPT)).text == "slow"
    assert catalogue.model("fast") is catalogue.model("fast")
    assert catalogue.model("fast").name == "scripted:fast"


def test_a_provider_and_its_model_need_no_table(tmp_path):
    catalogue, _ = script_catalogue(tmp_path)
    assert catalogue.spec("openai:gpt-4o") == ModelSpec("openai", "gpt-4o")
    assert catalogue.spec("openai:org/a:b").model == "org/a:b"


def test_prompts_leave_room_for_a_reply_and_fit_the_context(tmp_path):
    models = {"near": ModelSpec("openai", "m", context_tokens=256), "far": ModelSpec("openai", "m")}
    catalogue = Catalogue(models, {}, tmp_path)
    assert 0 < catalogue.prompt_tokens("near") < 256
    longest = catalogue.prompt_tokens("far")
    assert longest + models["far"].max_output_tokens < models["far"].context_tokens
    assert CodeOptions().within(longest) == CodeOptions()
    assert ParametersOptions().within(longest) == ParametersOptions()


@pytest.mark.parametrize("name", ["fst", ":m", "openai:", ""])
def test_an_unknown_name_is_reported_with_the_known_names(tmp_path, name):
    catalogue, _ = script_catalogue(tmp_path, fast={}, slow={})
    with pytest.raises(Misuse, match="known models: fast, slow"):
        catalogue.model(name)


def test_a_missing_key_is_reported_when_the_role_model_is_made_not_when_it_is_used(tmp_path):
    paid_run = PaidRun(tmp_path)
    catalogue = Catalogue({"m": ModelSpec("openai", "gpt-4o")}, {}, tmp_path)
    with pytest.raises(Misuse, match="OPENAI_API_KEY"):
        catalogue.role_model(Role.EVOLVER, "m", paid_run.purse, paid_run.archive)


async def test_a_wrong_key_ends_the_call_at_once_and_is_recorded_nowhere(tmp_path):
    pytest.importorskip("pydantic_ai")
    key, paid_run = "sk-wrong-wrong-wrong", PaidRun(tmp_path)
    with ScriptedServer(refusal(401, f"Incorrect API key provided: {key}")) as server:
        spec = ModelSpec("openai", "gpt-4o", url=f"{server.url}/v1", key_env="MY_KEY")
        catalogue = Catalogue({"m": spec}, {"MY_KEY": key}, tmp_path)
        role_model = catalogue.role_model(Role.EVOLVER, "m", paid_run.purse, paid_run.archive)
        with pytest.raises(Outage, match="MY_KEY") as caught:
            await role_model.ask(Prompt("", (Message(Speaker.ASKER, f"is {key} a key?"),)), "guess")
    assert len(server.requests) == 1
    assert key not in str(caught.value)
    assert not any(key in path.read_text() for path in (tmp_path / "calls").iterdir())


async def test_all_role_models_of_a_model_share_its_throttle(tmp_path):
    catalogue, time = script_catalogue(tmp_path, slow={"requests_per_minute": 2}, fast={})
    paid_run = PaidRun(tmp_path)
    role_models = [
        catalogue.role_model(role, "slow", paid_run.purse, paid_run.archive)
        for role in (Role.EVOLVER, Role.VERIFIER)
    ]
    other = catalogue.role_model(Role.EVOLVER, "fast", paid_run.purse, paid_run.archive)
    await asyncio.gather(
        *(role_model.ask(PROMPT, "guess") for role_model in role_models), other.ask(PROMPT, "guess")
    )
    assert time.now == 1000
    await role_models[0].ask(PROMPT, "guess")
    assert time.now >= 1060


async def test_an_outage_that_one_role_model_sees_is_known_to_all(tmp_path):
    (tmp_path / "s").write_text('{"fault": "503: down", "transient": true}\n' * 50)
    time = Time()
    spec = ModelSpec("scripted", file="s", outage_seconds=100)
    catalogue, paid_run = Catalogue({"m": spec}, {}, tmp_path, time.clock, time.sleep), PaidRun(tmp_path)
    role_models = [
        catalogue.role_model(role, "m", paid_run.purse, paid_run.archive) for role in (Role.EVOLVER, Role.VERIFIER)
    ]
    for role_model in role_models:
        with pytest.raises(Outage, match="503: down"):
            await role_model.ask(PROMPT, "guess")
    by_role = [event.role for event in reservations(paid_run.ledger)]
    assert by_role.count("verifier") == 0, "the model is out, and was a moment ago"


def test_capped_money_without_a_price_is_refused_before_any_request(tmp_path):
    specs = {"m": ModelSpec("openai", "house-model", url="http://10.0.0.7/v1")}
    catalogue = Catalogue(specs, {}, tmp_path)
    with pytest.raises(Misuse, match="money is capped for the user, but model m has no known price"):
        catalogue.meter(Role.USER, "m", PaidRun(tmp_path, Pools(money_usd=1.0)).purse)
    catalogue.meter(Role.USER, "m", PaidRun(tmp_path, Pools(money_usd=1.0, tokens=10**6)).purse)
    role = Roles(user=RoleBudget(money_usd=1.0))
    with pytest.raises(Misuse, match=r"\[roles.user\]"):
        catalogue.meter(Role.USER, "m", PaidRun(tmp_path, roles=role).purse)
    catalogue.meter(Role.EVOLVER, "m", PaidRun(tmp_path, roles=role).purse)


def test_a_meter_and_a_role_model_of_a_model_have_the_same_name(tmp_path):
    catalogue, _ = script_catalogue(tmp_path, fast={})
    paid_run = PaidRun(tmp_path)
    assert math.isinf(paid_run.purse.remaining("evolver").tokens)
    role_model = catalogue.role_model(Role.EVOLVER, "fast", paid_run.purse, paid_run.archive)
    asyncio.run(role_model.ask(PROMPT, "guess"))
    assert [event.model for event in reservations(paid_run.ledger)] == [role_model.model]


def test_a_key_that_may_not_be_sent_is_not_given_out(tmp_path):
    specs = {
        "m": ModelSpec("openai", "gpt-4o", url="https://evil.example/v1"),
        "near": ModelSpec("scripted", "x"),
    }
    catalogue = Catalogue(
        specs, {"OPENAI_API_KEY": "sk-1"}, tmp_path, key_refusal=lambda name, spec: f"{name}: not to {spec.url}"
    )
    for get in (catalogue.key, catalogue.model):
        with pytest.raises(Misuse, match="m: not to https://evil"):
            get("m")
    assert catalogue.key("near") is None
