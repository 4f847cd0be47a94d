"""Hostile trials and providers: they harm nobody else, and what they use is paid for."""

import asyncio
import json

import httpx2
import pytest

from loopty.domain.model import ModelSpec, RoleBudget, Usage
from loopty.domain.task import Pools
from loopty.features.endpoint import endpoint, http_exchange, usage_reader
from loopty.features.endpoint.answers import HttpResponse
from loopty.features.endpoint.provider_faults import provider_fault
from loopty.features.endpoint.usage_reader import EventSplitter
from loopty.models.http import UnacceptableAnswer

from ...models.server import ScriptedServer, answer, endless_answer, raw_answer, refusal, stream
from ...models.vendor_replies import google_reply, openai_events, openai_reply
from .served_run import KEY, MODEL, ServedRun, chat

CHAT, RESPONSES, GENERATE = "/v1/chat/completions", "/v1/responses", "/v1beta/models/x:generateContent"


async def test_headers_with_odd_bytes_do_no_harm(served, server):
    async with served.trial() as (client, access):
        headers = [(b"accept", b"\xff\xfe"), (b"anthropic-beta", b"a\tb"), (b"openai-beta", b"x=1")]
        assert (await client.post(CHAT, json=chat(), headers=headers)).status_code == 200
    assert server.requests[0].headers["openai-beta"] == "x=1"
    assert "anthropic-beta" not in server.requests[0].headers
    assert access.excuse(False) is None


@pytest.mark.parametrize("streamed", [True, False])
async def test_plain_headers_of_the_provider_are_passed_on_without_the_key(tmp_path, streamed):
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
            response = await client.post(CHAT, json=chat(stream=streamed))
    assert response.status_code == 200
    assert {"request-id", "x-request-id"}.isdisjoint(response.headers)
    assert response.headers["retry-after"] == "3"


FORBIDDEN = {
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


@pytest.mark.parametrize("options", FORBIDDEN.values(), ids=FORBIDDEN)
async def test_a_request_is_self_contained_and_for_one_model(served, server, options):
    async with served.trial() as (client, access):
        response = await client.post(CHAT, json={**chat(), **options})
    assert (response.status_code, server.requests) == (400, [])
    assert access.excuse(False) is None


async def test_googles_number_of_answers_is_limited_too(tmp_path):
    with ScriptedServer(answer(google_reply())) as server:
        served = ServedRun(tmp_path, url=server.url, provider="google")
        async with served.trial() as (client, _):
            for config in ({"candidateCount": "8"}, {"candidate_count": 10**9}):
                response = await client.post(GENERATE, json={"contents": [], "generationConfig": config})
                assert response.status_code == 400
            response = await client.post(GENERATE, json={"contents": [], "tools": {"googleSearch": {}}})
            assert response.status_code == 400
        assert server.requests == []


async def test_empty_options_and_the_usual_service_tier_pass(served, server):
    nothing = {"tools": [], "mcp_servers": [], "container": None, "previous_response_id": None}
    async with served.trial() as (client, _):
        assert (await client.post(CHAT, json=chat(**nothing, service_tier="auto", n=2))).status_code == 200
    assert server.requests[0].body["model"] == MODEL


async def test_a_text_that_looks_like_a_picture_counts_as_text_in_the_maximum(served):
    async with served.trial() as (client, _):
        await client.post(CHAT, json=chat("A" * 400_000))
    (reserved,) = served.reserved
    assert reserved.tokens < 10_000
    assert reserved.max_tokens > 400_000


async def test_a_request_beyond_the_context_is_refused_and_costs_nothing(tmp_path, server):
    served = ServedRun(tmp_path, Pools(tokens=50_000), url=f"{server.url}/v1", context_tokens=20_000)
    async with served.trial() as (client, access):
        response = await client.post(CHAT, json=chat("a word " * 100_000))
        assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert access.excuse(True) is None
    assert server.requests == []


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10**400, "completion_tokens": 10**400},
        {"prompt_tokens": 10**12, "completion_tokens": 1},
    ],
)
async def test_a_provider_that_reports_impossible_usage_is_charged_as_reserved(tmp_path, usage):
    reply = {**openai_reply(), "usage": usage}
    with ScriptedServer(answer(reply)) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1", input_usd=1.0, output_usd=1.0)
        async with served.trial() as (client, _):
            assert (await client.post(CHAT, json=chat())).status_code == 200
    assert served.settled[0].tokens == served.reserved[0].tokens


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": "7"},
        {"prompt_tokens": 1.5, "completion_tokens": None},
        {"prompt_tokens": [[]], "completion_tokens": {}},
    ],
)
async def test_malformed_counts_count_as_nothing(tmp_path, usage):
    with ScriptedServer(answer({**openai_reply(), "usage": usage})) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with served.trial() as (client, _):
            await client.post(CHAT, json=chat())
    assert served.settled[0].tokens >= 0


async def test_replies_are_cached_separately_by_request_headers(tmp_path):
    with ScriptedServer(answer(openai_reply("odd")), answer(openai_reply("plain"))) as server:
        served = ServedRun(tmp_path, None, RoleBudget("user"), url=f"{server.url}/v1")
        async with served.trial() as (client, _):
            await client.post(CHAT, json=chat(temperature=0), headers={"openai-beta": "poison"})
        async with served.trial() as (client, _):
            response = await client.post(CHAT, json=chat(temperature=0))
    assert response.json()["choices"][0]["message"]["content"] == "plain"


async def test_a_client_that_does_not_read_is_disconnected_and_no_outage_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(http_exchange, "UNREAD_SECONDS", 0.2)
    event = f"data: {json.dumps({'choices': [{'delta': {'content': 'x' * 10_000}}]})}\n\n".encode()
    with ScriptedServer(endless_answer(b"", event)) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with served.trial() as (_, access):
            reader, writer = await asyncio.open_unix_connection(served.place)
            reader._transport.pause_reading()  # like a client that is alive but does not read
            body = json.dumps(chat(stream=True)).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer {access.key}\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await asyncio.to_thread(server.left.wait, 60)
            writer.close()
    assert server.left.is_set()
    assert served.settled[0].tokens == served.reserved[0].tokens
    assert access.excuse(False) is None


async def test_all_requests_in_progress_have_a_maximum_total_size(served, server, monkeypatch):
    monkeypatch.setattr(http_exchange, "ALL_BODIES", 300_000)
    async with served.trial() as (client, access):
        _, writer = await asyncio.open_unix_connection(served.place)
        writer.write(b"POST / HTTP/1.1\r\nHost: m\r\nContent-Length: 250001\r\n\r\n" + b" " * 250_000)
        await writer.drain()

        async def refused():
            response = await client.post(CHAT, content=json.dumps(chat(" " * 100_000)))
            return response.status_code == 413

        async with asyncio.timeout(60):
            while not await refused():  # until the other request's bytes have arrived
                pass
        writer.close()
        async with asyncio.timeout(60):
            while await refused():
                pass
    assert access.excuse(False) is None
    assert server.requests


async def test_a_body_of_tiny_chunks_is_refused_and_holds_nobody_up(served, server):
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served.trial():
        reader, writer = await asyncio.open_unix_connection(served.place)
        writer.write(head + b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n")
        turns = 0
        answer = asyncio.ensure_future(reader.read())
        while not answer.done():
            turns += 1
            await asyncio.sleep(0)
        writer.close()
    assert b"413" in answer.result().split(b"\r\n")[0]
    assert b"more than 20000 chunks" in answer.result()
    assert turns > 100
    assert not server.requests


async def test_a_lack_of_file_descriptors_is_waited_out(served, monkeypatch):
    loop, failures = asyncio.get_running_loop(), [OSError(24, "Too many open files")] * 3
    real = loop.sock_accept

    async def accept(listener):
        if failures:
            raise failures.pop()
        return await real(listener)

    monkeypatch.setattr(loop, "sock_accept", accept, raising=False)
    monkeypatch.setattr(endpoint, "_PAUSE_SECONDS", 0.0)
    async with served.trial() as (client, _):
        assert (await client.post(CHAT, json=chat())).status_code == 200
    assert not failures


async def test_an_endless_event_is_abandoned(tmp_path, monkeypatch):
    monkeypatch.setattr(usage_reader, "LARGEST_EVENT", 100_000)
    with ScriptedServer(endless_answer(b"data: ", b"x" * 1000)) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with served.trial() as (client, _):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post(CHAT, json=chat(stream=True))
    assert "longer than 100,000 bytes" in served.settled[0].failure


def test_events_are_split_wherever_the_pieces_end():
    whole = b"data: 1\n\ndata: 2\r\n\r\n: ping\n\ndata: 3\n\n\ndata: 4"
    for size in (1, 2, 3, 5, 100):
        events = EventSplitter()
        split = [event for at in range(0, len(whole), size) for event in events.feed(whole[at : at + size])]
        assert b"".join([*split, events.rest]) == whole
        assert split[:2] == [b"data: 1\n\n", b"data: 2\r\n\r\n"]
        assert len(split) == 4


def test_an_endless_event_is_not_searched_again_and_again():
    events = EventSplitter()
    for _ in range(usage_reader.LARGEST_EVENT // 100):
        events.feed(b"x" * 100)
    with pytest.raises(UnacceptableAnswer):
        events.feed(b"x" * 100)


async def test_an_answer_of_only_brackets_is_passed_on_unparsed(tmp_path):
    body = b'{"a":[' + b"[]," * 600_000 + b'0],"usage":{"prompt_tokens":1}}'
    with ScriptedServer(raw_answer(body, 200, "application/json")) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with served.trial() as (client, _):
            assert (await client.post(CHAT, json=chat())).content == body
    assert served.settled[0].usage is None


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
def test_an_odd_retry_after_header_gives_no_wait(header, name):
    refused, spec = HttpResponse(429, {}, b""), ModelSpec("openai")
    fault = provider_fault(refused, {name: header}, spec, "/v1/chat/completions", None, has_answered=True)
    assert fault.retry_after_seconds in (None, 0.0)


@pytest.mark.parametrize(
    ("key", "message"), [("a-key-that-was-sent", "the key in OPENAI_API_KEY"), (None, "the server asks for a key")]
)
def test_a_key_that_was_never_sent_is_not_reported_as_refused(key, message):
    refused, spec = HttpResponse(401, {}, b""), ModelSpec("openai")
    assert message in str(provider_fault(refused, {}, spec, "/v1/chat/completions", key, has_answered=False))


async def test_a_refusal_that_quotes_the_key_is_passed_on_without_it(tmp_path):
    with ScriptedServer(refusal(400, f"{KEY} may not do this")) as server:
        async with ServedRun(tmp_path, url=f"{server.url}/v1").trial() as (client, _):
            response = await client.post(CHAT, json=chat())
    assert KEY not in response.text
    assert "[key] may not do this" in response.text


async def test_a_stream_without_usage_is_charged_as_reserved(tmp_path):
    events = [event for event in openai_events() if isinstance(event, str) or not event.get("usage")]
    with ScriptedServer(stream(events)) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with served.trial() as (client, _):
            await client.post(CHAT, json=chat(stream=True))
    assert served.settled[0].tokens == served.reserved[0].tokens > Usage(1, 100).tokens
