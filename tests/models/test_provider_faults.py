"""Faults of requests: a server, a network or a key that does not work."""

import asyncio
import gc
import gzip
import json
import logging
import socket

import pytest

from loopty.domain.model import ModelFault, ModelSpec, Usage
from loopty.models.provider_model import make_provider_model

from .server import (
    Behaviour,
    ScriptedServer,
    answer,
    endless_answer,
    garbage,
    hang,
    hang_up,
    raw_answer,
    refusal,
    stalled_stream,
    stream,
    unframed_stream,
)
from .test_provider_wire import KEY, SHORT, VENDORS, Vendor, each_mode, each_vendor
from .vendor_replies import PIECES, openai_events, openai_reply

INPUT = 3
"""Tokens of the prompt, as estimated."""


def first_events(vendor: Vendor) -> list:
    """The first events of a reply, up to its first two pieces."""
    return {"openai": vendor.events()[:3], "anthropic": vendor.events()[:5], "google": vendor.events()[:2]}[
        vendor.provider
    ]


RECEIVED = Usage(INPUT, -(-len("".join(PIECES[:2])) // 4))


async def fault_of(vendor: Vendor, streamed: bool, behaviour: Behaviour, **spec) -> ModelFault:
    """The fault of one request."""
    return (await faults_of(vendor, streamed, behaviour, **spec))[0]


async def faults_of(vendor: Vendor, streamed: bool, *script: Behaviour, **spec) -> list[ModelFault]:
    """The faults of as many requests as there are behaviours."""
    faults = []
    with ScriptedServer(*script) as server:
        model = make_provider_model("m", vendor.spec(server, stream=streamed, **spec), KEY)
        for _ in script:
            with pytest.raises(ModelFault) as caught:
                await model.reply(SHORT)
            faults.append(caught.value)
    # One JSON answer to a request for a stream is asked for once more, in one piece.
    assert len(server.requests) - len(script) in (0, int(streamed)), "retrying is not the client's business"
    for one in faults:
        assert KEY not in str(one)
        assert str(one).isprintable()
        assert len(str(one)) < 400
        assert one.__cause__ is None
        assert one.__context__ is None
    return faults


def check_nothing_is_open() -> None:
    # An open connection warns when it is collected, and a warning is an error here.
    gc.collect()


@each_vendor
@each_mode
async def test_too_many_requests_is_a_transient_fault_with_the_servers_wait(vendor, streamed):
    fault = await fault_of(vendor, streamed, refusal(429, f"slow \x1b[31mdown,\n {KEY}!", Retry_After="7"))
    assert (fault.transient, fault.retry_after_seconds, fault.usage) == (True, 7.0, Usage())
    assert str(fault) == "429: too many requests: slow down, [key]!"


@each_vendor
@each_mode
async def test_a_failing_server_is_a_transient_fault(vendor, streamed):
    statuses = (408, 409, 425, 500, 502, 503, 504, 529)
    faults = await faults_of(vendor, streamed, *(refusal(status, "not now") for status in statuses))
    assert [(one.transient, one.usage) for one in faults] == [(True, Usage())] * len(statuses)
    assert [int(str(one).partition(":")[0]) for one in faults] == list(statuses)


@each_vendor
@each_mode
async def test_a_refused_request_is_a_permanent_fault(vendor, streamed):
    statuses = (400, 401, 402, 403, 404, 405, 413, 422)
    faults = await faults_of(vendor, streamed, *(refusal(status, "never") for status in statuses))
    assert [(one.transient, one.usage) for one in faults] == [(False, Usage())] * len(statuses)
    assert [int(str(one).partition(":")[0]) for one in faults] == list(statuses)


async def test_a_refused_key_is_named_by_its_variable():
    assert str(await fault_of(VENDORS[0], True, refusal(401, "bad key"))) == (
        "401: the key in OPENAI_API_KEY was refused: bad key"
    )
    fault = await fault_of(VENDORS[1], True, refusal(403, "no"), key_env="MY_KEY", keyring="vault/me")
    assert str(fault) == "403: the key in MY_KEY, or in the keyring under vault/me was refused: no"


async def test_a_server_that_wants_a_key_gives_the_remedy():
    with ScriptedServer(refusal(401, "who are you?")) as server:
        model = make_provider_model("m", VENDORS[0].spec(server), None)
        with pytest.raises(ModelFault, match=r"asks for a key \(name the variable that holds it in `key_env`\)"):
            await model.reply(SHORT)


async def test_a_used_up_quota_is_a_permanent_fault():
    fault = await fault_of(VENDORS[0], True, refusal(429, "You exceeded your quota", "insufficient_quota"))
    assert not fault.transient
    assert "quota or credit is used up (top it up)" in str(fault)


async def test_a_prompt_that_is_too_long_is_not_sent_again():
    fault = await fault_of(VENDORS[0], True, refusal(400, "maximum is 10 tokens", "context_length_exceeded"))
    assert not fault.transient
    assert "`context_tokens`" in str(fault)


async def test_an_unknown_model_is_named():
    fault = await fault_of(VENDORS[0], True, refusal(404, "what?", "model_not_found"))
    assert "the server has no model 'any-model' (check `model` and `url`)" in str(fault)
    assert "/v1" not in str(fault)


async def test_a_url_without_v1_is_pointed_out():
    with ScriptedServer(refusal(404, "page not fault", "")) as server:
        model = make_provider_model("m", ModelSpec("openai", "m", url=server.url), None)
        with pytest.raises(ModelFault, match=r"`url`; a `url` usually ends in /v1\)"):
            await model.reply(SHORT)


@each_vendor
@each_mode
async def test_redirects_are_not_followed(vendor, streamed):
    with ScriptedServer(answer({})) as other:
        fault = await fault_of(vendor, streamed, raw_answer(b"", 307, Location=f"{other.url}/v1"))
    assert not fault.transient
    assert "loopty follows no redirects: set `url`" in str(fault)
    assert not other.requests


async def test_a_hanging_server_may_have_charged_the_prompt():
    cases = [(vendor, streamed) for vendor in VENDORS for streamed in (False, True)]
    faults = await asyncio.gather(*(fault_of(*case, hang, timeout_seconds=3) for case in cases))
    assert [(one.transient, one.usage) for one in faults] == [(True, Usage(INPUT))] * len(cases)
    assert {str(one) for one in faults} == {"no whole reply within 3 s"}


async def test_a_stalled_stream_may_have_charged_what_came():
    faults = await asyncio.gather(
        *(fault_of(vendor, True, stalled_stream(first_events(vendor)), timeout_seconds=3) for vendor in VENDORS)
    )
    assert [(one.transient, one.usage) for one in faults] == [(True, RECEIVED)] * len(VENDORS)
    check_nothing_is_open()


@each_vendor
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_broken_stream_may_have_charged_what_came(vendor, reset):
    fault = await fault_of(vendor, True, stream(first_events(vendor), whole=False, reset=reset))
    assert fault.transient
    # A reset may discard data that was sent before it.
    assert fault.usage == RECEIVED or (reset and fault.usage.input_tokens == INPUT)
    assert str(fault).startswith("the connection broke: ")


@each_vendor
async def test_a_stream_that_ends_too_early_is_no_reply(vendor):
    fault = await fault_of(vendor, True, unframed_stream(first_events(vendor)))
    assert (fault.transient, fault.usage) == (True, RECEIVED)
    assert str(fault) == "the reply is missing, or ended too early"


@each_vendor
@each_mode
async def test_a_malformed_answer_is_a_transient_fault(vendor, streamed):
    script = (
        hang_up,
        garbage,
        raw_answer(b'{"choices": [', content_type="application/json"),
        raw_answer(b"<html>welcome</html>", content_type="text/html"),
        raw_answer(b"", content_type="application/json"),
        answer({"hello": [1, 2]}),
        answer([1, 2]),
        answer(None),
        stream(["data: {nonsense\n\n"]),
        stream([{"hello": 1}]),
    )
    faults = await faults_of(vendor, streamed, *script)
    assert [(one.transient, one.usage) for one in faults] == [(True, Usage(INPUT))] * len(script)


async def test_an_error_inside_a_stream_is_reported_as_that_error():
    event = {"error": {"message": "Overloaded", "type": "overloaded_error", "code": 503}}
    fault = await fault_of(VENDORS[0], True, stream([*first_events(VENDORS[0]), event]))
    assert (fault.transient, fault.usage) == (True, RECEIVED)
    assert str(fault) == "503: the model is overloaded or down: Overloaded"


@each_vendor
@each_mode
async def test_an_endless_answer_is_abandoned(vendor, streamed):
    kind = "text/event-stream" if streamed else "application/json"
    behaviour = endless_answer(b'data: {"x": "' if streamed else b'{"x": "', b"a" * 4096, kind)
    fault = await fault_of(vendor, streamed, behaviour, max_output_tokens=10)
    assert fault.transient
    assert str(fault) == "the answer is longer than 4,010,000 bytes"


@each_vendor
async def test_an_endless_reply_is_abandoned(vendor):
    pieces = [
        piece if isinstance(piece, str) else f"data: {json.dumps(piece)}\n\n" for piece in first_events(vendor)
    ]
    behaviour = endless_answer("".join(pieces).encode(), pieces[-1].encode())
    fault = await fault_of(vendor, True, behaviour, max_output_tokens=10)
    assert fault.transient
    assert str(fault) == "the reply is longer than 4,096 bytes and was discarded"
    assert fault.usage.output_tokens > 1000
    check_nothing_is_open()


async def test_a_whole_reply_has_the_same_maximum_length():
    fault = await fault_of(VENDORS[0], False, answer(openai_reply("a" * 5000)), max_output_tokens=10)
    assert str(fault) == "the reply is longer than 4,096 bytes and was discarded"


async def test_a_compressed_answer_is_not_unpacked():
    packed = gzip.compress(b"a" * 1_000_000)
    fault = await fault_of(VENDORS[0], False, raw_answer(packed, Content_Encoding="gzip"))
    assert str(fault) == "the server compressed its answer although loopty did not ask for that"


async def test_a_missing_server_costs_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    model = make_provider_model("m", ModelSpec("openai", "m", url=f"http://me:secret@127.0.0.1:{port}/v1"), KEY)
    with pytest.raises(ModelFault, match=f"no connection to 127.0.0.1:{port}: nothing listens there") as caught:
        await model.reply(SHORT)
    assert (caught.value.transient, caught.value.usage) == (True, Usage())


async def test_a_server_without_https_is_reported_as_such():
    async def answer_without_tls(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer_without_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = make_provider_model("m", ModelSpec("openai", "m", url=f"https://127.0.0.1:{port}/v1"), KEY)
        with pytest.raises(ModelFault, match="it does not speak https; write http:// in `url`"):
            await model.reply(SHORT)


async def test_a_host_that_has_no_address_costs_nothing():
    model = make_provider_model("m", ModelSpec("openai", "m", url="http://nowhere.invalid/v1"), KEY)
    with pytest.raises(ModelFault, match="no connection to ") as caught:
        await model.reply(SHORT)
    assert (caught.value.transient, caught.value.usage) == (True, Usage())


@each_vendor
async def test_the_key_appears_in_no_message_and_no_log(vendor, caplog):
    caplog.set_level(logging.DEBUG)
    echoed = f"{KEY} is wrong, I said \x00{KEY[:5]}\x1b[0m{KEY[5:]}, {KEY}" + "." * 9000 + KEY
    with ScriptedServer(refusal(401, echoed), answer({"message": KEY})) as server:
        model = make_provider_model("m", vendor.spec(server, stream=False), KEY)
        faults = []
        for _ in range(2):
            with pytest.raises(ModelFault) as caught:
                await model.reply(SHORT)
            faults.append(f"{caught.value!r} {caught.value}")
    assert KEY in str(server.requests)
    assert KEY not in f"{faults} {model!r} {caplog.text}"


async def test_a_fault_does_not_spoil_the_next_request():
    with ScriptedServer(hang_up, stream(openai_events())) as server:
        model = make_provider_model("m", VENDORS[0].spec(server), KEY)
        with pytest.raises(ModelFault):
            await model.reply(SHORT)
        assert (await model.reply(SHORT)).text == "".join(PIECES)
