"""Forwarded calls: what the provider gets, what comes back, and what is paid."""

import asyncio
import json

import httpx2
import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage, RoleBudget, Usage
from loopty.domain.task import Pools
from loopty.record.calls import Spend

from ...models.server import (
    ScriptedServer,
    answer,
    hang,
    hang_up,
    raw_answer,
    refusal,
    stalled_stream,
    stream,
    unframed_stream,
)
from ...models.vendor_replies import (
    anthropic_events,
    anthropic_reply,
    google_events,
    google_reply,
    openai_events,
    openai_reply,
)
from .served_run import KEY, MODEL, ServedRun, chat

USAGE = Usage(20, 12, 8, 5)
CHAT = "/v1/chat/completions"
WAIT_SECONDS = 60


@pytest.fixture
def serve(tmp_path):
    """Serves the model of a scripted server."""

    def make(server, pools=None, budget=None, **spec):
        url = server.url + ("/v1" if spec.get("provider", "openai") == "openai" else "")
        return ServedRun(tmp_path, pools, budget, url=url, **spec)

    return make


async def test_a_chat_is_forwarded_with_loopty_s_key_and_the_role_s_model(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server)
        async with served.trial() as (client, access):
            response = await client.post(
                CHAT, json=chat(max_tokens=100_000, tools=[{"type": "function"}], top_p=0.5)
            )
        assert (response.status_code, response.json()) == (200, openai_reply())
        (sent,) = server.requests
        assert sent.path == CHAT
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert sent.body == chat(model=MODEL, max_tokens=100, tools=[{"type": "function"}], top_p=0.5)
        assert access.key not in str(sent)
    (reserved,), (settled,) = served.reserved, served.settled
    assert (reserved.role, reserved.operator, reserved.node) == ("user", "benchmark", "1.2")
    assert reserved.model == f"openai:{MODEL}"
    assert 100 < reserved.tokens <= reserved.max_tokens
    assert (settled.tokens, settled.usage, settled.failure) == (32, USAGE, "")
    assert Spend.of(served.run).tokens == {"user": 32}
    assert access.excuse(False) is None


VENDORS = {
    "chat": ("openai", CHAT, chat(), answer(openai_reply())),
    "chat, streamed": ("openai", CHAT, chat(stream=True), stream(openai_events())),
    "embeddings": (
        "openai",
        "/v1/embeddings",
        {"input": "x"},
        answer({"data": [], "usage": {"prompt_tokens": 20, "total_tokens": 20}}),
    ),
    "responses": (
        "openai",
        "/v1/responses",
        {"input": "hello"},
        answer({"status": "completed", "usage": {"input_tokens": 20, "output_tokens": 12}}),
    ),
    "responses, streamed": (
        "openai",
        "/v1/responses",
        {"input": "hello", "stream": True},
        stream(
            [
                {"type": "response.created", "response": {"usage": None}},
                {
                    "type": "response.completed",
                    "response": {
                        "usage": {
                            "input_tokens": 20,
                            "output_tokens": 12,
                            "input_tokens_details": {"cached_tokens": 8},
                            "output_tokens_details": {"reasoning_tokens": 5},
                        }
                    },
                },
            ]
        ),
    ),
    "messages": ("anthropic", "/v1/messages", chat(max_tokens=9), answer(anthropic_reply())),
    "messages, streamed": ("anthropic", "/v1/messages", chat(stream=True), stream(anthropic_events())),
    "google": ("google", "/v1beta/models/any:generateContent", {"contents": []}, answer(google_reply())),
    "google, streamed": (
        "google",
        "/v1beta/models/any:streamGenerateContent?alt=sse",
        {"contents": []},
        stream(google_events()),
    ),
    "google, an array": (
        "google",
        "/v1beta/models/any:streamGenerateContent",
        {"contents": []},
        answer(google_events()),
    ),
}


HEADERS = {"openai": "authorization", "anthropic": "x-api-key", "google": "x-goog-api-key"}


@pytest.mark.parametrize(("provider", "path", "body", "behaviour"), VENDORS.values(), ids=VENDORS)
async def test_the_usage_of_every_api_is_read(serve, provider, path, body, behaviour):
    with ScriptedServer(behaviour) as server:
        served = serve(server, provider=provider)
        async with served.trial() as (client, _):
            response = await client.post(path, json=body)
        assert response.status_code == 200, response.text
        (sent,) = server.requests
        assert sent.path == path.replace("/any:", f"/{MODEL}:")
        assert KEY in sent.headers[HEADERS[provider]]
        if provider == "anthropic":
            assert sent.headers["anthropic-version"]
    (settled,) = served.settled
    expected = {"embeddings": Usage(20), "responses": Usage(20, 12)}.get(path.rpartition("/")[2], USAGE)
    if body.get("stream"):
        expected = USAGE
    assert (settled.usage, settled.failure) == (expected, "")


LIMITS = {
    "a chat": ("openai", CHAT, {}, {"max_tokens": 100}),
    "a chat with the newer name": (
        "openai",
        CHAT,
        {"max_completion_tokens": 7000, "n": 3},
        {"max_completion_tokens": 100, "n": 3},
    ),
    "a chat with nonsense": ("openai", CHAT, {"max_tokens": "9000"}, {"max_tokens": 100}),
    "responses": ("openai", "/v1/responses", {"max_output_tokens": None}, {"max_output_tokens": 100}),
    "messages": ("anthropic", "/v1/messages", {"max_tokens": 101}, {"max_tokens": 100}),
    "google": (
        "google",
        "/v1beta/models/x:generateContent",
        {"generation_config": {"max_output_tokens": 5000, "top_k": 1}},
        {"generationConfig": {"maxOutputTokens": 100, "top_k": 1}},
    ),
    "less": ("anthropic", "/v1/messages", {"max_tokens": 3}, {"max_tokens": 3}),
}


@pytest.mark.parametrize(("provider", "path", "body", "sent"), LIMITS.values(), ids=LIMITS)
async def test_no_answer_may_be_longer_than_the_task_allows(serve, provider, path, body, sent):
    with ScriptedServer(answer({})) as server:
        served = serve(server, provider=provider)
        async with served.trial() as (client, _):
            await client.post(path, json=body)
        body = server.requests[0].body
    assert {name: part for name, part in body.items() if name != "model"} == sent
    # An answer without usage is charged as reserved.
    assert served.settled[0].tokens == served.reserved[0].tokens >= 100 * sent.get("n", 0)


async def test_the_specs_temperature_applies_to_requests_without_one(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        async with serve(server, temperature=0.0).trial() as (client, _):
            await client.post(CHAT, json=chat())
            await client.post(CHAT, json=chat(temperature=0.7))
        assert [sent.body["temperature"] for sent in server.requests] == [0.0, 0.7]


async def test_a_stream_is_passed_on_as_it_comes(serve):
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()
    first, *rest = openai_events()

    def stream_slowly(connection):
        stream([first], whole=False)(connection)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(WAIT_SECONDS)
        for event in rest:
            text = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
            connection.send(f"{len(text):x}\r\n{text}\r\n".encode())
        connection.send(b"0\r\n\r\n")

    with ScriptedServer(stream_slowly) as server:
        request = {"method": "POST", "url": CHAT, "json": chat(stream=True)}
        async with serve(server).trial() as (client, _), client.stream(**request) as response:
            lines = response.aiter_lines()
            assert json.loads((await anext(lines)).removeprefix("data: ")) == first
            go_on.set()
            text = [line async for line in lines]
        assert server.requests[0].body["stream_options"] == {"include_usage": True}
    assert text[-2:] == ["data: [DONE]", ""]
    assert '"choices": []' not in str(text), "a client that did not ask for the usage does not get it"


async def test_a_client_that_asks_for_the_usage_of_a_stream_gets_it(serve):
    with ScriptedServer(stream(openai_events())) as server:
        async with serve(server).trial() as (client, _):
            request = chat(stream=True, stream_options={"include_usage": True})
            assert '"choices": []' in (await client.post(CHAT, json=request)).text


async def test_an_api_that_the_provider_lacks_is_refused_with_the_one_to_use(serve):
    with ScriptedServer(answer({})) as server:
        served = serve(server)
        async with served.trial() as (client, _):
            response = await client.post("/v1/messages", json=chat())
        assert server.requests == []
    assert response.status_code == 400
    assert "/v1/chat/completions" in response.json()["error"]["message"]
    assert served.reserved == []


async def test_a_request_with_a_transient_fault_is_retried(serve):
    script = (refusal(429, "slow", Retry_After="3"), refusal(503, "down"), hang_up, answer(openai_reply()))
    with ScriptedServer(*script) as server:
        served = serve(server)
        async with served.trial() as (client, access):
            assert (await client.post(CHAT, json=chat())).status_code == 200
        assert len(server.requests) == 4
    # Refusals cost nothing; a connection that broke may have.
    assert [settled.tokens for settled in served.settled] == [0, 0, served.reserved[0].tokens, 32]
    assert access.outage is None


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_a_provider_that_is_down_is_no_fault_of_the_candidate(serve, status):
    with ScriptedServer(refusal(status, "not now")) as server:
        served = serve(server, retries=2, outage_seconds=0.0)
        async with served.trial() as (client, access):
            response = await client.post(CHAT, json=chat())
        assert len(server.requests) >= 1
    assert (response.status_code, response.headers["x-should-retry"]) == (status, "false")
    assert response.json()["error"]["message"] == "not now"
    assert isinstance(access.excuse(False), Outage)
    assert f"the provider answered {status}: not now" in str(access.excuse(False))
    assert access.excuse(True) is None, "a benchmark that coped has a result"
    assert Spend.of(served.run).tokens == {"user": 0}


async def test_a_missing_server_is_an_outage_that_costs_nothing(tmp_path):
    served = ServedRun(tmp_path, url="http://127.0.0.1:9/v1", retries=1, outage_seconds=0.0)
    async with served.trial() as (client, access):
        response = await client.post(CHAT, json=chat())
    assert (response.status_code, response.json()["error"]["type"]) == (502, "api_error")
    assert isinstance(access.excuse(False), Outage)
    assert Spend.of(served.run).tokens == {"user": 0}


async def test_a_trial_that_ends_during_an_outage_is_excused(serve):
    request = asyncio.Event()
    loop = asyncio.get_running_loop()

    def refuse_then_hang(connection):
        if len(server.requests) == 1:
            refusal(500, "down")(connection)
        else:
            loop.call_soon_threadsafe(request.set)
            hang(connection)

    with ScriptedServer(refuse_then_hang) as server:
        served = serve(server)
        async with served.trial() as (client, access):
            asking = asyncio.create_task(client.post(CHAT, json=chat()))
            await asyncio.wait_for(request.wait(), WAIT_SECONDS)
        with pytest.raises(httpx2.TransportError):
            await asking
    assert isinstance(access.excuse(False), Outage)
    assert [settled.tokens for settled in served.settled] == [0, served.reserved[1].tokens]
    assert not Spend.of(served.run).reservations


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_an_outage_and_is_not_shown(serve, status):
    with ScriptedServer(refusal(status, f"Incorrect API key provided: {KEY[:8]}***{KEY[-4:]}")) as server:
        async with serve(server).trial() as (client, access):
            response = await client.post(CHAT, json=chat())
        assert len(server.requests) == 1
    assert response.status_code == 502
    assert KEY[:8] not in response.text
    quote = f"Incorrect API key provided: {KEY[:8]}***{KEY[-4:]}"
    refused = f"{status} at {CHAT}: the key in REAL_KEY or its account was refused: {quote}"
    assert str(access.excuse(False)) == f"openai:{MODEL}: {refused}"


async def test_a_key_that_google_refuses_is_distinguished_from_a_bad_request(serve):
    error = {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}
    with ScriptedServer(answer([{"error": error}], 400)) as server:
        async with serve(server, provider="google").trial() as (client, access):
            await client.post("/v1beta/models/any:streamGenerateContent", json={"contents": []})
    assert "the key in REAL_KEY or its account was refused: API key not valid." in str(access.excuse(False))


UNKNOWN_MODEL = {
    "no model": refusal(404, f"no model the-model for {KEY}", "model_not_found"),
    "no model, with status 400": refusal(400, f"no model the-model for {KEY}", "model_not_found"),
}


@pytest.mark.parametrize("behaviour", UNKNOWN_MODEL.values(), ids=UNKNOWN_MODEL)
async def test_an_unknown_model_is_an_outage_that_says_what_to_check(serve, behaviour):
    with ScriptedServer(behaviour) as server:
        served = serve(server)
        async with served.trial() as (client, access):
            response = await client.post(CHAT, json=chat())
        assert len(server.requests) == 1
    message = str(access.excuse(False))
    assert response.headers["x-should-retry"] == "false"
    assert message == (
        f"openai:{MODEL}: {response.status_code} at {CHAT}: the server has no model '{MODEL}' (check `model` and "
        "`url` of the model under [roles.user]): no model the-model for [key]"
    )
    assert message.endswith(served.settled[0].failure)
    assert access.excuse(True) is None, "a benchmark that coped has a result"


async def test_a_url_without_its_version_is_reported_with_the_requested_path(tmp_path):
    with ScriptedServer(raw_answer(b"<html>404 not found</html>", 404, "text/html")) as server:
        async with ServedRun(tmp_path, url=server.url).trial() as (client, access):
            await client.post(CHAT, json=chat())
    message = str(access.excuse(False))
    assert "404 at /chat/completions: the server has no model" in message
    assert message.endswith("of the model under [roles.user]; a `url` usually ends in /v1)")


async def test_not_found_from_a_model_that_has_answered_is_the_requests_fault(serve):
    with ScriptedServer(answer(openai_reply()), refusal(404, "no such tool"), answer(openai_reply())) as server:
        served = serve(server)
        async with served.trial() as (client, _):
            await client.post(CHAT, json=chat())
        async with served.trial() as (client, access):
            assert (await client.post(CHAT, json=chat())).status_code == 404
            assert access.refusal == f"openai:{MODEL}: 404 at {CHAT}: the request was refused: no such tool"
            await client.post(CHAT, json=chat())
    assert (access.excuse(False), access.refusal) == (None, "")


async def test_a_refusal_of_the_request_itself_reaches_the_benchmark(serve):
    with ScriptedServer(refusal(400, "temperature is too high")) as server:
        async with serve(server).trial() as (client, access):
            response = await client.post(CHAT, json=chat(temperature=9))
        assert len(server.requests) == 1
    assert (response.status_code, response.json()["error"]["message"]) == (400, "temperature is too high")
    assert access.excuse(False) is None
    alternative = "or `model` or `url` of the model under [roles.user] is wrong"
    refused = f"400 at {CHAT}: the request was refused, {alternative}: temperature is too high"
    assert access.refusal == f"openai:{MODEL}: {refused}"


async def test_a_key_in_an_answer_is_not_passed_on(serve):
    def echo_headers(connection):
        raw_answer(json.dumps({"seen": connection.request.headers}).encode(), 200, "application/json")(connection)

    events = [{"choices": [{"delta": {"content": KEY}}]}, *openai_events()]
    with ScriptedServer(echo_headers, stream(events)) as server:
        async with serve(server).trial() as (client, _):
            assert KEY not in (await client.post(CHAT, json=chat())).text
            assert KEY not in (await client.post(CHAT, json=chat(stream=True))).text
        assert KEY in str(server.requests)


BROKEN_STREAMS = {
    "reset": stream(openai_events()[:3], whole=False, reset=True),
    "closed": stream(openai_events()[:3], whole=False),
    "unframed": unframed_stream(openai_events()[:3]),
    "says so": stream([*openai_events()[:3], {"error": {"message": "overloaded"}}]),
}


@pytest.mark.parametrize("behaviour", BROKEN_STREAMS.values(), ids=BROKEN_STREAMS)
async def test_a_broken_stream_is_charged_as_reserved_and_seen_as_broken(serve, behaviour):
    with ScriptedServer(behaviour) as server:
        served = serve(server)
        async with served.trial() as (client, access):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post(CHAT, json=chat(stream=True))
        assert len(server.requests) == 1
    (settled,) = served.settled
    assert (settled.tokens, settled.usage) == (served.reserved[0].tokens, None)
    assert settled.failure
    assert isinstance(access.excuse(False), Outage)


async def test_an_anthropic_stream_that_ends_early_is_not_whole(serve):
    with ScriptedServer(unframed_stream(anthropic_events(finish=None))) as server:
        served = serve(server, provider="anthropic")
        async with served.trial() as (client, _):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post("/v1/messages", json=chat(stream=True))
    assert served.settled[0].tokens == served.reserved[0].tokens


async def until(served, condition):
    """Wait for an event after which the condition is true."""
    recorded = asyncio.Event()
    served.recorder.listeners.append(lambda _: recorded.set())
    while not condition():
        await asyncio.wait_for(recorded.wait(), WAIT_SECONDS)
        recorded.clear()


async def test_a_client_that_disconnects_midway_still_pays(serve):
    with ScriptedServer(stalled_stream(openai_events()[:2])) as server:
        served = serve(server)
        async with served.trial() as (client, access):
            async with client.stream("POST", CHAT, json=chat(stream=True)) as response:
                await anext(response.aiter_bytes())
            await until(served, lambda: not Spend.of(served.run).reservations)
            assert Spend.of(served.run).tokens == {"user": served.reserved[0].tokens}
    assert access.excuse(False) is None


async def test_calls_in_flight_at_the_end_of_a_trial_are_paid_for(serve):
    with ScriptedServer(hang) as server:
        served = serve(server)
        async with served.trial() as (client, _):
            asking = [asyncio.create_task(client.post(CHAT, json=chat())) for _ in range(3)]
            await until(served, lambda: len(Spend.of(served.run).reservations) == 3)
        assert not Spend.of(served.run).reservations
        results = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(result, httpx2.TransportError) for result in results)
    assert Spend.of(served.run).tokens == {"user": sum(reserved.tokens for reserved in served.reserved)}


async def test_a_used_up_cap_is_reported_and_remembered(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server, budget=RoleBudget("user", tokens=150, cache="never"))
        async with served.trial() as (client, access):
            statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
            response = await client.post(CHAT, json=chat())
        assert len(server.requests) == statuses.count(200)
    assert statuses == [200, 200, 429]
    assert response.json()["error"]["type"] == "insufficient_quota"
    assert response.headers["x-should-retry"] == "false"
    assert isinstance(access.excuse(False), Exhausted)
    assert isinstance(access.excuse(True), Exhausted), "a result with fewer calls is not comparable"
    assert Spend.of(served.run).tokens == {"user": 64}


async def test_a_call_waits_while_calls_in_flight_may_need_the_rest_of_a_cap(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server, Pools(tokens=500))
        async with served.trial() as (client, access):
            asking = [client.post(CHAT, json=chat()) for _ in range(8)]
            statuses = [response.status_code for response in await asyncio.gather(*asking)]
        assert statuses == [200] * 8
        assert len(server.requests) == 8
    assert Spend.of(served.run).tokens == {"user": 8 * 32}
    assert access.exhausted is None


async def test_a_hundred_concurrent_requests_are_all_served(serve):
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server)
        async with served.trial() as (client, _):
            asking = [client.post(CHAT, json=chat()) for _ in range(100)]
            assert {response.status_code for response in await asyncio.gather(*asking)} == {200}
    assert Spend.of(served.run).tokens == {"user": 100 * 32}


async def test_a_picture_is_not_estimated_by_its_length(serve):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2_000_000}}
    with ScriptedServer(answer(openai_reply())) as server:
        served = serve(server, Pools(tokens=20_000))
        async with served.trial() as (client, _):
            assert (await client.post(CHAT, json=chat([picture]))).status_code == 200
