"""A user role with several models: each conversation is answered by one of them, drawn by weight."""

from collections import Counter

from loopty.domain.model import ModelSpec, RoleBudget
from loopty.features.endpoint.answers import EndpointModel, draw_model

from ...models.server import ScriptedServer, answer
from ...models.vendor_replies import openai_reply
from .served_run import MODEL, ServedRun, chat

MODELS = [
    EndpointModel(name, ModelSpec("openai", name), None, weight) for name, weight in (("a", 1.0), ("b", 0.25))
]
RULE = {"role": "system", "content": "You are a user."}


def body(text, *later, rules=(RULE,)):
    return {"messages": [*rules, {"role": "user", "content": text}, *later]}


def test_models_are_drawn_by_weight():
    drawn = Counter(draw_model(body(f"episode {number}"), MODELS).name for number in range(500))
    assert 60 < drawn["b"] < 140, "a fifth of them"


def test_all_turns_of_a_conversation_have_the_same_model():
    later = {"role": "assistant", "content": "yes"}, {"role": "user", "content": "why?"}
    for number in range(40):
        text = f"episode {number}"
        assert draw_model(body(text), MODELS) is draw_model(body(text, *later), MODELS)
        assert draw_model(body(text, rules=()), MODELS) is draw_model(body(text, *later, rules=()), MODELS)
    gemini = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
    again = {"contents": [*gemini["contents"], {"role": "model"}]}
    assert draw_model(gemini, MODELS) is draw_model(again, MODELS)


def test_a_request_of_any_shape_has_a_model():
    for odd in ({}, {"messages": "x"}, {"messages": [1, None]}, {"input": {"a": 1}}, {"messages": [RULE]}):
        assert draw_model(odd, MODELS) in MODELS


async def test_each_model_is_asked_and_paid_under_its_own_name_and_cached_apart(tmp_path):
    with ScriptedServer(answer(openai_reply("one"))) as server:
        budget = RoleBudget("user", models={"openai:other": 1.0}, cache="auto")
        served = ServedRun(tmp_path, budget=budget, url=f"{server.url}/v1", more={"openai:other": "other"})
        async with served.trial() as (client, access):
            for number in range(12):
                for _ in range(2):
                    sent = await client.post("/v1/chat/completions", json=chat(f"x{number}", temperature=0))
                    assert sent.status_code == 200
        assert access.model == MODEL
        asked = Counter(request.body["model"] for request in server.requests)
    assert set(asked) == {MODEL, "other"}
    assert sum(asked.values()) == 12, "the second one of each came from the cache"
    paid = Counter(event.model for event in served.reserved if event.operator == "benchmark")
    assert sorted(paid.values()) == sorted(asked.values())
