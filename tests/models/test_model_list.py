"""Models are listed without a request to them."""

import pytest

from loopty.domain.model import ModelSpec, RoleBudget, Roles
from loopty.models.catalogue import client_problem, model_entries


@pytest.fixture
def entry_of(tmp_path):
    """Gives the entry of one model, where keys may not be sent to a gateway."""

    def make_entry(spec, **environ):
        (entry,) = model_entries(
            {"m": spec}, Roles(), environ, tmp_path, lambda _, s: "not there" if s.url else None
        )
        return entry

    return make_entry


def test_a_key_that_may_not_be_sent_is_distinguished_from_a_missing_key(entry_of):
    gateway = ModelSpec("openai", "x", "https://gateway.example/v1")
    entry = entry_of(gateway, OPENAI_API_KEY="sk-secret")
    assert (entry.key, entry.address, entry.problem) == ("there", "refused", "not there")
    assert "sk-secret" not in repr(entry)
    entry = entry_of(gateway)
    assert (entry.key, entry.address) == ("missing", "refused")
    assert entry.problem.startswith("model 'm' needs a key: set OPENAI_API_KEY")
    assert entry.problem.endswith("; not there")
    entry = entry_of(ModelSpec("openai", "x"), OPENAI_API_KEY="sk-secret")
    assert (entry.key, entry.address, entry.problem) == ("there", "allowed", "")


def test_no_address_is_refused_for_a_model_without_a_key(entry_of):
    for spec in (ModelSpec("openai", "x", "http://127.0.0.1:9/v1"), ModelSpec("scripted", file="s.jsonl")):
        assert (entry_of(spec).key, entry_of(spec).address) == ("not needed", "")


def test_a_model_that_a_role_names_is_listed(tmp_path):
    (entry,) = model_entries({}, Roles(user=RoleBudget("openai:x")), {}, tmp_path)
    assert (entry.name, entry.roles) == ("openai:x", ("user",))


def test_a_client_is_made_without_its_key_and_without_a_request(tmp_path):
    assert client_problem("m", ModelSpec("openai", "x"), tmp_path) is None
    assert "no provider is called 'opnai'" in client_problem("m", ModelSpec("opnai", "x"), tmp_path)
    assert "the client of google has no setting `depth`" in client_problem(
        "m", ModelSpec("google", "gemini-2.5-flash", settings={"depth": 1}), tmp_path
    )


def test_a_script_and_a_folder_of_calls_are_found_from_the_top(tmp_path):
    assert "there is no script at" in client_problem("m", ModelSpec("scripted", file="s.jsonl"), tmp_path)
    (tmp_path / "s.jsonl").write_text('{"text": "a"}\n')
    assert client_problem("m", ModelSpec("scripted", file="s.jsonl"), tmp_path) is None
    assert "there is no folder" in client_problem("m", ModelSpec("recorded", file="calls"), tmp_path)


def test_further_models_of_a_role_are_listed_with_it(tmp_path):
    roles = Roles(verifier=RoleBudget("m", {"openai:other": 0.5}))
    entries = {entry.name: entry for entry in model_entries({"m": ModelSpec("openai", "x")}, roles, {}, tmp_path)}
    assert {name: entry.roles for name, entry in entries.items()} == {
        "m": ("verifier",),
        "openai:other": ("verifier",),
    }
