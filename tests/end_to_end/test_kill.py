"""kill -9 at any instant: nothing lost, nothing repeated, nothing left running, nothing overspent."""

import json
import os
import random
import signal
import time
from pathlib import Path

from loopty.domain.trial import Ending, Pool
from loopty.git.folders import GitFolders
from loopty.record.sessions import Session
from loopty.record.trials import TrialCounts, TrialEnded, Trials, TrialStarted
from loopty.record.verdicts import Incumbents
from loopty.session.saved_record import SavedRecord

from .conftest import ECHO_X, PARAMETER_TASK

TOKEN = "sleeping-candidate-of-the-kill-test"


def processes_with(token: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and token.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


def test_twenty_kills_in_a_row_lose_and_repeat_nothing(place):
    slow = f": {TOKEN}; sleep 0.05; {ECHO_X}"
    place.write("loopty.toml", "width = 2\n" + PARAMETER_TASK.format(attempts=30, command=json.dumps(slow)))
    place.commit()
    rng = random.Random(1)
    for _ in range(20):
        process = place.start("optimize", "--quiet")
        time.sleep(rng.uniform(0.05, 0.9))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert_soon_gone(TOKEN)
    place.loopty("optimize", "--quiet")
    events = [item.event for item in SavedRecord(GitFolders.find(place.top)).events()]
    run = place.history().runs[1]
    pools = {(e.node, e.number): e.pool for e in events if isinstance(e, TrialStarted)}
    finished = [e for e in events if isinstance(e, TrialEnded) and e.outcome.ending is Ending.FINISHED]
    first = [e.node for e in finished if pools[e.node, e.number] is Pool.ATTEMPT]
    assert len(first) == len(set(first)) == 31
    again = [e.node for e in finished if pools[e.node, e.number] is Pool.REPEAT]
    confirmed = [e.node for e in finished if pools[e.node, e.number] is Pool.CONFIRM]
    # Nothing varies and only parameters change: the baseline is measured three times, the winner five times.
    assert again == ["1", "1"]
    assert confirmed == [Incumbents.of(run, Pool.ATTEMPT).best] * 4
    assert Trials.of(run).running == {}
    assert Session.of(run).driver == ""
    assert TrialCounts.of(run, Pool.ATTEMPT).started == 30
    assert all(place.history()[node].verdict for node in place.history().ids)
    assert_never_over(events, 30)
    assert SavedRecord(GitFolders.find(place.top)).state.trials.names() == []


def assert_soon_gone(token: str) -> None:
    deadline = time.monotonic() + 20
    while processes_with(token):
        assert time.monotonic() < deadline, "a candidate outlived the loopty that started it"
        time.sleep(0.02)


def assert_never_over(events: list, limit: int) -> None:
    """At no moment were more trials running or done than the budget allows."""
    spent = 0
    attempts = set()
    for event in events:
        if isinstance(event, TrialStarted) and event.node.parent and event.pool is Pool.ATTEMPT:
            attempts.add((event.node, event.number))
            spent += 1
        if isinstance(event, TrialEnded) and (event.node, event.number) in attempts:
            spent -= event.outcome.ending is Ending.CANCELLED
        assert spent <= limit


def test_ctrl_c_stops_cleanly_with_a_hint_and_resuming_finishes_the_run(place):
    slow = f": {TOKEN}-c; sleep 0.2; {ECHO_X}"
    place.write("loopty.toml", PARAMETER_TASK.format(attempts=6, command=json.dumps(slow)))
    place.commit()
    process = place.start("optimize")
    while not (place.state / "nodes/1").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "loopty run" in err
    assert processes_with(f"{TOKEN}-c") == []
    run = place.history().runs[1]
    assert Trials.of(run).running == {}
    assert Session.of(run).ended == "stopped on request"
    place.loopty("optimize")
    assert TrialCounts.of(place.history().runs[1], Pool.ATTEMPT).started == 6
