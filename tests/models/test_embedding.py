"""Texts as vectors: what a server is asked, what is paid for it, and that want of them stops nobody."""

import base64
import struct

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelSpec, Prompt, Role, Speaker, Usage
from loopty.domain.pool import Pool
from loopty.domain.task import Pools, RoleBudget, Roles
from loopty.models.catalogue import Catalogue
from loopty.models.prices import Rates, rates_of, unknown_price
from loopty.record.calls import Spend
from loopty.testing.role_model_suite import reservations, settlements

from .server import ScriptedServer, answer, garbage, refusal
from .spending import RunWithModels
from .timing import Time
from .vendor_replies import ANSWER, openai_reply

KEY = "sk-of-the-embedding-tests-0123456789"
PLACE = {"provider": "openai", "model": "embed-1", "key_env": "EMBEDDING_KEY", "outage_seconds": 0.0}


def vectors(*given, **usage):
    """The body of an answer."""
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(given)]
    return {"object": "list", "model": "embed-1", "data": data, **({"usage": usage} if usage else {})}


def each(connection):
    """A vector for every text, with how long the text is in it."""
    texts = connection.request.body["input"]
    answer(vectors(*([len(text), 1.0] for text in texts), prompt_tokens=9, total_tokens=9))(connection)


def embedding(desk, server, top, **stated):
    """An embedder over a model of that server."""
    url = f"{server.url}/v1" if server else ""
    catalogue = Catalogue(
        {"e": ModelSpec(**{**PLACE, "url": url, **stated})},
        {"EMBEDDING_KEY": KEY, "OPENAI_API_KEY": KEY},
        top,
        desk.time.clock,
        desk.time.sleep,
    )
    return catalogue.embedder("e", desk.purse, desk.archive)


@pytest.fixture
def desk(tmp_path):
    pytest.importorskip("pydantic_ai")
    return RunWithModels(tmp_path)


async def test_a_request_goes_to_the_endpoint_for_embeddings_and_is_paid_by_the_evolver(desk, tmp_path):
    with ScriptedServer(each) as server:
        embed = embedding(desk, server, tmp_path, input_usd=2.0, output_usd=8.0, settings={"dimensions": 2})
        assert await embed(["abc", f"d\udc00 {KEY}"]) == [[3.0, 1.0], [8.0, 1.0]]
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == "embed-1"
    assert request.body["dimensions"] == 2
    assert request.body["input"] == ["abc", "d? [key]"], "a key goes to nobody, nor half a letter"

    (reserved,), (settled,) = reservations(desk.ledger), settlements(desk.ledger)
    assert (reserved.role, reserved.model, reserved.operator) == (Role.EVOLVER, "openai:embed-1", "embed")
    assert (reserved.node, reserved.pool) == (None, None)
    assert (settled.tokens, settled.usage, settled.failure) == (9, Usage(9), "")
    assert settled.money_usd == pytest.approx(9 * 2.0 / 1e6)
    assert Spend.of(desk.run).unread == {}, "it holds no proposal"
    (kept,) = desk.archive.records()
    assert [turn.text for turn in kept.prompt.messages] == ["abc", "d\udc00 [key]"]
    assert kept.reply.text == "[[3.0, 1.0], [8.0, 1.0]]"


async def test_vectors_may_come_packed_and_uncounted(desk, tmp_path):
    packed = base64.b64encode(struct.pack("<2f", 0.5, -0.25)).decode()
    with ScriptedServer(answer(vectors(packed))) as server:
        assert await embedding(desk, server, tmp_path)(["some text"]) == [[0.5, -0.25]]
    assert [event.usage for event in settlements(desk.ledger)] == [Usage(3)]


async def test_many_texts_are_several_requests_of_which_each_is_paid(desk, tmp_path):
    texts = ["x" * length for length in range(1, 41)]
    with ScriptedServer(each) as server:
        assert await embedding(desk, server, tmp_path)(texts) == [[len(text), 1.0] for text in texts]
    assert [len(request.body["input"]) for request in server.requests] == [16, 16, 8]
    assert len(settlements(desk.ledger)) == 3


async def test_a_request_that_fails_is_repeated_in_the_one_layer_that_does(desk, tmp_path):
    with ScriptedServer(refusal(503, "busy"), each) as server:
        embed = embedding(desk, server, tmp_path, outage_seconds=60.0)
        assert await embed(["abc"]) == [[3.0, 1.0]]
    assert len(server.requests) == 2
    assert [bool(event.failure) for event in settlements(desk.ledger)] == [True, False]


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
async def test_what_gives_no_vectors_gives_none_and_is_settled(desk, tmp_path, behaviour):
    with ScriptedServer(behaviour) as server:
        assert await embedding(desk, server, tmp_path)(["abc"]) is None
    assert len(server.requests) == 1
    (settled,) = settlements(desk.ledger)
    assert settled.failure
    assert KEY not in settled.failure
    assert Spend.of(desk.run).reservations == {}


async def test_vectors_of_different_lengths_in_one_answer_are_none(desk, tmp_path):
    with ScriptedServer(answer(vectors([1.0, 2.0], [1.0]))) as server:
        assert await embedding(desk, server, tmp_path)(["a", "b"]) is None


async def test_a_cap_without_room_costs_no_request_and_raises_nothing(tmp_path):
    pytest.importorskip("pydantic_ai")
    desk = RunWithModels(tmp_path, roles=Roles(evolver=RoleBudget(tokens=20)))
    with ScriptedServer(each) as server:
        embed = embedding(desk, server, tmp_path)
        assert await embed(["x" * 400]) is None
        assert await embed(["abc"]) == [[3.0, 1.0]]
    assert len(server.requests) == 1


async def test_what_is_longer_than_the_model_sees_is_not_asked_for(desk, tmp_path):
    with ScriptedServer(each) as server:
        assert await embedding(desk, server, tmp_path)(["abc", "x" * 20_000]) is None
        assert await embedding(desk, server, tmp_path, context_tokens=100)(["x" * 300]) is None
    assert server.requests == []


async def test_limits_of_the_model_hold_for_embeddings(desk, tmp_path):
    with ScriptedServer(each) as server:
        embed = embedding(desk, server, tmp_path, requests_per_minute=1)
        for _ in range(2):
            assert await embed(["abc"])
    assert desk.time.now >= 1060


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        (
            ModelSpec("anthropic", "claude"),
            "anthropic is not asked for embeddings: name a server that speaks OpenAI's",
        ),
        (ModelSpec("local", "smollm2"), "local is not asked for embeddings"),
        (ModelSpec("openai"), "has no `model`"),
        (ModelSpec("openai", "m"), "OPENAI_API_KEY"),
    ],
)
def test_a_model_that_cannot_be_asked_is_told_at_the_start(tmp_path, stated, told):
    desk = RunWithModels(tmp_path)
    with pytest.raises(Misuse, match=told) as caught:
        Catalogue({"e": stated}, {}, tmp_path).embedder("e", desk.purse, desk.archive)
    assert "'e'" in str(caught.value)


def test_a_key_goes_only_where_it_may(tmp_path):
    desk, stated = RunWithModels(tmp_path), {"e": ModelSpec("openai", "m", url="https://other.example/v1")}
    catalogue = Catalogue(
        stated, {"OPENAI_API_KEY": KEY}, tmp_path, key_refusal=lambda name, _: f"{name}: not there"
    )
    with pytest.raises(Misuse, match="e: not there"):
        catalogue.embedder("e", desk.purse, desk.archive)


def test_a_listed_price_of_what_is_read_is_enough_and_of_nothing_else(tmp_path):
    pytest.importorskip("genai_prices")
    stated = ModelSpec("openai", "text-embedding-3-small")
    assert rates_of(stated, embeds=True) == Rates(0.02, 0.02, 0.0)
    assert unknown_price("e", stated, embeds=True) is None
    assert rates_of(stated) is None, "what it would write has no known price"
    desk = RunWithModels(tmp_path, Pools(money_usd=1.0))
    embedding(desk, None, tmp_path, model="text-embedding-3-small")
    with pytest.raises(Misuse, match="money is capped for the evolver, but model e has no known price"):
        embedding(desk, None, tmp_path, model="house-model")


async def test_a_script_may_hold_vectors_and_what_is_none_in_it_is_none(tmp_path):
    huge = f"[[1{'0' * 400}], [1]]"
    replies = ("[[1, 0], [0, 1]]", "[[1]]", "hello", huge)
    (tmp_path / "s").write_text("".join(f'{{"text": "{text}"}}\n' for text in replies))
    desk, time = RunWithModels(tmp_path), Time()
    catalogue = Catalogue({"e": ModelSpec("scripted", file="s")}, {}, tmp_path, time.clock, time.sleep)
    embed = catalogue.embedder("e", desk.purse, desk.archive)
    assert [await embed(["a", "b"]) for _ in range(5)] == [[[1.0, 0.0], [0.0, 1.0]], None, None, None, None]
    assert {event.operator for event in reservations(desk.ledger)} == {"embed"}
    assert Spend.of(desk.run).unread == {}
    assert not any(event.pool is Pool.ATTEMPT for event in reservations(desk.ledger))


async def test_a_server_that_embeds_nothing_does_not_keep_its_model_from_answering(desk, tmp_path):
    def behave(connection):
        chats = connection.request.path.endswith("/chat/completions")
        reply = answer(openai_reply()) if chats else refusal(501, "This server does not support embeddings")
        reply(connection)

    with ScriptedServer(behave) as server:
        stated = ModelSpec(**{**PLACE, "url": f"{server.url}/v1", "outage_seconds": 600.0, "stream": False})
        environ = {"EMBEDDING_KEY": KEY}
        catalogue = Catalogue({"e": stated}, environ, tmp_path, desk.time.clock, desk.time.sleep)
        embed = catalogue.embedder("e", desk.purse, desk.archive)
        line = catalogue.role_model(Role.EVOLVER, "e", desk.purse, desk.archive)
        assert await embed(["abc"]) is None
        assert (await line.ask(Prompt("", (Message(Speaker.ASKER, "hello"),)), "diff")).reply.text == ANSWER


async def test_a_server_that_never_embeds_is_soon_not_asked_any_more(desk, tmp_path):
    with ScriptedServer(*[refusal(404, "no such path")] * 9) as server:
        embed = embedding(desk, server, tmp_path)
        assert [await embed([f"text {number}"]) for number in range(6)] == [None] * 6
    assert len(server.requests) == 3
