"""The allowance of a trial's requests: beyond it that trial is refused, and no other."""

import asyncio
import json

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Outage, RoleBudget
from loopty.domain.task import Pools
from loopty.record.calls import Spend

from ...models.server import ScriptedServer, answer, hang, hang_up
from ...models.vendor_replies import openai_reply
from .served_run import ServedRun, chat

CHAT = "/v1/chat/completions"
WAIT_SECONDS = 60
USED = 32
"""The usage that each reply reports; a request is estimated at about 110."""


@pytest.fixture
def server():
    with ScriptedServer(answer(openai_reply())) as server:
        yield server


def serve(folder, server, pools=None, **limits):
    cache = limits.pop("cache", "never")
    return ServedRun(folder, pools, RoleBudget("user", cache=cache, **limits), url=f"{server.url}/v1")


async def test_a_trial_that_exceeds_its_allowance_is_refused_and_the_next_is_not(tmp_path, server):
    served = serve(tmp_path, server, trial_tokens=150)
    async with served.trial() as (client, access):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
        response = await client.post(CHAT, json=chat())
    assert statuses == [200, 200, 429]
    assert response.json()["error"]["type"] == "insufficient_quota"
    assert "on top of 64 used would pass the 150 that one trial may use (trial_tokens" in response.text
    assert response.headers["x-should-retry"] == "false"
    assert "trial_tokens" in str(access.allowance_exceeded)
    assert access.excuse(True) is None
    async with served.trial() as (client, access):
        assert (await client.post(CHAT, json=chat())).status_code == 200
    assert access.allowance_exceeded is None
    assert Spend.of(served.run).tokens == {"user": 3 * USED}


async def test_money_is_limited_too(tmp_path, server):
    priced = {"url": f"{server.url}/v1", "input_usd": 100.0, "output_usd": 1000.0}
    served = ServedRun(tmp_path, None, RoleBudget("user", cache="never", trial_money_usd=0.12), **priced)
    async with served.trial() as (client, access):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert "trial_money_usd" in str(access.allowance_exceeded)


def test_a_money_limit_without_a_price_is_refused(tmp_path):
    nowhere = {"url": "https://models.invalid/v1"}
    with pytest.raises(Misuse, match=r"or cap trial_tokens under \[roles.user\]"):
        ServedRun(tmp_path, None, RoleBudget("user", tokens=1000, trial_money_usd=1.0), **nowhere)
    ServedRun(tmp_path, None, RoleBudget("user", trial_tokens=1000, trial_money_usd=1.0), **nowhere)


async def test_concurrent_requests_wait_for_each_other_and_keep_the_allowance(tmp_path, server):
    served = serve(tmp_path, server, trial_tokens=250)
    async with served.trial() as (client, access):
        responses = await asyncio.gather(*(client.post(CHAT, json=chat()) for _ in range(8)))
    statuses = [response.status_code for response in responses]
    assert set(statuses) == {200, 429}
    assert Spend.of(served.run).tokens == {"user": statuses.count(200) * USED}
    assert Spend.of(served.run).tokens["user"] <= 250
    assert (access.allowance_exceeded is None, access.exhausted) == (False, None)


async def test_concurrent_trials_have_an_allowance_each(tmp_path, server):
    served = serve(tmp_path, server, trial_tokens=200)
    async with served.trial() as (one, first), served.trial() as (other, second):
        for client in (one, other) * 3:
            assert (await client.post(CHAT, json=chat())).status_code == 200
        assert (await one.post(CHAT, json=chat())).status_code == 429
        assert (await other.post(CHAT, json=chat(max_tokens=50))).status_code == 200
    assert first.allowance_exceeded is not None
    assert second.allowance_exceeded is None


async def test_cached_replies_cost_a_trial_nothing(tmp_path, server):
    served = serve(tmp_path, server, trial_tokens=150, cache="always")
    async with served.trial() as (client, access):
        statuses = {(await client.post(CHAT, json=chat())).status_code for _ in range(9)}
    assert (statuses, access.allowance_exceeded) == ({200}, None)


async def test_a_used_up_cap_of_the_run_is_not_the_candidates_fault(tmp_path, server):
    served = serve(tmp_path, server, Pools(tokens=150), trial_tokens=1000)
    async with served.trial() as (client, access):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert (access.exhausted is None, access.allowance_exceeded) == (False, None)


async def test_broken_answers_are_not_blamed_on_the_candidate(tmp_path):
    with ScriptedServer(hang_up, answer(openai_reply())) as server:
        served = serve(tmp_path, server, trial_tokens=200)
        async with served.trial() as (client, access):
            response = await client.post(CHAT, json=chat())
    assert response.status_code == 502
    assert "requests without an answer have used up the trial's allowance" in response.text
    assert isinstance(access.excuse(False), Outage)
    assert access.allowance_exceeded is None


async def test_a_candidate_that_hangs_up_pays_for_it(tmp_path):
    with ScriptedServer(hang) as server:
        served = serve(tmp_path, server, trial_tokens=200)
        async with served.trial() as (client, access):
            task = asyncio.create_task(client.post(CHAT, json=chat()))
            assert await asyncio.to_thread(server.asked.wait, WAIT_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            response = await client.post(CHAT, json=chat())
    assert response.status_code == 429
    assert access.allowance_exceeded is not None


async def test_a_model_without_an_http_server_has_the_same_allowance(tmp_path):
    reply = {"text": "x", "usage": {"input_tokens": 20, "output_tokens": 12}}
    (tmp_path / "script.jsonl").write_text((json.dumps(reply) + "\n") * 3)
    settings = {"provider": "scripted", "model": "", "key_env": "", "file": "script.jsonl"}
    served = ServedRun(tmp_path, None, RoleBudget("user", cache="never", trial_tokens=150), **settings)
    async with served.trial() as (client, access):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert access.allowance_exceeded is not None
