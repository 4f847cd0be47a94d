"""A client disconnects, or a trial ends, at any moment of a call: it is settled once, and nothing stays open."""

import asyncio
import random

import pytest

from loopty.record.calls import Spend

from ...models.server import ScriptedServer, answer, hang, hang_up, refusal, stalled_stream, stream
from ...models.vendor_replies import openai_events, openai_reply
from .served_run import ServedRun, chat

CHAT = "/v1/chat/completions"
BEHAVIOURS = {
    "answers": (answer(openai_reply()),),
    "streams": (stream(openai_events()),),
    "stalls": (stalled_stream(openai_events()),),
    "hangs": (hang,),
    "fails at first": (refusal(503, "later"), hang_up, answer(openai_reply())),
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_call_is_settled_once(tmp_path, behaviour, streamed):
    rng = random.Random(repr((len(behaviour), streamed)))
    with ScriptedServer(*behaviour) as server:
        served = ServedRun(tmp_path, url=f"{server.url}/v1")
        for _ in range(8):
            async with served.trial() as (client, _access):
                tasks = [asyncio.create_task(client.post(CHAT, json=chat(stream=streamed))) for _ in range(3)]
                for task in tasks[:2]:
                    for _ in range(rng.randint(0, 60)):
                        await asyncio.sleep(rng.choice([0, 0, 0.0005]))
                    task.cancel()
                await asyncio.gather(*tasks[:2], return_exceptions=True)
            tasks[2].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert Spend.of(served.run).reservations == {}
    assert sorted(event.call for event in served.reserved) == sorted(event.call for event in served.settled)
