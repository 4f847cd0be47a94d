"""A client leaves, or a trial ends, at any moment of a call: it is settled once, and nothing is left open."""

import asyncio
import random

import pytest

from loopty.record.calls import Spend

from ..server import ScriptedServer, answer, hang, hang_up, refusal, stalled_stream, stream
from ..vendor_replies import openai_events, openai_reply
from .desk import ServedRun, chat

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
async def test_whenever_a_call_is_broken_off_it_is_settled_once(tmp_path, behaviour, streamed):
    rng = random.Random(repr((len(behaviour), streamed)))
    with ScriptedServer(*behaviour) as server:
        desk = ServedRun(tmp_path, url=f"{server.url}/v1")
        for _ in range(8):
            async with desk.trial() as (client, _door):
                asking = [asyncio.create_task(client.post(CHAT, json=chat(stream=streamed))) for _ in range(3)]
                for task in asking[:2]:
                    for _ in range(rng.randint(0, 60)):
                        await asyncio.sleep(rng.choice([0, 0, 0.0005]))
                    task.cancel()
                await asyncio.gather(*asking[:2], return_exceptions=True)
            asking[2].cancel()
            await asyncio.gather(*asking, return_exceptions=True)
    assert Spend.of(desk.run).reservations == {}
    assert sorted(event.call for event in desk.reserved) == sorted(event.call for event in desk.settled)
