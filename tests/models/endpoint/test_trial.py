"""What the requests of one trial may cost together: beyond it that trial is refused, and no other."""

import asyncio
import json

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Outage
from loopty.domain.task import Pools, RoleBudget
from loopty.record.calls import Spend

from ..server import ScriptedServer, answer, hang, hang_up
from ..vendor_replies import openai_reply
from .desk import ServedRun, chat

CHAT = "/v1/chat/completions"
PATIENCE = 60
USED = 32
"""What each reply says that it used; a request is estimated at about 110."""


@pytest.fixture
def server():
    with ScriptedServer(answer(openai_reply())) as server:
        yield server


def served(folder, server, pools=None, **limits):
    cache = limits.pop("cache", "never")
    return ServedRun(folder, pools, RoleBudget("user", cache=cache, **limits), url=f"{server.url}/v1")


async def test_a_trial_that_wants_more_is_refused_and_the_next_is_not(tmp_path, server):
    desk = served(tmp_path, server, trial_tokens=150)
    async with desk.trial() as (client, door):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
        found = await client.post(CHAT, json=chat())
    assert statuses == [200, 200, 429]
    assert found.json()["error"]["type"] == "insufficient_quota"
    assert "beside 64 used would pass the 150 that one trial may use (trial_tokens" in found.text
    assert found.headers["x-should-retry"] == "false"
    assert "trial_tokens" in str(door.allowance_exceeded)
    assert door.excuse(True) is None
    async with desk.trial() as (client, door):
        assert (await client.post(CHAT, json=chat())).status_code == 200
    assert door.allowance_exceeded is None
    assert Spend.of(desk.run).tokens == {"user": 3 * USED}


async def test_money_is_bounded_too(tmp_path, server):
    priced = {"url": f"{server.url}/v1", "input_usd": 100.0, "output_usd": 1000.0}
    desk = ServedRun(tmp_path, None, RoleBudget("user", cache="never", trial_money_usd=0.12), **priced)
    async with desk.trial() as (client, door):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert "trial_money_usd" in str(door.allowance_exceeded)


def test_money_that_cannot_be_counted_is_no_bound(tmp_path):
    nowhere = {"url": "https://models.invalid/v1"}
    with pytest.raises(Misuse, match=r"or cap trial_tokens under \[roles.user\]"):
        ServedRun(tmp_path, None, RoleBudget("user", tokens=1000, trial_money_usd=1.0), **nowhere)
    ServedRun(tmp_path, None, RoleBudget("user", trial_tokens=1000, trial_money_usd=1.0), **nowhere)


async def test_many_at_once_wait_for_each_other_and_keep_to_it(tmp_path, server):
    desk = served(tmp_path, server, trial_tokens=250)
    async with desk.trial() as (client, door):
        found = await asyncio.gather(*(client.post(CHAT, json=chat()) for _ in range(8)))
    statuses = [reply.status_code for reply in found]
    assert set(statuses) == {200, 429}
    assert Spend.of(desk.run).tokens == {"user": statuses.count(200) * USED}
    assert Spend.of(desk.run).tokens["user"] <= 250
    assert (door.allowance_exceeded is None, door.exhausted) == (False, None)


async def test_trials_at_the_same_time_have_an_allowance_each(tmp_path, server):
    desk = served(tmp_path, server, trial_tokens=200)
    async with desk.trial() as (one, first), desk.trial() as (other, second):
        for client in (one, other) * 3:
            assert (await client.post(CHAT, json=chat())).status_code == 200
        assert (await one.post(CHAT, json=chat())).status_code == 429
        assert (await other.post(CHAT, json=chat(max_tokens=50))).status_code == 200
    assert first.allowance_exceeded is not None
    assert second.allowance_exceeded is None


async def test_replies_that_are_given_again_cost_a_trial_nothing(tmp_path, server):
    desk = served(tmp_path, server, trial_tokens=150, cache="always")
    async with desk.trial() as (client, door):
        statuses = {(await client.post(CHAT, json=chat())).status_code for _ in range(9)}
    assert (statuses, door.allowance_exceeded) == ({200}, None)


async def test_a_spent_cap_of_the_run_is_still_nobodys_fault(tmp_path, server):
    desk = served(tmp_path, server, Pools(tokens=150), trial_tokens=1000)
    async with desk.trial() as (client, door):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert (door.exhausted is None, door.allowance_exceeded) == (False, None)


async def test_answers_that_broke_off_on_the_way_are_not_held_against_the_candidate(tmp_path):
    with ScriptedServer(hang_up, answer(openai_reply())) as server:
        desk = served(tmp_path, server, trial_tokens=200)
        async with desk.trial() as (client, door):
            found = await client.post(CHAT, json=chat())
    assert found.status_code == 502
    assert "requests without an answer have used up what a trial may spend" in found.text
    assert isinstance(door.excuse(False), Outage)
    assert door.allowance_exceeded is None


async def test_a_candidate_that_hangs_up_pays_for_it(tmp_path):
    with ScriptedServer(hang) as server:
        desk = served(tmp_path, server, trial_tokens=200)
        async with desk.trial() as (client, door):
            asking = asyncio.create_task(client.post(CHAT, json=chat()))
            assert await asyncio.to_thread(server.asked.wait, PATIENCE)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            found = await client.post(CHAT, json=chat())
    assert found.status_code == 429
    assert door.allowance_exceeded is not None


async def test_a_model_that_is_not_spoken_to_over_http_is_bounded_too(tmp_path):
    reply = {"text": "x", "usage": {"input_tokens": 20, "output_tokens": 12}}
    (tmp_path / "script.jsonl").write_text((json.dumps(reply) + "\n") * 3)
    settings = {"provider": "scripted", "model": "", "key_env": "", "file": "script.jsonl"}
    desk = ServedRun(tmp_path, None, RoleBudget("user", cache="never", trial_tokens=150), **settings)
    async with desk.trial() as (client, door):
        statuses = [(await client.post(CHAT, json=chat())).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert door.allowance_exceeded is not None
