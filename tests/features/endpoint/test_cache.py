"""Cached replies are repeated for free."""

import asyncio

import pytest

from loopty.domain.model import RoleBudget, Usage
from loopty.features.endpoint import answers
from loopty.record.calls import Spend

from ...models.server import ScriptedServer, answer, refusal, stream
from ...models.vendor_replies import openai_events, openai_reply
from .served_run import ServedRun, chat

CHAT = "/v1/chat/completions"


@pytest.fixture
def serve(tmp_path):
    def make(server, when="auto", **limits):
        return ServedRun(tmp_path, None, RoleBudget("user", cache=when, **limits), url=f"{server.url}/v1")

    return make


async def ask(served, *bodies):
    async with served.trial() as (client, _):
        return [await client.post(CHAT, json=body) for body in bodies]


async def test_an_equal_request_costs_nothing_the_second_time(serve):
    with ScriptedServer(answer(openai_reply("one")), answer(openai_reply("two"))) as server:
        served = serve(server)
        (first,) = await ask(served, chat(temperature=0))
        (again,) = await ask(served, {"temperature": 0, **chat(stream=False)})
        assert len(server.requests) == 1
    assert first.json() == again.json()
    assert again.headers["x-loopty-cached"] == "true"
    assert [(event.operator, event.tokens) for event in served.reserved][1] == ("cached", 0)
    assert (served.settled[1].usage, served.settled[1].failure) == (Usage(), "")
    assert Spend.of(served.run).tokens == {"user": 32}


async def test_a_cached_stream_is_repeated_as_a_stream(serve):
    with ScriptedServer(stream(openai_events()), answer(openai_reply())) as server:
        streamed = chat(temperature=0, stream=True)
        first, again, whole = await ask(serve(server), streamed, streamed, chat(temperature=0))
        assert len(server.requests) == 2
    assert first.text == again.text
    assert again.headers["content-type"] == "text/event-stream"
    assert whole.json() == openai_reply()


async def test_only_repeatable_replies_are_cached(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server)
        random, seeded = chat(temperature=0.5), chat(temperature=0.5, seed=3)
        await ask(served, random, random, chat(), chat(), seeded, seeded)
        assert len(server.requests) == 5


async def test_cache_always_keeps_all_replies_and_cache_never_keeps_none(serve, tmp_path):
    with ScriptedServer(answer(openai_reply())) as server:
        await ask(serve(server, "never"), chat(temperature=0), chat(temperature=0))
        assert len(server.requests) == 2
        assert not (tmp_path / "model-cache").exists()
        await ask(serve(server, "always"), chat(), chat())
        assert len(server.requests) == 3


async def test_equal_concurrent_requests_are_sent_once(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server)
        async with served.trial() as (one, _), served.trial() as (other, _):
            requests = [client.post(CHAT, json=chat(temperature=0)) for client in (one, other) * 4]
            responses = await asyncio.gather(*requests)
        assert len(server.requests) == 1
    assert [response.json() for response in responses] == [openai_reply()] * 8
    assert [event.operator for event in served.reserved].count("cached") == 7


async def test_a_used_up_cap_does_not_forbid_cached_replies(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server, tokens=130)
        body = chat(temperature=0)
        first, other, again = await ask(served, body, chat("other"), body)
        assert [reply.status_code for reply in (first, other, again)] == [200, 429, 200]


async def test_failures_are_not_cached(serve):
    failed, unfinished = answer({"status": "failed", "usage": {}}), stream(openai_events()[:-1])
    with ScriptedServer(refusal(400, "no"), failed, unfinished, answer(openai_reply())) as server:
        served = serve(server, "always")
        await ask(served, chat(), chat(), chat(stream=True), chat(), chat())
        assert len(server.requests) == 4


async def test_a_damaged_cached_reply_is_requested_again(serve, tmp_path):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server)
        await ask(served, chat(temperature=0))
        (file,) = (tmp_path / "model-cache").iterdir()
        for damage in (file.read_bytes()[:-1], b"", b"[]\n", b"\xff"):
            file.write_bytes(damage)
            (response,) = await ask(served, chat(temperature=0))
            assert response.json() == openai_reply()
        assert len(server.requests) == 5


async def test_the_cache_has_a_maximum_size(serve, tmp_path, monkeypatch):
    large = answer(openai_reply("x" * answers.LARGEST_REPLY))
    with ScriptedServer(large, large, answer(openai_reply())) as server:
        served = serve(server, "always")
        small = chat("small")
        await ask(served, chat("large"), chat("large"))
        assert not (tmp_path / "model-cache").exists()
        await ask(served, small, small)
        monkeypatch.setattr(answers, "_ALL_REPLIES", 1)
        await ask(served, chat("one more"), chat("one more"))
        assert len(server.requests) == 5
    assert len(list((tmp_path / "model-cache").iterdir())) == 1


async def test_an_unwritable_cache_folder_fails_no_trial(serve, tmp_path):
    (tmp_path / "model-cache").write_text("in the way")
    with ScriptedServer(answer(openai_reply())) as server:
        responses = await ask(serve(server), chat(temperature=0))
    assert responses[0].status_code == 200
