"""Requests to the vendors, byte for byte where it counts, and what is read from their answers."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from loopty.domain.model import Message, ModelSpec, Prompt, Reply, Speaker, Usage
from loopty.kit.records import replace
from loopty.models.provider_model import make_provider_model

from .server import ScriptedServer, answer, stalled_stream, stream
from .vendor_replies import (
    ANSWER,
    PIECES,
    anthropic_events,
    anthropic_reply,
    google_events,
    google_reply,
    openai_events,
    openai_reply,
)

KEY = "sk-test-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "number"}},
    "required": ["x"],
    "additionalProperties": False,
}
TALK = Prompt(
    "Be brief.",
    (Message(Speaker.ASKER, "What is it?"), Message(Speaker.MODEL, "41?"), Message(Speaker.ASKER, "No.")),
    SCHEMA,
    max_output_tokens=100,
)
SHORT = Prompt("", (Message(Speaker.ASKER, "What is it?"),))


@dataclass(frozen=True)
class Vendor:
    """One vendor's API."""

    provider: str
    model: str
    base: str
    whole: Callable[..., Any]
    events: Callable[..., Any]
    cut: str
    filtered: str

    def spec(self, server: ScriptedServer, **more: Any) -> ModelSpec:
        return ModelSpec(self.provider, self.model, url=server.url + self.base, **{"timeout_seconds": 60, **more})


VENDORS = (
    Vendor("openai", "any-model", "/v1", openai_reply, openai_events, "length", "content_filter"),
    Vendor("anthropic", "claude-sonnet-4-6", "", anthropic_reply, anthropic_events, "max_tokens", "refusal"),
    Vendor("google", "gemini-2.5-flash", "", google_reply, google_events, "MAX_TOKENS", "SAFETY"),
)
each_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.provider)
each_mode = pytest.mark.parametrize("streamed", [False, True], ids=["at once", "streamed"])


def behaviour(vendor: Vendor, streamed: bool, **more: Any) -> Any:
    return stream(vendor.events(**more)) if streamed else answer(vendor.whole(**more))


async def reply_and_request(vendor: Vendor, streamed: bool, prompt: Prompt, **spec: Any) -> tuple[Reply, Any]:
    """The reply, and the request that the server got."""
    with ScriptedServer(behaviour(vendor, streamed)) as server:
        model = make_provider_model("m", vendor.spec(server, stream=streamed, **spec), KEY)
        reply = await model.reply(prompt)
    assert len(server.requests) == 1
    return reply, server.requests[0]


@each_vendor
@each_mode
async def test_a_reply_has_its_text_and_its_token_counts(vendor, streamed):
    reply, _ = await reply_and_request(vendor, streamed, TALK)
    assert reply == Reply(ANSWER, Usage(20, 12, cached_tokens=8, reasoning_tokens=5), whole=True)


@each_mode
async def test_openai_is_sent_a_chat(streamed):
    _, request = await reply_and_request(
        VENDORS[0], streamed, TALK, temperature=0.5, settings={"seed": 3, "reasoning_effort": "low"}
    )
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["accept-encoding"] == "identity"
    stream_options = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {"stream": False}
    assert request.body == {
        "model": "any-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is it?"},
            {"role": "assistant", "content": "41?"},
            {"role": "user", "content": "No."},
        ],
        "max_tokens": 100,
        "temperature": 0.5,
        "seed": 3,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
        },
        **stream_options,
    }


@each_mode
async def test_anthropic_is_sent_a_message(streamed):
    _, request = await reply_and_request(VENDORS[1], streamed, TALK, temperature=0.5)
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert KEY in (
        request.headers.get("x-api-key"),
        request.headers.get("authorization", "").removeprefix("Bearer "),
    )
    assert "anthropic-version" in request.headers
    assert request.body == {
        "model": "claude-sonnet-4-6",
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "41?"}]},
            {"role": "user", "content": [{"type": "text", "text": "No."}]},
        ],
        "max_tokens": 100,
        "temperature": 0.5,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "stream": streamed,
    }


@each_mode
async def test_google_is_sent_contents(streamed):
    _, request = await reply_and_request(VENDORS[2], streamed, TALK, temperature=0.5, settings={"seed": 3})
    verb = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    assert request.method == "POST"
    assert request.path.endswith(f"/models/gemini-2.5-flash:{verb}")
    assert request.headers["x-goog-api-key"] == KEY
    assert KEY not in request.path
    assert request.body["contents"] == [
        {"role": "user", "parts": [{"text": "What is it?"}]},
        {"role": "model", "parts": [{"text": "41?"}]},
        {"role": "user", "parts": [{"text": "No."}]},
    ]
    assert request.body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    config = request.body["generationConfig"]
    assert (config["maxOutputTokens"], config["temperature"], config["seed"]) == (100, 0.5, 3)
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["properties"] == SCHEMA["properties"]


@each_vendor
async def test_the_models_own_limit_caps_a_longer_limit_of_the_prompt(vendor):
    _, request = await reply_and_request(
        vendor, True, replace(SHORT, max_output_tokens=9000), max_output_tokens=70
    )
    config = request.body.get("generationConfig", request.body)
    assert {config.get("max_tokens"), config.get("maxOutputTokens")} == {70, None}


@each_vendor
@each_mode
async def test_a_reply_at_its_longest_is_not_whole(vendor, streamed):
    with ScriptedServer(behaviour(vendor, streamed, finish=vendor.cut)) as server:
        reply = await make_provider_model("m", vendor.spec(server, stream=streamed), KEY).reply(SHORT)
    assert reply.text == ANSWER
    assert not reply.whole


@each_vendor
@each_mode
async def test_a_filtered_reply_is_not_whole(vendor, streamed):
    with ScriptedServer(behaviour(vendor, streamed, finish=vendor.filtered)) as server:
        reply = await make_provider_model("m", vendor.spec(server, stream=streamed), KEY).reply(SHORT)
    assert not reply.whole
    assert reply.usage.tokens == 32


async def test_an_empty_reply_can_be_answered():
    _, request = await reply_and_request(VENDORS[1], True, SHORT.with_reply("", "Say something."))
    assert [part["text"] for message in request.body["messages"] for part in message["content"]] == [
        "What is it?",
        "(no text)",
        "Say something.",
    ]


@each_vendor
async def test_lone_surrogates_are_neither_sent_nor_read(vendor):
    prompt = Prompt("be \ud800 brief", SHORT.with_reply("\udfff?", "no \ud800").messages)
    with ScriptedServer(answer(vendor.whole("42 \ud83d"))) as server:
        reply = await make_provider_model("m", vendor.spec(server, stream=False), KEY).reply(prompt)
    assert reply.text == "42 ?"
    assert b"\\ud8" not in server.requests[0].raw


async def test_a_schema_becomes_an_instruction_where_the_provider_lacks_structured_output():
    older = replace(VENDORS[1], model="claude-old")
    _, request = await reply_and_request(older, True, TALK)
    assert "output_config" not in request.body
    assert '"required": ["x"]' in request.body["system"][-1]["text"]


@each_mode
async def test_tokens_are_estimated_for_a_server_that_reports_none(streamed):
    with ScriptedServer(behaviour(VENDORS[0], streamed, counts=None)) as server:
        reply = await make_provider_model("m", VENDORS[0].spec(server, stream=streamed), KEY).reply(SHORT)
    assert reply.usage == Usage(input_tokens=3, output_tokens=3)


async def test_reasoning_in_the_text_is_not_part_of_the_reply():
    pieces = ("<think>", "Is it 41?", "</think>", *PIECES)
    with ScriptedServer(stream(openai_events(pieces))) as server:
        reply = await make_provider_model("m", VENDORS[0].spec(server), KEY).reply(SHORT)
    assert reply.text == ANSWER


async def test_a_server_without_a_key_gets_no_key_from_the_environment(monkeypatch):
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    for vendor in VENDORS:
        with ScriptedServer(behaviour(vendor, True)) as server:
            assert (await make_provider_model("m", vendor.spec(server), None).reply(SHORT)).text == ANSWER
        assert KEY not in str(server.requests)


async def test_a_reasoning_model_of_openai_gets_the_newer_limit():
    _, request = await reply_and_request(
        replace(VENDORS[0], model="gpt-5"), True, replace(SHORT, max_output_tokens=100)
    )
    assert request.body["max_completion_tokens"] == 100
    assert "max_tokens" not in request.body


@each_vendor
async def test_concurrent_requests_do_not_disturb_each_other(vendor):
    with ScriptedServer(behaviour(vendor, True)) as server:
        model = make_provider_model("m", vendor.spec(server), KEY)
        replies = await asyncio.gather(*(model.reply(SHORT) for _ in range(8)))
    assert [reply.text for reply in replies] == [ANSWER] * 8
    assert len(server.requests) == 8


@each_vendor
@each_mode
async def test_a_cancelled_request_leaves_nothing_open(vendor, streamed):
    first = vendor.events()[: len(vendor.events()) // 2]
    with ScriptedServer(stalled_stream(first)) as server:
        task = asyncio.create_task(
            make_provider_model("m", vendor.spec(server, stream=streamed), KEY).reply(SHORT)
        )
        await asyncio.to_thread(server.asked.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        # An open connection would warn now, and a warning is an error here.
        gc.collect()


@each_vendor
async def test_a_server_that_does_not_stream_is_asked_in_one_piece_from_then_on(vendor, capsys):
    whole = answer(vendor.whole())
    with ScriptedServer(whole) as server:
        model = make_provider_model("m", vendor.spec(server), KEY)
        replies = [await model.reply(SHORT) for _ in range(3)]
    assert [reply.text for reply in replies] == [replies[0].text] * 3
    assert replies[0].text
    assert len(server.requests) == 4, "one request more, for the first reply"
    assert capsys.readouterr().err.count("does not stream") == 1
