"""`llm-parameters` and the ladder through the command line."""

import json

from loopty.record.nodes import ProposalRefused
from loopty.record.search_summary import RungChanged

from ..models.server import refusal
from .conftest import ECHO_X, NUMBER_BENCH, PARAMETER_TASK, Place
from .serving import evolver, model, number, table, vendor
from .state import events


def points(*values) -> str:
    return json.dumps({"proposals": [{"parameters": {"x": value}, "reason": f"try {value}"} for value in values]})


def task(place: Place, attempts: int, more: str) -> None:
    place.write("loopty.toml", PARAMETER_TASK.format(attempts=attempts, command=json.dumps(ECHO_X)) + more)


def test_points_of_a_reply_are_tried_one_by_one_and_unusable_ones_are_refused(parameter_place):
    replies = (
        points(0.25, 0.25, 7.0, "high"),
        points(0.25, "0.5"),
        points("high"),
        points(0.25),
        f"Sure!\n```json\n{points(0.875)}\n```",
    )
    with vendor(*replies) as server:
        task(parameter_place, 3, evolver(server, "llm-parameters"))
        parameter_place.loopty("optimize")
    shapes = [request.body["response_format"]["type"] for request in server.requests]
    assert shapes == ["json_schema"] * 5
    asked = [request.body["messages"] for request in server.requests]
    assert [len(messages) for messages in asked] == [2, 2, 4, 2, 4]
    assert "is the same as @2" in asked[2][-1]["content"]
    assert "is the same as @1\n" in asked[2][-1]["content"]

    history = parameter_place.history()
    assert [history[node].params["x"] for node in ("1.1", "1.2", "1.3")] == [0.25, 1.0, 0.875]
    assert "x 7 became 1" in history["1.2"].summary
    assert history["1.1"].calls == history["1.2"].calls
    (refused,) = [event for event in events(parameter_place) if isinstance(event, ProposalRefused)]
    assert (refused.objection, "is not a number" in refused.reason, len(refused.calls)) == ("forbidden", True, 2)
    assert parameter_place.json("status")["counts"][0]["started"] == 3


RUNGS = """
[[proposer.rungs]]
kind = "random"
[[proposer.rungs]]
kind = "llm-code"
"""


def ladder(place: Place, attempts: int, server, **keys) -> None:
    place.write("src/x.txt", "5\n")
    place.write("bench.sh", 'cat "$LOOPTY_PARAMS" > /dev/null; ' + NUMBER_BENCH)
    place.write(
        "loopty.toml",
        PARAMETER_TASK.format(attempts=attempts, command='"sh bench.sh"')
        + table("access", write=["src/**"])
        + model(server, **keys)
        + table("roles.evolver", model="near")
        + table("proposer", kind="ladder", patience=2, fallback=2)
        + RUNGS,
    )
    place.commit()


def steps(place: Place) -> list[tuple[str, str]]:
    return [(event.name, event.reason) for event in events(place) if isinstance(event, RungChanged)]


def test_the_ladder_climbs_to_the_model_and_steps_down_after_refusals_with_a_reason(parameter_place):
    with vendor(number(7), "no change at all") as server:
        ladder(parameter_place, 5, server)
        done = parameter_place.loopty("optimize")
    assert steps(parameter_place) == [
        ("llm-code", "trials on random without an improvement: 2"),
        ("random", "proposals refused in a row on llm-code: 2"),
    ]
    history = parameter_place.history()
    operators = [history[node].operator for node in history.ids]
    assert operators == ["baseline", "random", "random", "draft", "random", "random"]
    assert "switched to llm-code: trials on random without an improvement: 2" in done.stderr
    status = parameter_place.loopty("status").stdout
    assert "ladder    random (proposals refused in a row on llm-code: 2)" in status
    assert len(server.requests) == 1 + 2 * 2, "each unusable reply gets one retry"


def test_the_ladder_continues_while_a_model_is_unavailable(parameter_place):
    with vendor(refusal(500, "the cat sleeps")) as server:
        ladder(parameter_place, 4, server)
        parameter_place.loopty("optimize")
    climb, (down, why) = steps(parameter_place)[:2]
    assert (climb[0], down) == ("llm-code", "random")
    assert "llm-code cannot be asked: openai:m-1 gave no reply" in why
    assert "the cat sleeps" in why
    status = parameter_place.json("status")
    assert (status["stalls"], status["counts"][0]["endings"]) == (0, {"finished": 4})
