"""Which providers can be asked, and the messages for those that cannot."""

import importlib.util
import subprocess
import sys

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelFault, ModelSpec
from loopty.kit.records import replace
from loopty.models.provider_model import make_provider_model

from .server import ScriptedServer, refusal, stream
from .test_provider_wire import KEY, SHORT, VENDORS
from .vendor_replies import ANSWER, openai_events


@pytest.mark.parametrize("provider", ["ollama", "moonshotai", "vllm"])
async def test_other_providers_of_the_library_work_the_same_way(provider):
    with ScriptedServer(stream(openai_events())) as server:
        model = make_provider_model("m", ModelSpec(provider, "their-model", url=f"{server.url}/v1"), KEY)
        assert model.name == f"{provider}:their-model"
        assert (await model.reply(SHORT)).text == ANSWER
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["accept-encoding"] == "identity"


async def test_clients_of_other_providers_do_not_retry():
    with (
        ScriptedServer(refusal(500, "no")) as server,
        pytest.raises(ModelFault, match="500: the server failed: no"),
    ):
        await make_provider_model("m", ModelSpec("ollama", "x", url=f"{server.url}/v1"), KEY).reply(SHORT)
    assert len(server.requests) == 1


def test_a_provider_with_a_fixed_address_cannot_use_another():
    assert make_provider_model("m", ModelSpec("deepseek", "x"), KEY).name == "deepseek:x"
    with pytest.raises(Misuse, match="loopty cannot control `url`, limits and retries of the client for deepseek"):
        make_provider_model("m", ModelSpec("deepseek", "x", url="http://127.0.0.1:1"), KEY)


def test_a_missing_setting_of_a_provider_is_reported_in_one_line(monkeypatch):
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    with pytest.raises(Misuse, match=r"^model 'm': .*OLLAMA_BASE_URL"):
        make_provider_model("m", ModelSpec("ollama", "x"), None)


def test_an_unknown_provider_is_refused_with_the_remedy():
    with pytest.raises(Misuse, match=r"no provider is called 'acme'; .* provider = .openai. with its `url`"):
        make_provider_model("m", ModelSpec("acme", "x"), KEY)


@pytest.mark.skipif(importlib.util.find_spec("mistralai") is not None, reason="this client is installed")
def test_a_missing_client_is_named_by_its_package():
    with pytest.raises(Misuse, match=r"needs the client of mistral: run .* 'pydantic-ai-slim\[mistral\]'"):
        make_provider_model("m", ModelSpec("mistral", "x"), KEY)


@pytest.mark.parametrize("extra", ["anthropic", "google"])
def test_a_missing_client_of_ours_is_named_by_its_extra(extra):
    package = {"anthropic": "anthropic", "google": "google.genai"}[extra]
    script = f"""
import sys
sys.modules["{package}"] = None
from loopty.domain.model import ModelSpec
from loopty.models.provider_model import make_provider_model
make_provider_model("m", ModelSpec("{extra}", "x"), "k")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert f"Misuse: model 'm' needs the client of {extra}: run {sys.executable} -m pip install" in last
    assert f"[{extra}]" in last


def test_nothing_is_imported_before_a_model_is_made():
    script = """
import sys, loopty.models.keys, loopty.models.provider_model
print(sorted({"pydantic_ai", "pydantic", "httpx2", "openai", "keyring"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_model_needs_its_name():
    with pytest.raises(Misuse, match="model 'm' has no `model`: give the name that openai uses"):
        make_provider_model("m", ModelSpec("openai"), KEY)


def test_an_unsupported_setting_is_refused():
    with pytest.raises(Misuse, match="the client of google has no setting `reasoning_effort`"):
        make_provider_model(
            "m", ModelSpec("google", "gemini-2.5-flash", settings={"reasoning_effort": "low"}), KEY
        )


async def test_no_setting_turns_on_the_clients_own_retries():
    with ScriptedServer(stream(openai_events())) as server:
        spec = replace(VENDORS[0].spec(server), settings={"max_retries": 5, "max_tokens": 5})
        await make_provider_model("m", spec, KEY).reply(SHORT)
    assert server.requests[0].body["max_tokens"] == spec.max_output_tokens
