"""kill -9 during model calls: each call is charged once, and no reply is paid for twice."""

import os
import signal
import time

from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import NodeAdded

from ..models.server import ScriptedServer, hang
from .conftest import CODE_TASK, Place
from .serving import evolver, model, number, table, vendor
from .state import events

PASS = '{"reasoning": "it is only a number", "breaks": [], "verdict": "pass"}'


def kill_during_requests(place: Place, server: ScriptedServer, requests: int = 1) -> None:
    """Run a session until the server has this many open requests, then kill it."""
    process = place.start("optimize")
    deadline = time.monotonic() + 120
    while len(server.requests) < requests:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the session sent no request"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_calls_of_a_killed_process_are_charged_once_and_the_run_continues(code_place):
    with vendor(hang, hang, number(7), number(8), number(9)) as server:
        more = evolver(server) + table("noise", repeat="never")
        code_place.write("loopty.toml", "width = 2\n" + CODE_TASK.format(attempts=3) + more)
        kill_during_requests(code_place, server, 2)
        assert code_place.json("spend")["in_flight"]["calls"] == 2
        assert code_place.json("status")["state"] == "lost"
        code_place.loopty("optimize")
        code_place.loopty("optimize")
    reserved = [event for event in events(code_place) if isinstance(event, CallReserved)]
    settled = [event for event in events(code_place) if isinstance(event, CallSettled)]
    assert sorted(event.call for event in reserved) == sorted(event.call for event in settled)
    assert [event.lost for event in settled] == [True, True, False, False, False]
    assert [event.tokens for event in settled[:2]] == [event.tokens for event in reserved[:2]]
    spent = code_place.json("spend")
    assert spent["total"]["tokens"] == sum(event.tokens for event in reserved[:2]) + 3 * 120
    assert spent["in_flight"]["calls"] == 0
    assert len(server.requests) == 5
    assert code_place.json("status")["counts"][0]["started"] == 3


def test_a_paid_reply_is_used_by_the_next_process_without_another_request(code_place):
    with vendor(number(6, 7, 8)) as proposing, vendor(hang, PASS) as verifying:
        code_place.write(
            "loopty.toml",
            CODE_TASK.format(attempts=3)
            + evolver(proposing)
            + "batch = 3\n"
            + model(verifying, "judge")
            + table("roles.verifier", model="judge")
            + table("verifier", review="flag")
            + table("noise", repeat="never"),
        )
        kill_during_requests(code_place, verifying)
        assert "1.3" not in [event.node for event in events(code_place) if isinstance(event, NodeAdded)]
        code_place.loopty("optimize")
    assert len(proposing.requests) == 1
    assert len(verifying.requests) == 4
    history = code_place.history()
    assert [history.score(history[node]) for node in ("1.1", "1.2", "1.3")] == [6.0, 7.0, 8.0]
    (call,) = {history[node].calls[-1] for node in ("1.1", "1.2", "1.3")}
    spent = code_place.json("spend")
    assert {row["name"]: row["sum"]["calls"] for row in spent["role"]} == {"evolver": 1, "verifier": 4}
    for node in ("1.1", "1.3"):
        shown = code_place.json("show", node, "--prompt")["calls"]
        assert [item["operator"] for item in shown] == ["diff", *["review"] * (len(shown) - 1)]
        assert shown[0]["call"] == call
    (lost, *_) = code_place.json("show", "1.1", "--prompt")["calls"][1:]
    assert lost["fruitless_reason"] == "its process died", "other verbs must not change it"
