"""What comes of a request when the server, the network or the key is not what it should be."""

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
from .test_provider_wire import KEY, SHORT, VENDORS, Vendor, each_vendor, each_way
from .vendor_replies import PIECES, openai_events, openai_reply

INPUT = 3
"""Tokens of the prompt, as estimated."""


def begun(vendor: Vendor) -> list:
    """The first events of a reply, up to its first two pieces."""
    return {"openai": vendor.events()[:3], "anthropic": vendor.events()[:5], "google": vendor.events()[:2]}[
        vendor.provider
    ]


RECEIVED = Usage(INPUT, -(-len("".join(PIECES[:2])) // 4))


async def fault(vendor: Vendor, streamed: bool, behaviour: Behaviour, **stated) -> ModelFault:
    """The fault of the one request that is made."""
    return (await faults(vendor, streamed, behaviour, **stated))[0]


async def faults(vendor: Vendor, streamed: bool, *script: Behaviour, **stated) -> list[ModelFault]:
    """The faults of as many requests as there are behaviours."""
    found = []
    with ScriptedServer(*script) as server:
        model = make_provider_model("m", vendor.stated(server, stream=streamed, **stated), KEY)
        for _ in script:
            with pytest.raises(ModelFault) as caught:
                await model.reply(SHORT)
            found.append(caught.value)
    assert len(server.requests) == len(script), "retrying is not the client's business"
    for one in found:
        assert KEY not in str(one)
        assert str(one).isprintable()
        assert len(str(one)) < 400
        assert one.__cause__ is None
        assert one.__context__ is None
    return found


def nothing_is_left_open() -> None:
    # What was left open complains when it is collected, and a complaint is an error here.
    gc.collect()


@each_vendor
@each_way
async def test_too_many_requests_pass_when_the_server_says(vendor, streamed):
    found = await fault(vendor, streamed, refusal(429, f"slow \x1b[31mdown,\n {KEY}!", Retry_After="7"))
    assert (found.transient, found.retry_after_seconds, found.usage) == (True, 7.0, Usage())
    assert str(found) == "429: too many requests: slow down, [key]!"


@each_vendor
@each_way
async def test_a_server_that_fails_is_asked_again(vendor, streamed):
    states = (408, 409, 425, 500, 502, 503, 504, 529)
    found = await faults(vendor, streamed, *(refusal(status, "not now") for status in states))
    assert [(one.transient, one.usage) for one in found] == [(True, Usage())] * len(states)
    assert [int(str(one).partition(":")[0]) for one in found] == list(states)


@each_vendor
@each_way
async def test_a_request_that_is_refused_is_refused_for_good(vendor, streamed):
    states = (400, 401, 402, 403, 404, 405, 413, 422)
    found = await faults(vendor, streamed, *(refusal(status, "never") for status in states))
    assert [(one.transient, one.usage) for one in found] == [(False, Usage())] * len(states)
    assert [int(str(one).partition(":")[0]) for one in found] == list(states)


async def test_a_refused_key_is_named_by_its_variable():
    assert str(await fault(VENDORS[0], True, refusal(401, "bad key"))) == (
        "401: the key in OPENAI_API_KEY was refused: bad key"
    )
    found = await fault(VENDORS[1], True, refusal(403, "no"), key_env="MY_KEY", keyring="vault/me")
    assert str(found) == "403: the key in MY_KEY, or in the keyring under vault/me was refused: no"


async def test_a_server_that_wants_a_key_says_how_to_give_one():
    with ScriptedServer(refusal(401, "who are you?")) as server:
        model = make_provider_model("m", VENDORS[0].stated(server), None)
        with pytest.raises(ModelFault, match="asks for a key, name the variable that has it in `key_env`"):
            await model.reply(SHORT)


async def test_an_empty_account_is_not_asked_again():
    found = await fault(VENDORS[0], True, refusal(429, "You exceeded your quota", "insufficient_quota"))
    assert not found.transient
    assert "quota or credit is used up, top it up" in str(found)


async def test_a_prompt_that_is_too_long_is_not_sent_again():
    found = await fault(VENDORS[0], True, refusal(400, "maximum is 10 tokens", "context_length_exceeded"))
    assert not found.transient
    assert "`context_tokens`" in str(found)


async def test_an_unknown_model_is_named():
    found = await fault(VENDORS[0], True, refusal(404, "what?", "model_not_found"))
    assert "no model 'any-model' there, look at `model` and `url`" in str(found)
    assert "/v1" not in str(found)


async def test_an_address_that_lacks_its_usual_end_is_named():
    with ScriptedServer(refusal(404, "page not found", "")) as server:
        model = make_provider_model("m", ModelSpec("openai", "m", url=server.url), None)
        with pytest.raises(ModelFault, match="`url`, which mostly ends in /v1"):
            await model.reply(SHORT)


@each_vendor
@each_way
async def test_redirects_are_not_followed(vendor, streamed):
    with ScriptedServer(answer({})) as elsewhere:
        found = await fault(vendor, streamed, raw_answer(b"", 307, Location=f"{elsewhere.url}/v1"))
    assert not found.transient
    assert "redirects are not followed: set `url`" in str(found)
    assert not elsewhere.requests


async def test_a_server_that_hangs_may_have_charged_the_prompt():
    ways = [(vendor, streamed) for vendor in VENDORS for streamed in (False, True)]
    found = await asyncio.gather(*(fault(*way, hang, timeout_seconds=3) for way in ways))
    assert [(one.transient, one.usage) for one in found] == [(True, Usage(INPUT))] * len(ways)
    assert {str(one) for one in found} == {"no whole reply within 3 s"}


async def test_a_stream_that_stalls_may_have_charged_what_came():
    found = await asyncio.gather(
        *(fault(vendor, True, stalled_stream(begun(vendor)), timeout_seconds=3) for vendor in VENDORS)
    )
    assert [(one.transient, one.usage) for one in found] == [(True, RECEIVED)] * len(VENDORS)
    nothing_is_left_open()


@each_vendor
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_stream_that_breaks_off_may_have_charged_what_came(vendor, reset):
    found = await fault(vendor, True, stream(begun(vendor), whole=False, reset=reset))
    assert found.transient
    # A reset may throw away what was sent before it.
    assert found.usage == RECEIVED or (reset and found.usage.input_tokens == INPUT)
    assert str(found).startswith("the connection broke off: ")


@each_vendor
async def test_a_stream_that_ends_too_early_is_no_reply(vendor):
    found = await fault(vendor, True, unframed_stream(begun(vendor)))
    assert (found.transient, found.usage) == (True, RECEIVED)
    assert str(found) == "the reply is missing, or broke off before its end"


@each_vendor
@each_way
async def test_an_answer_that_makes_no_sense_is_asked_for_again(vendor, streamed):
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
    found = await faults(vendor, streamed, *script)
    assert [(one.transient, one.usage) for one in found] == [(True, Usage(INPUT))] * len(script)


async def test_an_error_inside_of_a_stream_is_that_error():
    event = {"error": {"message": "Overloaded", "type": "overloaded_error", "code": 503}}
    found = await fault(VENDORS[0], True, stream([*begun(VENDORS[0]), event]))
    assert (found.transient, found.usage) == (True, RECEIVED)
    assert str(found) == "503: the model is overloaded or down: Overloaded"


@each_vendor
@each_way
async def test_an_answer_without_end_is_left(vendor, streamed):
    kind = "text/event-stream" if streamed else "application/json"
    behaviour = endless_answer(b'data: {"x": "' if streamed else b'{"x": "', b"a" * 4096, kind)
    found = await fault(vendor, streamed, behaviour, max_output_tokens=10)
    assert found.transient
    assert str(found) == "the answer is longer than 4,010,000 bytes"


@each_vendor
async def test_a_reply_without_end_is_left(vendor):
    pieces = [piece if isinstance(piece, str) else f"data: {json.dumps(piece)}\n\n" for piece in begun(vendor)]
    behaviour = endless_answer("".join(pieces).encode(), pieces[-1].encode())
    found = await fault(vendor, True, behaviour, max_output_tokens=10)
    assert found.transient
    assert str(found) == "the reply is longer than 4,096 bytes, and was cut off"
    assert found.usage.output_tokens > 1000
    nothing_is_left_open()


async def test_a_whole_reply_may_not_be_longer_either():
    found = await fault(VENDORS[0], False, answer(openai_reply("a" * 5000)), max_output_tokens=10)
    assert str(found) == "the reply is longer than 4,096 bytes, and was cut off"


async def test_an_answer_is_not_unpacked():
    packed = gzip.compress(b"a" * 1_000_000)
    found = await fault(VENDORS[0], False, raw_answer(packed, Content_Encoding="gzip"))
    assert str(found) == "the server packed its answer without being asked to"


async def test_a_server_that_is_not_there_costs_nothing():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    model = make_provider_model("m", ModelSpec("openai", "m", url=f"http://me:secret@127.0.0.1:{port}/v1"), KEY)
    with pytest.raises(ModelFault, match=f"no connection to 127.0.0.1:{port}: nobody listens there") as caught:
        await model.reply(SHORT)
    assert (caught.value.transient, caught.value.usage) == (True, Usage())


async def test_a_server_that_speaks_no_https_is_told_as_that():
    async def plain(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = make_provider_model("m", ModelSpec("openai", "m", url=f"https://127.0.0.1:{port}/v1"), KEY)
        with pytest.raises(ModelFault, match="it does not speak https, say http:// in `url`"):
            await model.reply(SHORT)


async def test_a_host_that_has_no_address_costs_nothing():
    model = make_provider_model("m", ModelSpec("openai", "m", url="http://nowhere.invalid/v1"), KEY)
    with pytest.raises(ModelFault, match="no connection to ") as caught:
        await model.reply(SHORT)
    assert (caught.value.transient, caught.value.usage) == (True, Usage())


@each_vendor
async def test_the_key_is_in_no_text_that_anybody_sees(vendor, caplog):
    caplog.set_level(logging.DEBUG)
    echoed = f"{KEY} is wrong, I said \x00{KEY[:5]}\x1b[0m{KEY[5:]}, {KEY}" + "." * 9000 + KEY
    with ScriptedServer(refusal(401, echoed), answer({"message": KEY})) as server:
        model = make_provider_model("m", vendor.stated(server, stream=False), KEY)
        faults = []
        for _ in range(2):
            with pytest.raises(ModelFault) as caught:
                await model.reply(SHORT)
            faults.append(f"{caught.value!r} {caught.value}")
    assert KEY in str(server.requests)
    assert KEY not in f"{faults} {model!r} {caplog.text}"


async def test_a_fault_does_not_spoil_the_next_request():
    with ScriptedServer(hang_up, stream(openai_events())) as server:
        model = make_provider_model("m", VENDORS[0].stated(server), KEY)
        with pytest.raises(ModelFault):
            await model.reply(SHORT)
        assert (await model.reply(SHORT)).text == "".join(PIECES)
