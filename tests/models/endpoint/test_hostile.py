"""Trials and providers that mean ill: what they try harms nobody else, and is paid for."""

import asyncio
import json

import httpx2
import pytest

from loopty.domain.model import ModelSpec, Usage
from loopty.domain.task import Pools, RoleBudget
from loopty.models.endpoint import endpoint, http_exchange, usage_reader
from loopty.models.endpoint.answer_source import HttpResponse
from loopty.models.endpoint.provider_faults import provider_fault
from loopty.models.endpoint.usage_reader import EventSplitter
from loopty.models.http import UnacceptableAnswer

from ..server import ScriptedServer, answer, endless_answer, raw_answer, refusal, stream
from ..vendor_replies import google_reply, openai_events, openai_reply
from .desk import KEY, MODEL, ServedRun, chat

CHAT, RESPONSES, GENERATE = "/v1/chat/completions", "/v1/responses", "/v1beta/models/x:generateContent"


async def test_headers_of_odd_bytes_harm_nobody(desk, server):
    async with desk.trial() as (client, door):
        headers = [(b"accept", b"\xff\xfe"), (b"anthropic-beta", b"a\tb"), (b"openai-beta", b"x=1")]
        assert (await client.post(CHAT, json=chat(), headers=headers)).status_code == 200
    assert server.requests[0].headers["openai-beta"] == "x=1"
    assert "anthropic-beta" not in server.requests[0].headers
    assert door.excuse(False) is None


@pytest.mark.parametrize("streamed", [True, False])
async def test_headers_of_the_provider_are_passed_on_where_they_are_plain_and_without_the_key(tmp_path, streamed):
    odd = {"X_Request_Id": f"{KEY}-1", "Request_Id": "\u00e9", "Retry_After": "3"}
    events = (f"data: {json.dumps(event)}\n\n" for event in openai_events() if isinstance(event, dict))
    body = "".join((*events, "data: [DONE]\n\n"))
    behaviour = (
        raw_answer(body.encode(), 200, "text/event-stream", **odd)
        if streamed
        else answer(openai_reply(), 200, **odd)
    )
    with ScriptedServer(behaviour) as server:
        async with ServedRun(tmp_path, url=f"{server.url}/v1").trial() as (client, _):
            found = await client.post(CHAT, json=chat(stream=streamed))
    assert found.status_code == 200
    assert {"request-id", "x-request-id"}.isdisjoint(found.headers)
    assert found.headers["retry-after"] == "3"


ELSEWHERE = {
    "one tool that is no list": {"tools": {"googleSearch": {}}},
    "a tool that is no object": {"tools": ["web_search"]},
    "a search without options": {"web_search_options": {}},
    "another model": {"models": ["the/dearest"], "route": "fallback"},
    "another server of the model": {"provider": {"only": ["the-dearest"]}},
    "a dearer tier": {"service_tier": "priority"},
    "what another trial left": {"previous_response_id": "resp_1"},
    "a conversation": {"conversation": {"id": "conv_1"}},
    "a stored prompt": {"prompt": {"id": "pmpt_1"}},
    "a cache of Google": {"cachedContent": "cachedContents/1"},
    "a file of the account": {"messages": [{"content": [{"type": "file", "file": {"file_id": "file-1"}}]}]},
    "a file of Anthropic": {"messages": [{"content": [{"source": {"type": "file", "file_id": "file_1"}}]}]},
    "an address in capitals": {"messages": [{"content": [{"Image_URL": {"URL": "https://example.com/x.png"}}]}]},
    "the model in capitals": {"Model": "another"},
    "the limit in capitals": {"MAX_TOKENS": 10**9},
    "the limit with letters that fold": {"max_to\u212aens": 10**9},
    "the number of answers as text": {"n": "100"},
    "the number of answers as a fraction": {"n": 99.0},
    "more answers than anybody reads": {"n": 10**9},
    "fewer answers than one": {"n": -5},
    "answers that are not shown": {"best_of": 20},
}


@pytest.mark.parametrize("more", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_a_request_leads_to_one_model_and_says_all_by_itself(desk, server, more):
    async with desk.trial() as (client, door):
        found = await client.post(CHAT, json={**chat(), **more})
    assert (found.status_code, server.requests) == (400, [])
    assert door.excuse(False) is None


async def test_the_number_of_answers_of_google_is_bounded_too(tmp_path):
    with ScriptedServer(answer(google_reply())) as server:
        desk = ServedRun(tmp_path, url=server.url, provider="google")
        async with desk.trial() as (client, _):
            for config in ({"candidateCount": "8"}, {"candidate_count": 10**9}):
                found = await client.post(GENERATE, json={"contents": [], "generationConfig": config})
                assert found.status_code == 400
            found = await client.post(GENERATE, json={"contents": [], "tools": {"googleSearch": {}}})
            assert found.status_code == 400
        assert server.requests == []


async def test_what_clients_send_as_nothing_and_at_the_usual_price_passes(desk, server):
    nothing = {"tools": [], "mcp_servers": [], "container": None, "previous_response_id": None}
    async with desk.trial() as (client, _):
        assert (await client.post(CHAT, json=chat(**nothing, service_tier="auto", n=2))).status_code == 200
    assert server.requests[0].body["model"] == MODEL


async def test_a_text_that_looks_like_a_picture_counts_as_a_text_at_the_worst(desk):
    async with desk.trial() as (client, _):
        await client.post(CHAT, json=chat("A" * 400_000))
    (reserved,) = desk.reserved
    assert reserved.tokens < 10_000
    assert reserved.max_tokens > 400_000


async def test_a_request_beyond_the_context_is_refused_and_spends_no_cap(tmp_path, server):
    desk = ServedRun(tmp_path, Pools(tokens=50_000), url=f"{server.url}/v1", context_tokens=20_000)
    async with desk.trial() as (client, door):
        found = await client.post(CHAT, json=chat("a word " * 100_000))
        assert (found.status_code, found.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert door.excuse(True) is None
    assert server.requests == []


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens": 10**400, "completion_tokens": 10**400},
        {"prompt_tokens": 10**12, "completion_tokens": 1},
    ],
)
async def test_a_provider_that_lies_about_its_usage_is_charged_as_reserved(tmp_path, told):
    reply = {**openai_reply(), "usage": told}
    with ScriptedServer(answer(reply)) as server:
        desk = ServedRun(tmp_path, url=f"{server.url}/v1", input_usd=1.0, output_usd=1.0)
        async with desk.trial() as (client, _):
            assert (await client.post(CHAT, json=chat())).status_code == 200
    assert desk.settled[0].tokens == desk.reserved[0].tokens


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens": -5, "completion_tokens": "7"},
        {"prompt_tokens": 1.5, "completion_tokens": None},
        {"prompt_tokens": [[]], "completion_tokens": {}},
    ],
)
async def test_counts_that_are_none_are_nothing(tmp_path, told):
    with ScriptedServer(answer({**openai_reply(), "usage": told})) as server:
        desk = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with desk.trial() as (client, _):
            await client.post(CHAT, json=chat())
    assert desk.settled[0].tokens >= 0


async def test_replies_are_kept_apart_by_the_headers_that_they_were_asked_with(tmp_path):
    with ScriptedServer(answer(openai_reply("odd")), answer(openai_reply("plain"))) as server:
        desk = ServedRun(tmp_path, None, RoleBudget("user"), url=f"{server.url}/v1")
        async with desk.trial() as (client, _):
            await client.post(CHAT, json=chat(temperature=0), headers={"openai-beta": "poison"})
        async with desk.trial() as (client, _):
            found = await client.post(CHAT, json=chat(temperature=0))
    assert found.json()["choices"][0]["message"]["content"] == "plain"


async def test_who_does_not_read_is_left_and_blames_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(http_exchange, "UNREAD_SECONDS", 0.2)
    event = f"data: {json.dumps({'choices': [{'delta': {'content': 'x' * 10_000}}]})}\n\n".encode()
    with ScriptedServer(endless_answer(b"", event)) as server:
        desk = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with desk.trial() as (_, door):
            reader, writer = await asyncio.open_unix_connection(desk.place)
            reader._transport.pause_reading()  # as one that is alive and does not look
            body = json.dumps(chat(stream=True)).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer {door.key}\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await asyncio.to_thread(server.left.wait, 60)
            writer.close()
    assert server.left.is_set()
    assert desk.settled[0].tokens == desk.reserved[0].tokens
    assert door.excuse(False) is None


async def test_the_requests_under_way_have_a_bounded_size_together(desk, server, monkeypatch):
    monkeypatch.setattr(http_exchange, "ALL_BODIES", 300_000)
    async with desk.trial() as (client, door):
        _, writer = await asyncio.open_unix_connection(desk.place)
        writer.write(b"POST / HTTP/1.1\r\nHost: m\r\nContent-Length: 250001\r\n\r\n" + b" " * 250_000)
        await writer.drain()

        async def refused():
            found = await client.post(CHAT, content=json.dumps(chat(" " * 100_000)))
            return found.status_code == 413

        async with asyncio.timeout(60):
            while not await refused():  # until the other one's bytes are there
                pass
        writer.close()
        async with asyncio.timeout(60):
            while await refused():
                pass
    assert door.excuse(False) is None
    assert server.requests


async def test_a_system_without_descriptors_is_waited_for(desk, monkeypatch):
    loop, failures = asyncio.get_running_loop(), [OSError(24, "Too many open files")] * 3
    real = loop.sock_accept

    async def accept(listener):
        if failures:
            raise failures.pop()
        return await real(listener)

    monkeypatch.setattr(loop, "sock_accept", accept, raising=False)
    monkeypatch.setattr(endpoint, "_PAUSE_SECONDS", 0.0)
    async with desk.trial() as (client, _):
        assert (await client.post(CHAT, json=chat())).status_code == 200
    assert not failures


async def test_an_event_without_end_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(usage_reader, "LARGEST_EVENT", 100_000)
    with ScriptedServer(endless_answer(b"data: ", b"x" * 1000)) as server:
        desk = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with desk.trial() as (client, _):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post(CHAT, json=chat(stream=True))
    assert "longer than 100,000 bytes" in desk.settled[0].failure


def test_events_are_cut_wherever_their_pieces_end():
    whole = b"data: 1\n\ndata: 2\r\n\r\n: ping\n\ndata: 3\n\n\ndata: 4"
    for size in (1, 2, 3, 5, 100):
        events = EventSplitter()
        found = [event for at in range(0, len(whole), size) for event in events.feed(whole[at : at + size])]
        assert b"".join([*found, events.rest]) == whole
        assert found[:2] == [b"data: 1\n\n", b"data: 2\r\n\r\n"]
        assert len(found) == 4


def test_an_event_that_does_not_end_is_not_looked_through_again_and_again():
    events = EventSplitter()
    for _ in range(usage_reader.LARGEST_EVENT // 100):
        events.feed(b"x" * 100)
    with pytest.raises(UnacceptableAnswer):
        events.feed(b"x" * 100)


async def test_an_answer_of_nothing_but_brackets_is_passed_on_unread(tmp_path):
    body = b'{"a":[' + b"[]," * 600_000 + b'0],"usage":{"prompt_tokens":1}}'
    with ScriptedServer(raw_answer(body, 200, "application/json")) as server:
        desk = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with desk.trial() as (client, _):
            assert (await client.post(CHAT, json=chat())).content == body
    assert desk.settled[0].usage is None


@pytest.mark.parametrize(
    "header",
    [
        "1e999",
        "-1e999",
        "nan",
        "-5",
        "9" * 5000,
        "soon",
        "Thu, 01 Jan 0001 00:00:00 GMT",
        "é",
        "1 Jan 1 1:1:1 +9999",
    ],
)
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_what_a_provider_says_of_when_to_ask_again_is_a_time_or_nothing(header, name):
    refused, stated = HttpResponse(429, {}, b""), ModelSpec("openai")
    down = provider_fault(refused, {name: header}, stated, "/v1/chat/completions", None, has_answered=True)
    assert down.retry_after_seconds in (None, 0.0)


@pytest.mark.parametrize(
    ("key", "told"), [("a-key-that-was-sent", "the key in OPENAI_API_KEY"), (None, "the server asks for a key")]
)
def test_a_key_that_was_never_sent_is_not_called_refused(key, told):
    refused, stated = HttpResponse(401, {}, b""), ModelSpec("openai")
    assert told in str(provider_fault(refused, {}, stated, "/v1/chat/completions", key, has_answered=False))


async def test_a_refusal_that_quotes_the_key_is_read_without_it(tmp_path):
    with ScriptedServer(refusal(400, f"{KEY} may not do this")) as server:
        async with ServedRun(tmp_path, url=f"{server.url}/v1").trial() as (client, _):
            found = await client.post(CHAT, json=chat())
    assert KEY not in found.text
    assert "[key] may not do this" in found.text


async def test_a_stream_is_paid_for_where_it_says_nothing_of_its_usage(tmp_path):
    events = [event for event in openai_events() if isinstance(event, str) or not event.get("usage")]
    with ScriptedServer(stream(events)) as server:
        desk = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with desk.trial() as (client, _):
            await client.post(CHAT, json=chat(stream=True))
    assert desk.settled[0].tokens == desk.reserved[0].tokens > Usage(1, 100).tokens
