"""`loopty model list`: which models there are, and whether one answers."""

import json

import pytest

from .conftest import Place

KEY = "sk-a-secret-of-this-test"
MODELS = """
[models.big]
provider = "openai"
model = "a-model-of-this-test"
key_env = "LOOPTY_TEST_KEY"
input_usd = 2.0
output_usd = 8.0
requests_per_minute = 50
[models.strange]
provider = "openai"
model = "nobody-lists-this"
key_env = "LOOPTY_TEST_NO_KEY"
[models.near]
provider = "openai"
model = "anything"
url = "http://127.0.0.1:11434/v1"
[models.played]
provider = "scripted"
file = "script.jsonl"
"""
ROLES = """
[roles.evolver]
model = "big"
[roles.verifier]
model = "big"
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> Place:
    """A folder that is no repository, and the user's own configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOOPTY_TEST_KEY", KEY)
    place = Place(tmp_path / "somewhere")
    place.top.mkdir()
    return place


def configure(own: Place, text: str) -> None:
    own.write("../config/loopty/config.toml", text)


@pytest.mark.usefixtures("own")
def test_models_are_listed_with_roles_keys_and_prices_and_never_with_a_key(parameter_place):
    parameter_place.write("loopty.toml", (parameter_place.top / "loopty.toml").read_text() + MODELS + ROLES)
    listed = {model["name"]: model for model in parameter_place.json("models")}
    text = parameter_place.loopty("models").stdout
    assert KEY not in json.dumps(listed) + text
    assert (listed["big"]["roles"], listed["big"]["key"]) == (["evolver", "verifier"], "there")
    assert listed["big"]["price"]["output_usd"] == 8.0
    assert listed["big"]["requests_per_minute"] == 50
    assert listed["strange"]["key"] == "missing"
    assert "LOOPTY_TEST_NO_KEY" in listed["strange"]["problem"]
    assert listed["strange"]["price"] is None
    assert listed["near"]["key"] == listed["played"]["key"] == "not needed"
    assert "$2.00 in, $2.00 cached, $8.00 out per million tokens" in text
    assert "unknown: only tokens are counted" in text
    assert "50 requests per minute" in text
    assert "free" in text


def test_outside_a_task_it_lists_the_models_of_the_users_config_file(own):
    configure(own, MODELS)
    assert {model["name"] for model in own.json("models")} == {"big", "strange", "near", "played"}


def test_without_models_it_says_how_to_get_one(own):
    done = own.loopty("models")
    assert done.stdout == ""
    assert "[models.NAME]" in done.stderr
    assert own.json("models") == []


def test_trying_a_model_reports_its_cost(own):
    configure(own, MODELS)
    own.write(
        "../config/loopty/script.jsonl", '{"text": "ready", "usage": {"input_tokens": 9, "output_tokens": 2}}\n'
    )
    done = own.loopty("models", "--try", "played")
    assert "scripted:script answers after" in done.stdout
    assert "(9 tokens in, 2 out, $0.00)" in done.stdout
    tried = own.json("models", "--try", "played")
    assert (tried["text"], tried["money_usd"]) == ("ready", 0.0)


def test_a_model_without_an_answer_gives_one_line_and_exit_code_1(own):
    configure(own, MODELS)
    own.write("../config/loopty/script.jsonl", '{"fault": "the key was refused: set ANOTHER_KEY"}\n')
    done = own.loopty("models", "--try", "played", code=1)
    assert done.stderr.splitlines() == [
        "loopty: scripted:script gave no answer: the key was refused: set ANOTHER_KEY"
    ]


def test_a_model_without_its_key_is_not_tried(own):
    configure(own, MODELS)
    assert "set LOOPTY_TEST_NO_KEY" in own.loopty("models", "--try", "strange", code=2).stderr


def test_an_unknown_model_is_reported_in_one_line(own):
    done = own.loopty("models", "--try", "nobody", code=2)
    assert "there is no model 'nobody'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
