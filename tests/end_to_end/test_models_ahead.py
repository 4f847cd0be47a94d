"""A model proposes while a trial runs: the tree is the same at any speed, and no paid reply is lost."""

import os
import signal
import time

import pytest

from loopty.record.calls import CallSettled
from loopty.record.nodes import NodeAdded
from loopty.record.trials import TrialEnded, TrialStarted

from ..models.server import Connection
from .conftest import CODE_TASK, NUMBER_BENCH
from .serving import evolver, number, table, text_behaviour, vendor
from .state import events

VALUES = (7, 3, "no number", 9, 8, 4, 12, 11)


def write_task(place, server, attempts: int, bench: str = NUMBER_BENCH, proposer: str = "") -> None:
    task = (
        CODE_TASK.format(attempts=f"{attempts}\nquestions = 1")
        + table("noise", repeat="never")
        + evolver(server)
        + proposer
    )
    place.write("loopty.toml", task)
    place.write("bench.sh", bench)
    place.commit()


def delayed_replies(seconds: float):
    def reply(value):
        def behave(connection: Connection) -> None:
            connection.over.wait(seconds)
            text_behaviour(number(value))(connection)

        return behave

    return map(reply, VALUES)


def grown(place) -> list[tuple]:
    history = place.history()
    nodes = map(history.__getitem__, history.ids)
    return [(node.id, node.summary, node.tree, node.outcome.metrics, node.verdict, node.reason) for node in nodes]


def overlaps(place) -> int:
    """How many replies came while a trial ran."""
    running, found = 0, 0
    for event in events(place):
        running += isinstance(event, TrialStarted) - isinstance(event, TrialEnded)
        found += isinstance(event, CallSettled) and running > 0
    return found


@pytest.mark.parametrize("proposer", ["", 'parents = { kind = "islands", count = 2 }\n'])
def test_the_tree_is_the_same_when_the_model_is_faster_and_when_the_trial_is(code_place, proposer):
    trees = []
    for reply_seconds, trial_seconds in ((0.0, 0.4), (0.4, 0.0)):
        place = type(code_place)(code_place.top.with_name(f"speed-{reply_seconds}"))
        code_place.git("clone", "-q", str(code_place.top), str(place.top))
        with vendor(*delayed_replies(reply_seconds)) as server:
            write_task(place, server, 7, f"sleep {trial_seconds}\n{NUMBER_BENCH}", proposer)
            place.loopty("optimize", "--quiet")
        trees.append([row[:2] + row[3:] for row in grown(place)])
        if trial_seconds:
            assert overlaps(place) >= 4, "replies come while trials run"
    assert len(trees[0]) == 8
    assert trees[0] == trees[1]


def test_a_reply_that_waits_for_its_trial_survives_kill_9(code_place):
    slow = f"[ $(cat src/x.txt) = 7 ] && sleep 2\n{NUMBER_BENCH}"
    with vendor(number(7), number(8), number(9)) as server:
        write_task(code_place, server, 3, slow)
        process = code_place.start("optimize")
        deadline = time.monotonic() + 120
        while sum(isinstance(event, CallSettled) for event in events(code_place)) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert [event.node for event in events(code_place) if isinstance(event, NodeAdded)] == ["1", "1.1"]
        code_place.loopty("optimize")
    assert len(server.requests) == 3, "the reply of the killed process is used, and nothing is asked twice"
    history = code_place.history()
    assert sorted(history.score(history[node]) for node in history.ids) == [5.0, 7.0, 8.0, 9.0]
    assert code_place.json("status")["counts"][0]["started"] == 3
    assert code_place.json("spend")["in_flight"]["calls"] == 0


def test_a_stop_ends_the_request_and_the_trial(code_place):
    def never(connection: Connection) -> None:
        connection.over.wait(60)

    with vendor(number(7), never) as server:
        write_task(code_place, server, 5, f"[ $(cat src/x.txt) = 7 ] && sleep 19\n{NUMBER_BENCH}")
        process = code_place.start("optimize", "--quiet")
        deadline = time.monotonic() + 120
        while len(server.requests) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - began < 15, "neither the trial's 19 s nor the model's 60 s are waited for"
    assert "resume: loopty run" in err
    assert code_place.json("spend")["in_flight"]["calls"] == 0
    assert code_place.json("status")["counts"][0]["started"] == 0
