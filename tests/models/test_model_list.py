"""What is known of models without asking them."""

import pytest

from loopty.domain.model import ModelSpec
from loopty.domain.task import RoleBudget, Roles
from loopty.models.model_factory import client_problem
from loopty.models.model_list import model_entries


@pytest.fixture
def of(tmp_path):
    """What is listed of one model, where keys may be sent to no gateway."""

    def find(stated, **environ):
        environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **environ}
        (found,) = model_entries(
            {"m": stated}, Roles(), environ, tmp_path, lambda _, s: "not there" if s.url else None
        )
        return found

    return find


def test_a_key_that_is_there_and_may_not_be_sent_is_told_apart_from_one_that_is_missing(of):
    gateway = ModelSpec("openai", "x", "https://gateway.example/v1")
    found = of(gateway, OPENAI_API_KEY="sk-secret")
    assert (found.key, found.address, found.problem) == ("there", "refused", "not there")
    assert "sk-secret" not in repr(found)
    found = of(gateway)
    assert (found.key, found.address) == ("missing", "refused")
    assert found.problem.startswith("model 'm' needs a key: set OPENAI_API_KEY")
    assert found.problem.endswith("; not there")
    found = of(ModelSpec("openai", "x"), OPENAI_API_KEY="sk-secret")
    assert (found.key, found.address, found.problem) == ("there", "allowed", "")


def test_where_no_key_is_sent_no_address_is_refused(of):
    for stated in (ModelSpec("openai", "x", "http://127.0.0.1:9/v1"), ModelSpec("scripted", file="s.jsonl")):
        assert (of(stated).key, of(stated).address) == ("not needed", "")


def test_weights_are_there_or_missing_where_the_model_is_local(of, tmp_path):
    found = of(ModelSpec("local", "smollm2"))
    assert (found.weights, found.problem) == (
        "missing",
        "the weights of smollm2 are not here yet: loopty models --fetch smollm2",
    )
    (tmp_path / "own.gguf").write_bytes(b"")
    found = of(ModelSpec("local", file="own.gguf"))
    assert (found.weights, found.problem) == ("there", "")
    assert of(ModelSpec("openai", "x")).weights == ""


def test_a_role_brings_its_model(tmp_path):
    (found,) = model_entries({}, Roles(user=RoleBudget("openai:x")), {}, tmp_path)
    assert (found.name, found.roles) == ("openai:x", ("user",))


def test_a_client_is_made_without_its_key_and_nobody_is_asked(tmp_path):
    assert client_problem("m", ModelSpec("openai", "x"), tmp_path) is None
    assert "no provider is called 'opnai'" in client_problem("m", ModelSpec("opnai", "x"), tmp_path)
    assert "the client of google has no setting `depth`" in client_problem(
        "m", ModelSpec("google", "gemini-2.5-flash", settings={"depth": 1}), tmp_path
    )


def test_a_script_and_a_folder_of_calls_are_looked_for_from_the_top(tmp_path):
    assert "there is no script at" in client_problem("m", ModelSpec("scripted", file="s.jsonl"), tmp_path)
    (tmp_path / "s.jsonl").write_text('{"text": "a"}\n')
    assert client_problem("m", ModelSpec("scripted", file="s.jsonl"), tmp_path) is None
    assert "there is no folder" in client_problem("m", ModelSpec("recorded", file="calls"), tmp_path)


def test_a_model_that_cannot_be_asked_for_vectors_is_told_before_it_is(tmp_path):
    pytest.importorskip("pydantic_ai")
    for stated in (ModelSpec("anthropic", "claude-sonnet-4-5"), ModelSpec("local", "smollm2")):
        assert "is not asked for embeddings: name a server" in client_problem("m", stated, tmp_path, embeds=True)
    assert client_problem("m", ModelSpec("openai", "text-embedding-3-small"), tmp_path, embeds=True) is None
    (tmp_path / "s.jsonl").write_text('{"text": "[[1.0]]"}\n')
    assert client_problem("m", ModelSpec("scripted", file="s.jsonl"), tmp_path, embeds=True) is None


def test_a_model_that_only_embeds_is_listed_with_its_address(tmp_path):
    found = {
        model.name: model
        for model in model_entries(
            {"near": ModelSpec("openai", "e", "http://127.0.0.1:9/v1")},
            Roles(),
            {},
            tmp_path,
            embedding_models=["near", "openai:text-embedding-3-small"],
        )
    }
    assert (found["near"].roles, found["near"].url) == (("embedding",), "http://127.0.0.1:9/v1")
    known = found["openai:text-embedding-3-small"]
    assert (known.roles, known.key) == (("embedding",), "missing")
    assert known.price, "what it costs to embed is known, though it writes nothing"
