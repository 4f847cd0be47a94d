"""What a trial may ask for, and how malformed requests are answered."""

import asyncio
import json

import pytest

from loopty.domain.model import Usage
from loopty.features.endpoint.http_exchange import LARGEST_BODY
from loopty.record.calls import Spend

from ...models.server import ScriptedServer, answer
from .served_run import MODEL, ServedRun, chat

CHAT = "/v1/chat/completions"


async def test_requests_without_the_trials_key_are_refused(served, server):
    async with served.trial() as (client, access):
        for headers in (
            {"authorization": "Bearer x"},
            {"authorization": ""},
            {"authorization": "", "x-api-key": "ä"},
        ):
            response = await client.post(CHAT, json=chat(), headers=[(k, v.encode()) for k, v in headers.items()])
            assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")
        assert server.requests == []
        for name in ("x-api-key", "x-goog-api-key"):
            response = await client.post(CHAT, json=chat(), headers={"authorization": "", name: access.key})
            assert response.status_code == 200


async def test_each_trial_has_its_own_key(served):
    async with served.trial() as (_, access):
        first = access.key
    async with served.trial() as (client, access):
        assert access.key != first
        response = await client.post(CHAT, json=chat(), headers={"authorization": f"Bearer {first}"})
        assert response.status_code == 401


async def test_the_one_model_is_listed(served):
    async with served.trial() as (client, _):
        assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == [MODEL]


HOSTED = {
    "a search": {"tools": [{"type": "web_search"}]},
    "a search of Anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "a search of Google": {"tools": [{"functionDeclarations": []}, {"googleSearch": {}}]},
    "options of a search": {"web_search_options": {}, "plugins": [{"id": "web"}]},
    "another server": {"mcp_servers": [{"type": "url", "url": "https://example.com"}]},
    "a search in a namespace": {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]},
    "a namespace that is no list": {"tools": [{"type": "namespace", "tools": {"type": "function"}}]},
    "a nested namespace": {"tools": [{"type": "namespace", "tools": [{"type": "namespace", "tools": []}]}]},
    "code": {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
    "a picture from elsewhere": {"messages": [{"content": [{"image_url": {"url": "https://example.com/x.png"}}]}]},
    "a file from elsewhere": {"contents": [{"parts": [{"fileData": {"fileUri": "https://example.com/x.pdf"}}]}]},
}


@pytest.mark.parametrize("body", HOSTED.values(), ids=HOSTED)
async def test_the_provider_is_not_used_to_leave_the_sandbox(served, server, body):
    async with served.trial() as (client, _):
        response = await client.post(CHAT, json=body)
    assert (response.status_code, server.requests) == (400, [])
    assert "out of the sandbox" in response.json()["error"]["message"]


OWN = {
    "a function": {"tools": [{"type": "function", "function": {"parameters": {"url": "https://example.com"}}}]},
    "functions in a namespace": {"tools": [{"type": "namespace", "tools": [{"type": "function", "name": "f"}]}]},
    "a tool of Anthropic": {
        "tools": [{"name": "look", "input_schema": {"properties": {"url": {"type": "string"}}}}]
    },
    "what a tool was called with": {
        "messages": [{"content": [{"type": "tool_use", "input": {"url": "https://x.y"}}]}]
    },
    "a picture in the request": {
        "messages": [{"content": [{"image_url": {"url": "data:image/png;base64,AAAA"}}]}]
    },
}


@pytest.mark.parametrize("body", OWN.values(), ids=OWN)
async def test_tools_of_the_benchmark_itself_pass(served, body):
    async with served.trial() as (client, _):
        assert (await client.post(CHAT, json=body)).status_code == 200


GARBAGE = {
    "noise": (b"\x00\xff\x16\x03\x01 nonsense\r\n\r\n", b"400"),
    "nothing": (b"", b""),
    "half a request": (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", b"400"),
    "a head without end": (b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 100_000, b"400"),
    "a bad length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"400"),
    "two requests": (b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" * 2, b"401"),
    "only a head": (b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\n\r\n", b"200"),
    "a tunnel": (b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\n\r\n", b"404"),
    "an upgrade": (
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"401",
    ),
    "an old request": (b"GET /v1/models HTTP/1.0\r\nAuthorization: Bearer KEY\r\n\r\n", b"200"),
}


@pytest.mark.parametrize(("sent", "status"), GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_answered_and_harms_no_other_request(served, sent, status):
    async with served.trial() as (client, access):
        reader, writer = await asyncio.open_unix_connection(served.place)
        writer.write(sent.replace(b"KEY", access.key.encode()))
        writer.write_eof()
        answer_bytes = await reader.read()
        writer.close()
        assert b"".join(answer_bytes.split(b" ")[1:2]) == status
        assert (await client.post(CHAT, json=chat())).status_code == 200
    assert not Spend.of(served.run).reservations
    assert access.excuse(False) is None


BODIES = {
    "no JSON": b"{",
    "no object": b"[1]",
    "no text": b"\xff\xfe",
    "nested without end": b'{"a":' * 50_000,
    "nested too deep": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "nothing but brackets": b'{"a":[' + b"[]," * 500_000 + b"0]}",
    "a huge number": b'{"a":' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_malformed_body_is_refused(served, server, body):
    async with served.trial() as (client, _):
        response = await client.post(CHAT, content=body)
    assert (response.status_code, server.requests) == (400, [])


async def test_odd_bodies_are_forwarded_unchanged(served, server):
    odd = {
        "messages": [{"content": "\ud800 ä \x00"}],
        "seed": None,
        "n": True,
        "stream": "yes",
        "stream_options": 3,
    }
    async with served.trial() as (client, _):
        assert (await client.post(CHAT, content=json.dumps(odd))).status_code == 200
    assert server.requests[0].body == {**odd, "model": MODEL, "max_tokens": 100}


async def test_a_request_has_a_maximum_size(served, server):
    async with served.trial() as (client, _):
        response = await client.post(CHAT, content=b" " * (LARGEST_BODY + 1))
        assert (response.status_code, response.json()["error"]["type"]) == (413, "request_too_large")
        response = await client.post(CHAT, content=json.dumps(chat("x" * (LARGEST_BODY - 1000))))
        assert response.status_code == 200
    assert len(server.requests) == 1


async def test_other_paths_and_methods_are_refused_with_the_ones_to_use(served):
    async with served.trial() as (client, _):
        response = await client.post("/v1/files", json={})
        assert (response.status_code, CHAT in response.text) == (404, True)
        assert (await client.get(CHAT)).status_code == 405
        response = await client.post("/v1/responses", json={"background": True})
        assert (response.status_code, "background" in response.text) == (400, True)


async def test_the_benchmarks_own_headers_and_query_do_not_reach_the_provider(served, server):
    async with served.trial() as (client, _):
        await client.post(
            f"{CHAT}?key=stolen&alt=sse&next=//example.com",
            json=chat(),
            headers={"x-forwarded-for": "1.2.3.4", "cookie": "a=b", "openai-beta": "x"},
        )
    (sent,) = server.requests
    assert sent.path == f"{CHAT}?alt=sse"
    assert not {"x-forwarded-for", "cookie"} & set(sent.headers)
    assert sent.headers["openai-beta"] == "x"


async def test_an_answer_without_usage_is_charged_as_reserved(tmp_path):
    with ScriptedServer(answer({"choices": [], "usage": {"prompt_tokens": "many"}}), answer([])) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1")
        async with served.trial() as (client, _):
            await client.post(CHAT, json=chat())
            await client.post(CHAT, json=chat())
    assert [settled.usage for settled in served.settled] == [Usage(), None]
    assert served.settled[1].tokens == served.reserved[1].tokens
