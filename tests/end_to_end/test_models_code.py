"""`llm-code` against servers that speak the vendors' APIs: what is kept, refused, paid and shown."""

import json

import pytest

from loopty.kit.model_text import tokens
from loopty.record.nodes import ProposalRefused

from ..models.server import refusal
from .conftest import CODE_TASK, Place
from .serving import evolver, number, permit, vendor, words
from .state import events

KEY = "sk-secret-of-the-code-tests-0123456789"
FORBIDDEN = "=== PROPOSAL 1: easier to please ===\nbench.sh\n```\necho 99\n```\n=== END ==="
SHOWS_ALL = 'env; cat /proc/*/environ 2>/dev/null; echo "{\\"score\\": $(cat src/x.txt)}" > "$EVO_RESULT_PATH"\n'
WIRES = {
    "openai": {"key_env": "LOOPTY_TEST_KEY"},
    "anthropic": {"provider": "anthropic", "key_env": "LOOPTY_TEST_KEY"},
    "google": {"provider": "google", "key_env": "LOOPTY_TEST_KEY"},
}


def task(place: Place, attempts: int, more: str) -> None:
    place.write("loopty.toml", CODE_TASK.format(attempts=f"{attempts}\nquestions = 1") + more)


@pytest.mark.parametrize("streamed", [True, False])
def test_proposals_of_a_server_are_tried_kept_paid_and_shown(code_place, streamed):
    with vendor(number(7), number(3), number(9)) as server:
        task(code_place, 3, evolver(server, stream=streamed, input_usd=1.0, output_usd=10.0))
        closing = code_place.json("optimize", "--quiet")
    assert (closing["best"]["score"], closing["sound"]) == (9.0, True)
    nodes = ("1.1", "1.2", "1.1.1")  # the second was proposed while the first ran
    assert [code_place.history()[node].verdict for node in nodes] == ["kept", "discarded", "kept"]
    assert all(request.body.get("stream", False) is streamed for request in server.requests)

    spent = code_place.json("spend")
    assert (spent["total"]["calls"], spent["total"]["tokens"]) == (3, 360)
    assert spent["total"]["money_usd"] == pytest.approx(3 * (100 * 1.0 + 20 * 10.0) / 1e6)
    assert {row["name"] for row in spent["node"]} == set(nodes)

    (call,) = code_place.json("show", "1.1.1", "--prompt")["calls"]
    sent = server.requests[2].body["messages"]
    assert [call["prompt"]["system"], *(turn["text"] for turn in call["prompt"]["messages"])] == [
        message["content"] for message in sent
    ]
    assert call["reply"]["text"] == number(9)
    assert call["usage"] == {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 0, "reasoning_tokens": 0}


def test_a_model_with_a_small_context_gets_a_shorter_prompt(code_place):
    code_place.write("notes.py", "# Much that may be read.\n" * 20_000)
    with vendor("no change at all " * 2_000, number(7)) as server:
        task(code_place, 1, evolver(server, context_tokens=8192))
        code_place.loopty("optimize")
    first, again = (request.body for request in server.requests)
    for asked in (first, again):
        assert tokens(words(asked["messages"])) + asked["max_tokens"] <= 8192
    assert "notes.py (may only be read, shown in part" in words(first)


def test_unusable_replies_get_one_retry_with_the_reason_and_cost_no_attempt(code_place):
    replies = ("\x00\x1b]0;ha\x07 ðŸ no", "still nothing", FORBIDDEN, number(7), FORBIDDEN, FORBIDDEN, number(8))
    with vendor(*replies) as server:
        task(code_place, 2, evolver(server))
        code_place.loopty("optimize")
    first, again, forbidden, mended, *_ = (request.body["messages"] for request in server.requests)
    assert again[:-2] == first
    assert again[-2]["content"] == "\x00\x1b]0;ha\x07 ðŸ no"
    assert "the reply holds no change" in again[-1]["content"]
    assert len(forbidden) == 2, "the next proposal is a new conversation"
    assert "bench.sh" in mended[-1]["content"]
    assert len(server.requests) == 7

    refused = [event for event in events(code_place) if isinstance(event, ProposalRefused)]
    assert [(event.objection, len(event.calls)) for event in refused] == [("reply", 2), ("forbidden", 2)]
    history = code_place.history()
    assert [history.score(history[node]) for node in ("1.1", "1.1.1")] == [7.0, 8.0]
    assert len(history["1.1"].calls) == 2, "the unusable reply is part of its cost"
    status = code_place.loopty("status").stdout
    assert "attempts  2 of 2: 2 finished" in status
    assert "refused   2 proposals rejected before running; not counted as attempts" in status
    assert "the last one because: may not change bench.sh" in status
    waste = {row["name"]: row["sum"]["calls"] for row in code_place.json("spend")["waste"]}
    assert sum(waste.values()) == 4
    assert "99" not in (code_place.top / "bench.sh").read_text()


@pytest.mark.parametrize("wire", WIRES)
def test_each_vendors_api_works_and_its_key_appears_nowhere(code_place, wire, monkeypatch):
    monkeypatch.setenv("LOOPTY_TEST_KEY", KEY)
    code_place.write("bench.sh", SHOWS_ALL)
    code_place.commit()
    echoing = refusal(503, f"the key {KEY} is fine, but nobody is at home")
    quoting = number(7).replace("x is 7", f"x is 7, says {KEY}")
    with vendor(echoing, quoting, number(9), kind=wire) as server:
        permit(monkeypatch, code_place, server, "LOOPTY_TEST_KEY")
        task(code_place, 2, evolver(server, retries=3, outage_seconds=60.0, **WIRES[wire]))
        runs = [code_place.loopty("optimize")]
    assert len(server.requests) == 3
    assert all(any(KEY in value for value in request.headers.values()) for request in server.requests)
    assert "says [key]" in words(server.requests[2].body)

    history = code_place.history()
    assert [history.score(history[node]) for node in ("1.1", "1.2")] == [7.0, 9.0]
    runs += [
        code_place.loopty(*verb)
        for verb in (
            ("spend", "--json"),
            ("show", "1.1", "--prompt"),
            ("model", "list"),
        )
    ]
    assert json.loads(runs[1].stdout)["total"]["tokens"] == 240, "requests without an answer cost nothing"
    assert "[key]" in runs[2].stdout
    assert all(KEY not in done.stdout + done.stderr for done in runs)
    holding = [path for path in code_place.top.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert holding == []
    assert "EVO_RESULT_PATH=" in (code_place.top / ".loopty/nodes/1.1/stdout.log").read_text()
