"""A benchmark's model that is unavailable during a check or a replay by hand."""

import json

from ..models.server import refusal
from .serving import vendor
from .test_models_user import echo, working


def test_an_outage_is_reported_with_the_same_message_as_in_a_session(place):
    down, expected = refusal(500, "the cat sleeps"), "a model is unavailable: openai:m-1 gave no reply"
    with vendor(echo, down) as server:
        working(place, server, 1, 1, {})
        place.loopty("run", "1")
        node = place.json("new", "--param", "x=0.25")["node"]
        for verb, again in {
            ("run", "1", "--check"): "run @1 --check",
            ("replay", "1"): "replay 1",
            ("run", node): "run 1.1",
        }.items():
            done = place.loopty(*verb, code=1)
            assert expected in done.stderr
            assert done.stderr.endswith(f"again: loopty {again}\n")
            assert done.stdout == ""
        checked = json.loads(place.loopty("run", "1", "--check", "--json", code=1).stdout)
        assert checked["ok"] is False
        assert checked["reason"].startswith(expected)
        replayed = json.loads(place.loopty("replay", "1", "--json", code=1).stdout)
        assert replayed["reason"].startswith(expected)
    assert place.history()[node].verdict is None, "the outage does not count against the node"
