"""Replies that are given again for nothing."""

import asyncio

import pytest

from loopty.domain.model import Usage
from loopty.domain.task import RoleBudget
from loopty.models.endpoint import cache
from loopty.record.calls import Spend

from ..server import ScriptedServer, answer, refusal, stream
from ..vendor_replies import openai_events, openai_reply
from .desk import ServedRun, chat

CHAT = "/v1/chat/completions"


@pytest.fixture
def cached(tmp_path):
    def made(server, when="auto", **limits):
        return ServedRun(tmp_path, None, RoleBudget("user", cache=when, **limits), url=f"{server.url}/v1")

    return made


async def asked(desk, *bodies):
    async with desk.trial() as (client, _):
        return [await client.post(CHAT, json=body) for body in bodies]


async def test_an_equal_request_costs_nothing_the_second_time(cached):
    with ScriptedServer(answer(openai_reply("one")), answer(openai_reply("two"))) as server:
        desk = cached(server)
        (first,) = await asked(desk, chat(temperature=0))
        (again,) = await asked(desk, {"temperature": 0, **chat(stream=False)})
        assert len(server.requests) == 1
    assert first.json() == again.json()
    assert again.headers["x-loopty-cached"] == "true"
    assert [(event.operator, event.tokens) for event in desk.reserved][1] == ("cached", 0)
    assert (desk.settled[1].usage, desk.settled[1].failure) == (Usage(), "")
    assert Spend.of(desk.run).tokens == {"user": 32}


async def test_a_stream_is_given_again_as_a_stream(cached):
    with ScriptedServer(stream(openai_events()), answer(openai_reply())) as server:
        streamed = chat(temperature=0, stream=True)
        first, again, whole = await asked(cached(server), streamed, streamed, chat(temperature=0))
        assert len(server.requests) == 2
    assert first.text == again.text
    assert again.headers["content-type"] == "text/event-stream"
    assert whole.json() == openai_reply()


async def test_only_what_would_be_answered_the_same_is_kept(cached):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = cached(server)
        drawn, seeded = chat(temperature=0.5), chat(temperature=0.5, seed=3)
        await asked(desk, drawn, drawn, chat(), chat(), seeded, seeded)
        assert len(server.requests) == 5


async def test_always_keeps_all_and_never_keeps_none(cached, tmp_path):
    with ScriptedServer(answer(openai_reply())) as server:
        await asked(cached(server, "never"), chat(temperature=0), chat(temperature=0))
        assert len(server.requests) == 2
        assert not (tmp_path / "model-cache").exists()
        await asked(cached(server, "always"), chat(), chat())
        assert len(server.requests) == 3


async def test_those_who_ask_the_same_at_once_ask_once(cached):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = cached(server)
        async with desk.trial() as (one, _), desk.trial() as (other, _):
            asking = [client.post(CHAT, json=chat(temperature=0)) for client in (one, other) * 4]
            found = await asyncio.gather(*asking)
        assert len(server.requests) == 1
    assert [reply.json() for reply in found] == [openai_reply()] * 8
    assert [event.operator for event in desk.reserved].count("cached") == 7


async def test_a_spent_cap_does_not_forbid_what_is_free(cached):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = cached(server, tokens=130)
        asked_for = chat(temperature=0)
        first, other, again = await asked(desk, asked_for, chat("other"), asked_for)
        assert [reply.status_code for reply in (first, other, again)] == [200, 429, 200]


async def test_failures_are_not_kept(cached):
    failed, endless = answer({"status": "failed", "usage": {}}), stream(openai_events()[:-1])
    with ScriptedServer(refusal(400, "no"), failed, endless, answer(openai_reply())) as server:
        desk = cached(server, "always")
        await asked(desk, chat(), chat(), chat(stream=True), chat(), chat())
        assert len(server.requests) == 4


async def test_a_damaged_reply_is_asked_for_again(cached, tmp_path):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = cached(server)
        await asked(desk, chat(temperature=0))
        (kept,) = (tmp_path / "model-cache").iterdir()
        for damage in (kept.read_bytes()[:-1], b"", b"[]\n", b"\xff"):
            kept.write_bytes(damage)
            (found,) = await asked(desk, chat(temperature=0))
            assert found.json() == openai_reply()
        assert len(server.requests) == 5


async def test_what_is_kept_is_bounded(cached, tmp_path, monkeypatch):
    large = answer(openai_reply("x" * cache.LARGEST_REPLY))
    with ScriptedServer(large, large, answer(openai_reply())) as server:
        desk = cached(server, "always")
        small = chat("small")
        await asked(desk, chat("large"), chat("large"))
        assert list((tmp_path / "model-cache").iterdir()) == []
        await asked(desk, small, small)
        monkeypatch.setattr(cache, "_ALL_REPLIES", 1)
        await asked(desk, chat("one more"), chat("one more"))
        assert len(server.requests) == 5
    assert len(list((tmp_path / "model-cache").iterdir())) == 1


async def test_a_folder_that_cannot_be_written_harms_no_trial(cached, tmp_path):
    (tmp_path / "model-cache").write_text("in the way")
    with ScriptedServer(answer(openai_reply())) as server:
        found = await asked(cached(server), chat(temperature=0))
    assert found[0].status_code == 200
