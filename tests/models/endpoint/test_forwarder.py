"""Calls that go on to a provider: what it is sent, what comes back, and what is paid for it."""

import asyncio
import json

import httpx2
import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage, Usage
from loopty.domain.task import Pools, RoleBudget
from loopty.record.calls import Spend

from ..server import (
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
from ..vendor_replies import (
    anthropic_events,
    anthropic_reply,
    google_events,
    google_reply,
    openai_events,
    openai_reply,
)
from .desk import KEY, MODEL, ServedRun, chat

COUNTED = Usage(20, 12, 8, 5)
CHAT = "/v1/chat/completions"
PATIENCE = 60


@pytest.fixture
def served(tmp_path):
    """A desk in front of a server with this script."""

    def made(server, pools=None, funds=None, **stated):
        url = server.url + ("/v1" if stated.get("provider", "openai") == "openai" else "")
        return ServedRun(tmp_path, pools, funds, url=url, **stated)

    return made


async def test_a_chat_goes_on_with_loopty_s_key_and_the_role_s_model(served):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = served(server)
        async with desk.trial() as (client, door):
            found = await client.post(CHAT, json=chat(max_tokens=100_000, tools=[{"type": "function"}], top_p=0.5))
        assert (found.status_code, found.json()) == (200, openai_reply())
        (sent,) = server.requests
        assert sent.path == CHAT
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert sent.body == chat(model=MODEL, max_tokens=100, tools=[{"type": "function"}], top_p=0.5)
        assert door.word not in str(sent)
    (reserved,), (settled,) = desk.reserved, desk.settled
    assert (reserved.role, reserved.operator, reserved.node) == ("user", "benchmark", "1.2")
    assert reserved.model == f"openai:{MODEL}"
    assert 100 < reserved.tokens <= reserved.max_tokens
    assert (settled.tokens, settled.usage, settled.failure) == (32, COUNTED, "")
    assert Spend.of(desk.run).tokens == {"user": 32}
    assert door.excuse(False) is None


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
async def test_the_usage_of_every_api_is_read(served, provider, path, body, behaviour):
    with ScriptedServer(behaviour) as server:
        desk = served(server, provider=provider)
        async with desk.trial() as (client, _):
            found = await client.post(path, json=body)
        assert found.status_code == 200, found.text
        (sent,) = server.requests
        assert sent.path == path.replace("/any:", f"/{MODEL}:")
        assert KEY in sent.headers[HEADERS[provider]]
        if provider == "anthropic":
            assert sent.headers["anthropic-version"]
    (settled,) = desk.settled
    expected = {"embeddings": Usage(20), "responses": Usage(20, 12)}.get(path.rpartition("/")[2], COUNTED)
    if body.get("stream"):
        expected = COUNTED
    assert (settled.usage, settled.failure) == (expected, "")


LIMITS = {
    "a chat": ("openai", CHAT, {}, {"max_tokens": 100}),
    "a chat that says it the new way": (
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
async def test_no_answer_may_be_longer_than_the_task_allows(served, provider, path, body, sent):
    with ScriptedServer(answer({})) as server:
        desk = served(server, provider=provider)
        async with desk.trial() as (client, _):
            await client.post(path, json=body)
        body = server.requests[0].body
    assert {name: part for name, part in body.items() if name != "model"} == sent
    # An answer that does not say what it used is charged as reserved.
    assert desk.settled[0].tokens == desk.reserved[0].tokens >= 100 * sent.get("n", 0)


async def test_the_stated_temperature_holds_where_a_request_has_none(served):
    with ScriptedServer(answer(openai_reply())) as server:
        async with served(server, temperature=0.0).trial() as (client, _):
            await client.post(CHAT, json=chat())
            await client.post(CHAT, json=chat(temperature=0.7))
        assert [sent.body["temperature"] for sent in server.requests] == [0.0, 0.7]


async def test_a_stream_is_passed_on_as_it_comes(served):
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()
    first, *rest = openai_events()

    def behave(connection):
        stream([first], whole=False)(connection)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(PATIENCE)
        for event in rest:
            text = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
            connection.send(f"{len(text):x}\r\n{text}\r\n".encode())
        connection.send(b"0\r\n\r\n")

    with ScriptedServer(behave) as server:
        asked = {"method": "POST", "url": CHAT, "json": chat(stream=True)}
        async with served(server).trial() as (client, _), client.stream(**asked) as found:
            lines = found.aiter_lines()
            assert json.loads((await anext(lines)).removeprefix("data: ")) == first
            go_on.set()
            text = [line async for line in lines]
        assert server.requests[0].body["stream_options"] == {"include_usage": True}
    assert text[-2:] == ["data: [DONE]", ""]
    assert '"choices": []' not in str(text), "whoever did not ask for the usage does not get it"


async def test_who_asks_for_the_usage_of_a_stream_gets_it(served):
    with ScriptedServer(stream(openai_events())) as server:
        async with served(server).trial() as (client, _):
            asked = chat(stream=True, stream_options={"include_usage": True})
            assert '"choices": []' in (await client.post(CHAT, json=asked)).text


async def test_an_api_that_the_provider_does_not_speak_is_refused_with_the_one_to_use(served):
    with ScriptedServer(answer({})) as server:
        desk = served(server)
        async with desk.trial() as (client, _):
            found = await client.post("/v1/messages", json=chat())
        assert server.requests == []
    assert found.status_code == 400
    assert "/v1/chat/completions" in found.json()["error"]["message"]
    assert desk.reserved == []


async def test_a_request_that_failed_for_no_fault_of_its_own_is_repeated(served):
    script = (refusal(429, "slow", Retry_After="3"), refusal(503, "down"), hang_up, answer(openai_reply()))
    with ScriptedServer(*script) as server:
        desk = served(server)
        async with desk.trial() as (client, door):
            assert (await client.post(CHAT, json=chat())).status_code == 200
        assert len(server.requests) == 4
    # Refusals cost nothing; a connection that broke may have.
    assert [settled.tokens for settled in desk.settled] == [0, 0, desk.reserved[0].tokens, 32]
    assert door.outage is None


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_a_provider_that_is_down_is_no_fault_of_the_candidate(served, status):
    with ScriptedServer(refusal(status, "not now")) as server:
        desk = served(server, retries=2, outage_seconds=0.0)
        async with desk.trial() as (client, door):
            found = await client.post(CHAT, json=chat())
        assert len(server.requests) >= 1
    assert (found.status_code, found.headers["x-should-retry"]) == (status, "false")
    assert found.json()["error"]["message"] == "not now"
    assert isinstance(door.excuse(False), Outage)
    assert f"the provider answered {status}: not now" in str(door.excuse(False))
    assert door.excuse(True) is None, "a benchmark that coped has a result"
    assert Spend.of(desk.run).tokens == {"user": 0}


async def test_a_server_that_is_not_there_is_an_outage_that_costs_nothing(tmp_path):
    desk = ServedRun(tmp_path, url="http://127.0.0.1:9/v1", retries=1, outage_seconds=0.0)
    async with desk.trial() as (client, door):
        found = await client.post(CHAT, json=chat())
    assert (found.status_code, found.json()["error"]["type"]) == (502, "api_error")
    assert isinstance(door.excuse(False), Outage)
    assert Spend.of(desk.run).tokens == {"user": 0}


async def test_a_trial_that_is_over_while_the_provider_is_down_is_excused(served):
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def refuse_then_hang(connection):
        if len(server.requests) == 1:
            refusal(500, "down")(connection)
        else:
            loop.call_soon_threadsafe(asked.set)
            hang(connection)

    with ScriptedServer(refuse_then_hang) as server:
        desk = served(server)
        async with desk.trial() as (client, door):
            asking = asyncio.create_task(client.post(CHAT, json=chat()))
            await asyncio.wait_for(asked.wait(), PATIENCE)
        with pytest.raises(httpx2.TransportError):
            await asking
    assert isinstance(door.excuse(False), Outage)
    assert [settled.tokens for settled in desk.settled] == [0, desk.reserved[1].tokens]
    assert not Spend.of(desk.run).reservations


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_an_outage_and_is_not_shown(served, status):
    with ScriptedServer(refusal(status, f"Incorrect API key provided: {KEY[:8]}***{KEY[-4:]}")) as server:
        async with served(server).trial() as (client, door):
            found = await client.post(CHAT, json=chat())
        assert len(server.requests) == 1
    assert found.status_code == 502
    assert KEY[:8] not in found.text
    words = f"Incorrect API key provided: {KEY[:8]}***{KEY[-4:]}"
    refused = f"{status} at {CHAT}: the key in REAL_KEY was refused, or its account: {words}"
    assert str(door.excuse(False)) == f"openai:{MODEL}: {refused}"


async def test_a_key_that_google_refuses_is_told_apart_from_a_bad_request(served):
    error = {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}
    with ScriptedServer(answer([{"error": error}], 400)) as server:
        async with served(server, provider="google").trial() as (client, door):
            await client.post("/v1beta/models/any:streamGenerateContent", json={"contents": []})
    assert "the key in REAL_KEY was refused, or its account: API key not valid." in str(door.excuse(False))


ABSENT = {
    "no model": refusal(404, f"no model the-model for {KEY}", "model_not_found"),
    "no model, as some say it": refusal(400, f"no model the-model for {KEY}", "model_not_found"),
}


@pytest.mark.parametrize("behaviour", ABSENT.values(), ids=ABSENT)
async def test_a_model_that_is_not_there_is_an_outage_that_says_what_to_look_at(served, behaviour):
    with ScriptedServer(behaviour) as server:
        desk = served(server)
        async with desk.trial() as (client, door):
            found = await client.post(CHAT, json=chat())
        assert len(server.requests) == 1
    told = str(door.excuse(False))
    assert found.headers["x-should-retry"] == "false"
    assert told == (
        f"openai:{MODEL}: {found.status_code} at {CHAT}: no model '{MODEL}' there, look at `model` and `url` of "
        "the model under [roles.user]: no model the-model for [key]"
    )
    assert told.endswith(desk.settled[0].failure)
    assert door.excuse(True) is None, "a benchmark that coped has a result"


async def test_an_address_without_its_version_is_told_with_the_path_that_was_asked(tmp_path):
    with ScriptedServer(raw_answer(b"<html>404 not found</html>", 404, "text/html")) as server:
        async with ServedRun(tmp_path, url=server.url).trial() as (client, door):
            await client.post(CHAT, json=chat())
    told = str(door.excuse(False))
    assert "404 at /chat/completions: no model" in told
    assert told.endswith("of the model under [roles.user], which mostly ends in /v1")


async def test_what_is_not_found_by_a_model_that_answers_is_the_requests_fault(served):
    with ScriptedServer(answer(openai_reply()), refusal(404, "no such tool"), answer(openai_reply())) as server:
        desk = served(server)
        async with desk.trial() as (client, _):
            await client.post(CHAT, json=chat())
        async with desk.trial() as (client, door):
            assert (await client.post(CHAT, json=chat())).status_code == 404
            assert door.refusal == f"openai:{MODEL}: 404 at {CHAT}: the request was refused: no such tool"
            await client.post(CHAT, json=chat())
    assert (door.excuse(False), door.refusal) == (None, "")


async def test_a_refusal_of_the_request_itself_is_the_benchmarks_to_read(served):
    with ScriptedServer(refusal(400, "temperature is too high")) as server:
        async with served(server).trial() as (client, door):
            found = await client.post(CHAT, json=chat(temperature=9))
        assert len(server.requests) == 1
    assert (found.status_code, found.json()["error"]["message"]) == (400, "temperature is too high")
    assert door.excuse(False) is None
    doubt = "or `model` or `url` of the model under [roles.user] is wrong"
    refused = f"400 at {CHAT}: the request was refused, {doubt}: temperature is too high"
    assert door.refusal == f"openai:{MODEL}: {refused}"


async def test_a_server_that_tells_the_key_is_not_passed_on(served):
    def echo(connection):
        raw_answer(json.dumps({"seen": connection.request.headers}).encode(), 200, "application/json")(connection)

    events = [{"choices": [{"delta": {"content": KEY}}]}, *openai_events()]
    with ScriptedServer(echo, stream(events)) as server:
        async with served(server).trial() as (client, _):
            assert KEY not in (await client.post(CHAT, json=chat())).text
            assert KEY not in (await client.post(CHAT, json=chat(stream=True))).text
        assert KEY in str(server.requests)


CUTS = {
    "reset": stream(openai_events()[:3], whole=False, reset=True),
    "closed": stream(openai_events()[:3], whole=False),
    "unframed": unframed_stream(openai_events()[:3]),
    "says so": stream([*openai_events()[:3], {"error": {"message": "overloaded"}}]),
}


@pytest.mark.parametrize("behaviour", CUTS.values(), ids=CUTS)
async def test_a_stream_that_breaks_off_is_charged_as_reserved_and_seen_as_broken(served, behaviour):
    with ScriptedServer(behaviour) as server:
        desk = served(server)
        async with desk.trial() as (client, door):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post(CHAT, json=chat(stream=True))
        assert len(server.requests) == 1
    (settled,) = desk.settled
    assert (settled.tokens, settled.usage) == (desk.reserved[0].tokens, None)
    assert settled.failure
    assert isinstance(door.excuse(False), Outage)


async def test_a_stream_of_anthropic_that_ends_early_is_not_taken_for_whole(served):
    with ScriptedServer(unframed_stream(anthropic_events(finish=None))) as server:
        desk = served(server, provider="anthropic")
        async with desk.trial() as (client, _):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post("/v1/messages", json=chat(stream=True))
    assert desk.settled[0].tokens == desk.reserved[0].tokens


async def until(desk, true):
    """Wait for an event after which it is true."""
    recorded = asyncio.Event()
    desk.recorder.listeners.append(lambda _: recorded.set())
    while not true():
        await asyncio.wait_for(recorded.wait(), PATIENCE)
        recorded.clear()


async def test_a_client_that_leaves_in_the_middle_pays_all_the_same(served):
    with ScriptedServer(stalled_stream(openai_events()[:2])) as server:
        desk = served(server)
        async with desk.trial() as (client, door):
            async with client.stream("POST", CHAT, json=chat(stream=True)) as found:
                await anext(found.aiter_bytes())
            await until(desk, lambda: not Spend.of(desk.run).reservations)
            assert Spend.of(desk.run).tokens == {"user": desk.reserved[0].tokens}
    assert door.excuse(False) is None


async def test_what_is_under_way_when_a_trial_ends_is_paid_for(served):
    with ScriptedServer(hang) as server:
        desk = served(server)
        async with desk.trial() as (client, _):
            asking = [asyncio.create_task(client.post(CHAT, json=chat())) for _ in range(3)]
            await until(desk, lambda: len(Spend.of(desk.run).reservations) == 3)
        assert not Spend.of(desk.run).reservations
        ends = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(end, httpx2.TransportError) for end in ends)
    assert Spend.of(desk.run).tokens == {"user": sum(reserved.tokens for reserved in desk.reserved)}


async def test_a_spent_cap_is_told_and_remembered(served):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = served(server, funds=RoleBudget("user", tokens=150, cache="never"))
        async with desk.trial() as (client, door):
            statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
            found = await client.post(CHAT, json=chat())
        assert len(server.requests) == statuses.count(200)
    assert statuses == [200, 200, 429]
    assert found.json()["error"]["type"] == "insufficient_quota"
    assert found.headers["x-should-retry"] == "false"
    assert isinstance(door.excuse(False), Exhausted)
    assert isinstance(door.excuse(True), Exhausted), "a result with less of the model is not comparable"
    assert Spend.of(desk.run).tokens == {"user": 64}


async def test_calls_in_flight_are_waited_for_where_they_may_need_the_rest(served):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = served(server, Pools(tokens=500))
        async with desk.trial() as (client, door):
            asking = [client.post(CHAT, json=chat()) for _ in range(8)]
            statuses = [found.status_code for found in await asyncio.gather(*asking)]
        assert statuses == [200] * 8
        assert len(server.requests) == 8
    assert Spend.of(desk.run).tokens == {"user": 8 * 32}
    assert door.exhausted is None


async def test_a_hundred_at_once_are_served_in_turns(served):
    with ScriptedServer(answer(openai_reply())) as server:
        desk = served(server)
        async with desk.trial() as (client, _):
            asking = [client.post(CHAT, json=chat()) for _ in range(100)]
            assert {found.status_code for found in await asyncio.gather(*asking)} == {200}
    assert Spend.of(desk.run).tokens == {"user": 100 * 32}


async def test_a_picture_is_not_estimated_by_its_length(served):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2_000_000}}
    with ScriptedServer(answer(openai_reply())) as server:
        desk = served(server, Pools(tokens=20_000))
        async with desk.trial() as (client, _):
            assert (await client.post(CHAT, json=chat([picture]))).status_code == 200
