"""A model without an HTTP server answers chats, too."""

import json

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage, RoleBudget
from loopty.record.calls import Spend

from .served_run import ServedRun, chat

CHAT = "/v1/chat/completions"
USED = {"input_tokens": 20, "output_tokens": 12, "cached_tokens": 8, "reasoning_tokens": 5}


@pytest.fixture
def serve_script(tmp_path):
    def make(*lines, budget=None):
        (tmp_path / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        settings = {"provider": "scripted", "model": "", "key_env": "", "file": "script.jsonl"}
        return ServedRun(tmp_path, None, budget, **settings)

    return make


async def test_a_script_answers_chats(serve_script):
    served = serve_script({"text": "first", "usage": USED}, {"text": "sec", "usage": USED, "whole": False})
    async with served.trial() as (client, _):
        first = (await client.post(CHAT, json=chat())).json()
        second = (await client.post(CHAT, json=chat())).json()
    assert first["choices"][0]["message"] == {"role": "assistant", "content": "first", "refusal": None}
    assert first["model"] == "scripted:script"
    assert [reply["choices"][0]["finish_reason"] for reply in (first, second)] == ["stop", "length"]
    assert first["usage"]["total_tokens"] == 32
    assert Spend.of(served.run).tokens == {"user": 64}
    assert [(event.role, event.operator, event.node) for event in served.reserved] == [
        ("user", "benchmark", "1.2")
    ] * 2


async def test_a_script_answers_streams(serve_script):
    served = serve_script({"text": "hello", "usage": USED}, {"text": "hello", "usage": USED})
    async with served.trial() as (client, _):
        response = await client.post(CHAT, json=chat(stream=True))
        counted = await client.post(CHAT, json=chat(stream=True, stream_options={"include_usage": True}))
    *events, end = (line.removeprefix("data: ") for line in response.text.splitlines() if line)
    assert end == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(deltas) == "hello"
    assert '"total_tokens": 32' not in response.text
    assert '"total_tokens": 32' in counted.text


async def test_messages_become_a_prompt(serve_script, tmp_path):
    served = serve_script({"text": "{}"})
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    async with served.trial() as (client, _):
        body = {"messages": messages, "response_format": shape, "max_tokens": 7}
        assert (await client.post(CHAT, json=body)).status_code == 200
    (prompt,) = (json.loads(path.read_text())["prompt"] for path in (tmp_path / "calls").iterdir())
    assert (prompt["system"], [message["text"] for message in prompt["messages"]]) == (
        "be brief",
        ["ab", "c", "d"],
    )
    assert (prompt["schema"], prompt["max_output_tokens"]) == ({"type": "object"}, 7)


UNSUPPORTED = {
    "a tool": chat(tools=[{"type": "function"}]),
    "a picture": chat([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
    "a tool's answer": {"messages": [{"role": "tool", "content": "x"}]},
    "no messages": {"messages": "hello"},
    "odd messages": {"messages": ["hello"]},
    "no content": {"messages": [{"role": "user"}]},
}


@pytest.mark.parametrize("body", UNSUPPORTED.values(), ids=UNSUPPORTED)
async def test_content_that_is_not_text_is_refused(serve_script, body):
    served = serve_script({"text": "x"})
    async with served.trial() as (client, _):
        assert (await client.post(CHAT, json=body)).status_code == 400
    assert served.reserved == []


async def test_other_apis_are_refused_with_the_one_to_use(serve_script):
    async with serve_script({"text": "x"}).trial() as (client, _):
        response = await client.post("/v1/messages", json=chat())
    assert (response.status_code, CHAT in response.text) == (400, True)


async def test_a_cap_and_an_outage_are_remembered(serve_script):
    served = serve_script(
        {"fault": "the script says no"}, {"text": "x", "usage": USED}, budget=RoleBudget("user", tokens=110)
    )
    async with served.trial() as (client, access):
        first = await client.post(CHAT, json=chat(max_tokens=50))
        assert isinstance(access.excuse(False), Outage)
        await client.post(CHAT, json=chat(max_tokens=50))
        last = await client.post(CHAT, json=chat(max_tokens=100))
    assert (first.status_code, last.status_code) == (502, 429)
    assert "the script says no" in first.text
    assert isinstance(access.excuse(True), Exhausted)
