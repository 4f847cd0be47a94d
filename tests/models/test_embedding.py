"""Texts as vectors: the requests, their cost, and that nothing stops when vectors are missing."""

import base64
import struct

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelSpec, Prompt, Role, Speaker, Usage
from loopty.domain.pool import Pool
from loopty.domain.role_spec import RoleBudget, Roles
from loopty.domain.task import Pools
from loopty.models.catalogue import Catalogue
from loopty.models.prices import Rates, rates_of, unknown_price
from loopty.record.calls import Spend
from loopty.testing.role_model_suite import reservations, settlements

from .server import ScriptedServer, answer, garbage, refusal
from .spending import PaidRun
from .timing import Time
from .vendor_replies import ANSWER, openai_reply

KEY = "sk-of-the-embedding-tests-0123456789"
SPEC = {"provider": "openai", "model": "embed-1", "key_env": "EMBEDDING_KEY", "outage_seconds": 0.0}


def vectors(*embeddings, **usage):
    """The body of an answer."""
    data = [
        {"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(embeddings)
    ]
    return {"object": "list", "model": "embed-1", "data": data, **({"usage": usage} if usage else {})}


def embed_each(connection):
    """Answers with a vector for every text, which holds the length of the text."""
    texts = connection.request.body["input"]
    answer(vectors(*([len(text), 1.0] for text in texts), prompt_tokens=9, total_tokens=9))(connection)


def make_embedder(paid_run, server, top, **spec):
    """An embedder with a model of this server."""
    url = f"{server.url}/v1" if server else ""
    catalogue = Catalogue(
        {"e": ModelSpec(**{**SPEC, "url": url, **spec})},
        {"EMBEDDING_KEY": KEY, "OPENAI_API_KEY": KEY},
        top,
        paid_run.time.clock,
        paid_run.time.sleep,
    )
    return catalogue.embedder("e", paid_run.purse, paid_run.archive)


@pytest.fixture
def paid_run(tmp_path):
    pytest.importorskip("pydantic_ai")
    return PaidRun(tmp_path)


async def test_a_request_goes_to_the_endpoint_for_embeddings_and_is_paid_by_the_evolver(paid_run, tmp_path):
    with ScriptedServer(embed_each) as server:
        embed = make_embedder(
            paid_run, server, tmp_path, input_usd=2.0, output_usd=8.0, settings={"dimensions": 2}
        )
        assert await embed(["abc", f"d\udc00 {KEY}"]) == [[3.0, 1.0], [8.0, 1.0]]
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == "embed-1"
    assert request.body["dimensions"] == 2
    assert request.body["input"] == ["abc", "d? [key]"], "without the key and without lone surrogates"

    (reserved,), (settled,) = reservations(paid_run.ledger), settlements(paid_run.ledger)
    assert (reserved.role, reserved.model, reserved.operator) == (Role.EVOLVER, "openai:embed-1", "embed")
    assert (reserved.node, reserved.pool) == (None, None)
    assert (settled.tokens, settled.usage, settled.failure) == (9, Usage(9), "")
    assert settled.money_usd == pytest.approx(9 * 2.0 / 1e6)
    assert Spend.of(paid_run.run).unread == {}, "the reply holds no proposal"
    (record,) = paid_run.archive.records()
    assert [message.text for message in record.prompt.messages] == ["abc", "d\udc00 [key]"]
    assert record.reply.text == "[[3.0, 1.0], [8.0, 1.0]]"


async def test_vectors_may_come_in_base64_and_without_usage(paid_run, tmp_path):
    packed = base64.b64encode(struct.pack("<2f", 0.5, -0.25)).decode()
    with ScriptedServer(answer(vectors(packed))) as server:
        assert await make_embedder(paid_run, server, tmp_path)(["some text"]) == [[0.5, -0.25]]
    assert [event.usage for event in settlements(paid_run.ledger)] == [Usage(3)]


async def test_many_texts_are_several_requests_and_each_is_paid(paid_run, tmp_path):
    texts = ["x" * length for length in range(1, 41)]
    with ScriptedServer(embed_each) as server:
        assert await make_embedder(paid_run, server, tmp_path)(texts) == [[len(text), 1.0] for text in texts]
    assert [len(request.body["input"]) for request in server.requests] == [16, 16, 8]
    assert len(settlements(paid_run.ledger)) == 3


async def test_a_failed_request_is_retried_by_the_one_retry_layer(paid_run, tmp_path):
    with ScriptedServer(refusal(503, "busy"), embed_each) as server:
        embed = make_embedder(paid_run, server, tmp_path, outage_seconds=60.0)
        assert await embed(["abc"]) == [[3.0, 1.0]]
    assert len(server.requests) == 2
    assert [bool(event.failure) for event in settlements(paid_run.ledger)] == [True, False]


@pytest.mark.parametrize(
    "behaviour",
    [
        refusal(401, f"Incorrect API key provided: {KEY}"),
        refusal(400, "maximum context length"),
        refusal(503, "down"),
        garbage,
        answer({}),
        answer({"data": None}),
        answer(["no", "object"]),
        answer(vectors()),
        answer(vectors([1.0], [2.0])),
        answer(vectors([])),
        answer(vectors(["1.0"])),
        answer(vectors([None])),
        answer(vectors([float("nan")])),
        answer(vectors([1e200])),
        answer(vectors("no base64!")),
        answer(vectors([1.0] * 10) | {"pad": "x" * 17_000_000}),
    ],
)
async def test_an_answer_without_vectors_gives_none_and_is_settled(paid_run, tmp_path, behaviour):
    with ScriptedServer(behaviour) as server:
        assert await make_embedder(paid_run, server, tmp_path)(["abc"]) is None
    assert len(server.requests) == 1
    (settled,) = settlements(paid_run.ledger)
    assert settled.failure
    assert KEY not in settled.failure
    assert Spend.of(paid_run.run).reservations == {}


async def test_vectors_of_different_lengths_give_none(paid_run, tmp_path):
    with ScriptedServer(answer(vectors([1.0, 2.0], [1.0]))) as server:
        assert await make_embedder(paid_run, server, tmp_path)(["a", "b"]) is None


async def test_a_cap_without_room_costs_no_request_and_raises_nothing(tmp_path):
    pytest.importorskip("pydantic_ai")
    paid_run = PaidRun(tmp_path, roles=Roles(evolver=RoleBudget(tokens=20)))
    with ScriptedServer(embed_each) as server:
        embed = make_embedder(paid_run, server, tmp_path)
        assert await embed(["x" * 400]) is None
        assert await embed(["abc"]) == [[3.0, 1.0]]
    assert len(server.requests) == 1


async def test_texts_longer_than_the_models_context_are_not_sent(paid_run, tmp_path):
    with ScriptedServer(embed_each) as server:
        assert await make_embedder(paid_run, server, tmp_path)(["abc", "x" * 20_000]) is None
        assert await make_embedder(paid_run, server, tmp_path, context_tokens=100)(["x" * 300]) is None
    assert server.requests == []


async def test_limits_of_the_model_hold_for_embeddings(paid_run, tmp_path):
    with ScriptedServer(embed_each) as server:
        embed = make_embedder(paid_run, server, tmp_path, requests_per_minute=1)
        for _ in range(2):
            assert await embed(["abc"])
    assert paid_run.time.now >= 1060


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            ModelSpec("anthropic", "claude"),
            "loopty cannot ask anthropic for embeddings: name a server that speaks OpenAI's",
        ),
        (ModelSpec("openai"), "has no `model`"),
        (ModelSpec("openai", "m"), "OPENAI_API_KEY"),
    ],
)
def test_a_model_that_cannot_embed_is_reported_at_the_start(tmp_path, spec, message):
    paid_run = PaidRun(tmp_path)
    with pytest.raises(Misuse, match=message) as caught:
        Catalogue({"e": spec}, {}, tmp_path).embedder("e", paid_run.purse, paid_run.archive)
    assert "'e'" in str(caught.value)


def test_a_key_is_sent_only_to_allowed_servers(tmp_path):
    paid_run, spec = PaidRun(tmp_path), {"e": ModelSpec("openai", "m", url="https://other.example/v1")}
    catalogue = Catalogue(
        spec, {"OPENAI_API_KEY": KEY}, tmp_path, key_refusal=lambda name, _: f"{name}: not there"
    )
    with pytest.raises(Misuse, match="e: not there"):
        catalogue.embedder("e", paid_run.purse, paid_run.archive)


def test_a_listed_price_of_input_is_enough_for_embeddings_only(tmp_path):
    pytest.importorskip("genai_prices")
    spec = ModelSpec("openai", "text-embedding-3-small")
    assert rates_of(spec, embeds=True) == Rates(0.02, 0.02, 0.0)
    assert unknown_price("e", spec, embeds=True) is None
    assert rates_of(spec) is None, "its output has no known price"
    paid_run = PaidRun(tmp_path, Pools(money_usd=1.0))
    make_embedder(paid_run, None, tmp_path, model="text-embedding-3-small")
    with pytest.raises(Misuse, match="money is capped for the evolver, but model e has no known price"):
        make_embedder(paid_run, None, tmp_path, model="house-model")


async def test_a_script_can_hold_vectors_and_malformed_lines_give_none(tmp_path):
    huge = f"[[1{'0' * 400}], [1]]"
    replies = ("[[1, 0], [0, 1]]", "[[1]]", "hello", huge)
    (tmp_path / "s").write_text("".join(f'{{"text": "{text}"}}\n' for text in replies))
    paid_run, time = PaidRun(tmp_path), Time()
    catalogue = Catalogue({"e": ModelSpec("scripted", file="s")}, {}, tmp_path, time.clock, time.sleep)
    embed = catalogue.embedder("e", paid_run.purse, paid_run.archive)
    assert [await embed(["a", "b"]) for _ in range(5)] == [[[1.0, 0.0], [0.0, 1.0]], None, None, None, None]
    assert {event.operator for event in reservations(paid_run.ledger)} == {"embed"}
    assert Spend.of(paid_run.run).unread == {}
    assert not any(event.pool is Pool.ATTEMPT for event in reservations(paid_run.ledger))


async def test_a_server_that_cannot_embed_can_still_answer(paid_run, tmp_path):
    def embed_nothing(connection):
        is_chat = connection.request.path.endswith("/chat/completions")
        reply = answer(openai_reply()) if is_chat else refusal(501, "This server does not support embeddings")
        reply(connection)

    with ScriptedServer(embed_nothing) as server:
        spec = ModelSpec(**{**SPEC, "url": f"{server.url}/v1", "outage_seconds": 600.0, "stream": False})
        environ = {"EMBEDDING_KEY": KEY}
        catalogue = Catalogue({"e": spec}, environ, tmp_path, paid_run.time.clock, paid_run.time.sleep)
        embed = catalogue.embedder("e", paid_run.purse, paid_run.archive)
        role_model = catalogue.role_model(Role.EVOLVER, "e", paid_run.purse, paid_run.archive)
        assert await embed(["abc"]) is None
        assert (await role_model.ask(Prompt("", (Message(Speaker.ASKER, "hello"),)), "diff")).reply.text == ANSWER


async def test_a_server_that_never_embeds_is_soon_left_alone(paid_run, tmp_path):
    with ScriptedServer(*[refusal(404, "no such path")] * 9) as server:
        embed = make_embedder(paid_run, server, tmp_path)
        assert [await embed([f"text {number}"]) for number in range(6)] == [None] * 6
    assert len(server.requests) == 3
