"""Caps on tokens and money hold at any width, and the run says which one ended it."""

import itertools

import pytest

from loopty.record.calls import CallReserved, CallSettled

from ..models.vendor_replies import Counts
from .conftest import CODE_TASK, Place
from .serving import model, number, table, vendor
from .state import events

LARGE = Counts(input=4_000, output=9_000, cached=0, reasoning=0)
CAP = 60_000


def wide(place: Place, more: str, pools: str = "") -> None:
    text = CODE_TASK.format(attempts=100)
    place.write("loopty.toml", f"width = 8\n{text}{pools}\n{more}" + table("noise", repeat="never"))


def evolving(server, funds: dict, **keys) -> str:
    more = model(server, **{"max_output_tokens": 4096, **keys}) + table("roles.evolver", model="near", **funds)
    return more + table("proposer", kind="llm-code")


def endless():
    counter = itertools.count(1)
    return vendor(lambda _: number(f"{next(counter)}.25"), counts=LARGE)


@pytest.mark.parametrize("whose", ["role", "run"])
def test_a_cap_on_tokens_is_passed_by_no_more_than_one_call_above_its_estimate(code_place, whose):
    with endless() as server:
        funds, pools = ({"tokens": CAP}, "") if whose == "role" else ({}, f"tokens = {CAP}")
        wide(code_place, evolving(server, funds), pools)
        done = code_place.loopty("optimize")
    reserved = {event.call: event.tokens for event in events(code_place) if isinstance(event, CallReserved)}
    settled = {event.call: event.tokens for event in events(code_place) if isinstance(event, CallSettled)}
    assert reserved.keys() == settled.keys()
    above = max(settled[call] - reserved[call] for call in settled)
    assert sum(settled.values()) <= CAP + above
    assert sum(settled.values()) >= CAP - LARGE.input - LARGE.output
    expected = {
        "role": "more tokens would pass the limit of 60000 for the evolver",
        "run": "of 60000 tokens are spent",
    }
    assert expected[whose] in done.stdout.replace("\n", " ")
    assert code_place.json("spend")["caps"] == [
        {"whose": "evolver" if whose == "role" else "run", "tokens": CAP, "money_usd": None}
    ]


def test_a_cap_on_money_needs_a_known_price(code_place):
    with endless() as server:
        wide(code_place, evolving(server, {"money_usd": 0.5}, url="http://gateway.internal/v1"))
        refused = code_place.loopty("optimize", code=2)
        assert "model near has no known price: give input_usd and output_usd under [models.near]" in refused.stderr
        assert "or cap tokens under [budget] or [roles.evolver]" in refused.stderr

        wide(code_place, evolving(server, {"money_usd": 0.5}, input_usd=2.0, output_usd=10.0))
        done = code_place.loopty("optimize")
    paid = {event.call: event.money_usd for event in events(code_place) if isinstance(event, CallSettled)}
    reserved = {event.call: event.money_usd for event in events(code_place) if isinstance(event, CallReserved)}
    each = (LARGE.input * 2.0 + LARGE.output * 10.0) / 1e6
    assert list(paid.values()) == [pytest.approx(each)] * len(server.requests)
    assert sum(paid.values()) <= 0.5 + max(paid[call] - reserved[call] for call in paid)
    assert "more would pass the limit of $0.50 for the evolver" in done.stdout.replace("\n", " ")
    assert code_place.json("spend")["total"]["money_usd"] == pytest.approx(sum(paid.values()))
