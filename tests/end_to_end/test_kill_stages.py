"""kill -9 from outside, and eight processes at once, in tune mode, in the second stage and between arms."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import apsw
import pytest

from loopty.domain.errors import LooptyError
from loopty.domain.trial import Ending, Pool
from loopty.record.search_summary import FrozenPool, PoolFrozen
from loopty.record.sessions import Session
from loopty.record.trials import TrialCounts, TrialEnded, Trials, TrialStarted
from loopty.record.tunings import NodeTuned, Tunings

from .state import events
from .test_combination import write_task
from .test_tune_mode import BENCH
from .test_tune_mode import TASK as TUNE

LIMIT_SECONDS = 120


def kill_after_event(place, is_reached, *words):
    """Start a verb, and kill it as soon as its record holds what is waited for, or it has ended."""
    process, until = place.start(*words), time.monotonic() + LIMIT_SECONDS
    while process.poll() is None and not is_reached() and time.monotonic() < until:
        time.sleep(0.02)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT_SECONDS)


def started(place, pool):
    found = [event for event in all_events(place) if isinstance(event, TrialStarted)]
    return sum(event.pool is pool for event in found)


def all_events(place):
    """The events so far; none while the ledger is being made."""
    with contextlib.suppress(apsw.Error, LooptyError):
        return events(place) if (place.state / "ledger.sqlite").exists() else []
    return []


def assert_all_closed(run):
    assert Trials.of(run).running == {}
    assert Session.of(run).driver == ""
    assert Tunings.of(run, Pool.ATTEMPT).open == {}


def write_tuned(place):
    place.write("bench.sh", BENCH)
    place.write("src/a.py", "rate = 0.5\ncount = 12\nother = rate * count\n")
    place.write("loopty.toml", TUNE)
    place.commit()


def test_a_tuning_that_is_killed_goes_on_at_the_same_point(place):
    write_tuned(place)
    for trials in (2, 5, 7):
        kill_after_event(place, lambda: started(place, Pool.TUNE) >= trials, "optimize", "--quiet")  # noqa: B023
    place.loopty("optimize", "--quiet")
    run, found = place.history().runs[1], events(place)
    assert_all_closed(run)
    assert TrialCounts.of(run, Pool.ATTEMPT).started == 2
    pools = {(event.node, event.number): event.pool for event in found if isinstance(event, TrialStarted)}
    ended = [event for event in found if isinstance(event, TrialEnded)]
    whole = [event for event in ended if event.outcome.ending is not Ending.CANCELLED]
    assert sum(pools[event.node, event.number] is Pool.TUNE for event in whole) == 8, "none is lost or repeated"
    tuned = [event.node for event in found if isinstance(event, NodeTuned)]
    assert len(tuned) == len(set(tuned)) == 2


def test_a_second_stage_that_is_killed_goes_on_and_its_pool_is_frozen_once(place):
    write_task(place)

    def is_frozen():
        return any(isinstance(event, PoolFrozen) for event in all_events(place))

    kill_after_event(place, lambda: started(place, Pool.ATTEMPT) >= 2, "optimize", "--quiet")
    kill_after_event(place, is_frozen, "optimize", "--quiet")
    kill_after_event(place, lambda: started(place, Pool.ATTEMPT) >= 6, "optimize", "--quiet")
    place.loopty("optimize", "--quiet")
    history = place.history()
    assert [FrozenPool.of(run).base for run in history.runs.values()] == [0, 1]
    assert sum(isinstance(event, PoolFrozen) for event in events(place)) == 1
    for number, attempts in ((1, 3), (2, 2)):
        assert_all_closed(history.runs[number])
        assert TrialCounts.of(history.runs[number], Pool.ATTEMPT).started == attempts


@pytest.mark.parametrize("stage", ["tune", "combine"])
def test_of_eight_processes_one_works_and_the_others_say_who(place, stage):
    write = {"combine": write_task, "tune": write_tuned}[stage]
    write(place)
    all_eight = [place.start("optimize", "--quiet") for _ in range(8)]
    said = [process.communicate(timeout=LIMIT_SECONDS) for process in all_eight]
    assert {process.returncode for process in all_eight} <= {0, 2}, said
    assert 0 in {process.returncode for process in all_eight}, said
    place.loopty("optimize", "--quiet")
    history = place.history()
    assert len(history.runs) == (2 if stage == "combine" else 1)
    for run in history.runs.values():
        assert_all_closed(run)
    expected = 3 if stage == "combine" else 2
    assert TrialCounts.of(history.runs[1], Pool.ATTEMPT).started == expected
    assert all(history[node].verdict for node in history.ids)


def test_a_comparison_of_arms_that_is_killed_goes_on(code_place):
    for arm in ("root", "best"):
        (code_place.top.parent / f"{arm}.toml").write_text(f'[proposer]\nkind = "mutate"\nparents = "{arm}"\n')
    arms = ("ab", "--arm", "../root.toml", "--arm", "../best.toml", "--seeds", "1", "--budget", "4", "--json")
    copies = Path(os.environ["XDG_STATE_HOME"], "loopty", "ab")

    def ledgers():
        return len(list(copies.glob("*/*/*/.git/loopty/ledger.sqlite")))

    for before in (ledgers(), ledgers() + 1):
        kill_after_event(code_place, lambda: ledgers() > before, *arms)  # noqa: B023
    found = json.loads(code_place.loopty(*arms).stdout)
    assert found["is_complete"]
    assert [row["arm"] for row in found["rows"]] == ["root", "best"]
    again = json.loads(code_place.loopty(*arms, "--show").stdout)
    assert again["rows"] == found["rows"]
