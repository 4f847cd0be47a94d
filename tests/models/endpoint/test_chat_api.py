"""A model that is not spoken to over HTTP answers chats all the same."""

import json

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage
from loopty.domain.task import RoleBudget
from loopty.record.calls import Spend

from .desk import ServedRun, chat

CHAT = "/v1/chat/completions"
USED = {"input_tokens": 20, "output_tokens": 12, "cached_tokens": 8, "reasoning_tokens": 5}


@pytest.fixture
def scripted(tmp_path):
    def made(*lines, funds=None):
        (tmp_path / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        settings = {"provider": "scripted", "model": "", "key_env": "", "file": "script.jsonl"}
        return ServedRun(tmp_path, None, funds, **settings)

    return made


async def test_a_script_answers_chats(scripted):
    desk = scripted({"text": "first", "usage": USED}, {"text": "sec", "usage": USED, "whole": False})
    async with desk.trial() as (client, _):
        first = (await client.post(CHAT, json=chat())).json()
        second = (await client.post(CHAT, json=chat())).json()
    assert first["choices"][0]["message"] == {"role": "assistant", "content": "first", "refusal": None}
    assert first["model"] == "scripted:script"
    assert [reply["choices"][0]["finish_reason"] for reply in (first, second)] == ["stop", "length"]
    assert first["usage"]["total_tokens"] == 32
    assert Spend.of(desk.run).tokens == {"user": 64}
    assert [(event.role, event.operator, event.node) for event in desk.reserved] == [
        ("user", "benchmark", "1.2")
    ] * 2


async def test_a_script_answers_streams(scripted):
    desk = scripted({"text": "hello", "usage": USED}, {"text": "hello", "usage": USED})
    async with desk.trial() as (client, _):
        found = await client.post(CHAT, json=chat(stream=True))
        counted = await client.post(CHAT, json=chat(stream=True, stream_options={"include_usage": True}))
    *events, end = (line.removeprefix("data: ") for line in found.text.splitlines() if line)
    assert end == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(deltas) == "hello"
    assert '"total_tokens": 32' not in found.text
    assert '"total_tokens": 32' in counted.text


async def test_messages_become_a_prompt(scripted, tmp_path):
    desk = scripted({"text": "{}"})
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    async with desk.trial() as (client, _):
        body = {"messages": messages, "response_format": shape, "max_tokens": 7}
        assert (await client.post(CHAT, json=body)).status_code == 200
    (kept,) = (json.loads(path.read_text())["prompt"] for path in (tmp_path / "calls").iterdir())
    assert (kept["system"], [turn["text"] for turn in kept["messages"]]) == ("be brief", ["ab", "c", "d"])
    assert (kept["schema"], kept["max_output_tokens"]) == ({"type": "object"}, 7)


UNSPOKEN = {
    "a tool": chat(tools=[{"type": "function"}]),
    "a picture": chat([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
    "a tool's answer": {"messages": [{"role": "tool", "content": "x"}]},
    "no messages": {"messages": "hello"},
    "odd messages": {"messages": ["hello"]},
    "no content": {"messages": [{"role": "user"}]},
}


@pytest.mark.parametrize("body", UNSPOKEN.values(), ids=UNSPOKEN)
async def test_what_is_no_text_is_refused(scripted, body):
    desk = scripted({"text": "x"})
    async with desk.trial() as (client, _):
        assert (await client.post(CHAT, json=body)).status_code == 400
    assert desk.reserved == []


async def test_other_apis_are_refused_with_the_one_to_use(scripted):
    async with scripted({"text": "x"}).trial() as (client, _):
        found = await client.post("/v1/messages", json=chat())
    assert (found.status_code, CHAT in found.text) == (400, True)


async def test_a_cap_and_an_outage_are_remembered(scripted):
    desk = scripted(
        {"fault": "the script says no"}, {"text": "x", "usage": USED}, funds=RoleBudget("user", tokens=110)
    )
    async with desk.trial() as (client, door):
        first = await client.post(CHAT, json=chat(max_tokens=50))
        assert isinstance(door.excuse(False), Outage)
        await client.post(CHAT, json=chat(max_tokens=50))
        last = await client.post(CHAT, json=chat(max_tokens=100))
    assert (first.status_code, last.status_code) == (502, 429)
    assert "the script says no" in first.text
    assert isinstance(door.excuse(True), Exhausted)
