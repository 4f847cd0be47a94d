"""`loopty doctor` reports models without asking them, and roles that have no effect."""

import json

import pytest

from .conftest import CODE_TASK

KEY = "sk-a-secret-of-the-doctor-tests"
MODELS = """
[models.big]
provider = "openai"
model = "gpt-5-mini"
key_env = "LOOPTY_TEST_KEY"
[models.gate]
provider = "openai"
model = "nobody-lists-this"
url = "https://gateway.invalid/v1"
key_env = "LOOPTY_TEST_KEY"
[roles.evolver]
model = "big"
[roles.user]
model = "anthropic:claude-sonnet-4-5"
"""


@pytest.fixture
def found(code_place, tmp_path, monkeypatch):
    """What the verb finds, by name, when this is added to the task."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOOPTY_TEST_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    def doctor(text: str):
        code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + text)
        done = code_place.loopty("doctor", "--json", code=None)
        assert KEY not in done.stdout + done.stderr
        return done.returncode, {row["name"]: row for row in json.loads(done.stdout)}

    return doctor


def test_each_model_is_listed_with_what_it_needs(found):
    code, rows = found(MODELS)
    facts = {name.removeprefix("model "): row["facts"] for name, row in rows.items() if name.startswith("model ")}
    assert facts == {
        "big": {
            "provider": "openai",
            "client": "there",
            "key": "there",
            "address": "allowed",
            "price": "known",
        },
        "gate": {
            "provider": "openai",
            "client": "there",
            "key": "there",
            "address": "refused",
            "price": "unknown",
        },
        "anthropic:claude-sonnet-4-5": {
            "provider": "anthropic",
            "client": facts["anthropic:claude-sonnet-4-5"]["client"],
            "key": "missing",
            "address": "allowed",
            "price": "known",
        },
    }
    assert "under [keys] in" in rows["model gate"]["detail"]
    assert "set ANTHROPIC_API_KEY" in rows["model anthropic:claude-sonnet-4-5"]["detail"]
    assert code == 1, "the user's model has no key"
    assert rows["model gate"]["needed"] is False, "no role names it"
    assert (rows["role user"]["ok"], rows["role user"]["detail"]) == (True, "anthropic:claude-sonnet-4-5")
    assert rows["role verifier"]["detail"] == "no model"
    assert "the evolver has model big, but the proposer mutate calls no model" in rows["role evolver"]["detail"]


def test_without_a_task_the_users_own_models_are_listed(found, code_place):
    code_place.write("../config/loopty/config.toml", '[models.mine]\nprovider = "scripted"\nfile = "s.jsonl"\n')
    _, rows = found("[benchmrk]\n")
    assert rows["model mine"]["facts"] == {
        "provider": "scripted",
        "file": "missing",
        "key": "not needed",
        "price": "free",
    }
    assert not [name for name in rows if name.startswith("role ")]


def test_roles_without_effect_are_reported_before_a_run(code_place, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = CODE_TASK.format(attempts=1) + '[roles.evolver]\nmodel = "openai:gpt-5-mini"\n'
    code_place.write("loopty.toml", text)
    for verb in (("run", "1", "--check"), ("optimize", "--quiet")):
        output = code_place.loopty(*verb, code=None).stderr
        assert output.count("the evolver has model openai:gpt-5-mini, but the proposer mutate calls no model") == 1
