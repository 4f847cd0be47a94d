"""Directives for the models, before and during a session."""

import json
import signal
import time
from collections.abc import Callable

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Pool
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.directives import Directive, DirectiveSet
from loopty.record.nodes import NodeAdded, NodeCount
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged

from .conftest import ECHO_X, PARAMETER_TASK, Place
from .state import events


@pytest.fixture
def ran(place: Place) -> Place:
    """A repository with a run that has just started."""
    state = place.state_folder
    state.prepare()
    began = RunStarted(1, "c", Objective(), 0, "the first run")
    baseline = NodeAdded(NodeId("1"), Pool.ATTEMPT, "baseline", "as it is", "a" * 40, "f0" * 20)
    Recorder(SqliteLedger(state.ledger.path_for_programs()), lambda: 1.0).record(lambda _: [began, baseline])
    return place


def test_a_directive_is_set_shown_replaced_and_removed(ran):
    assert "no directive" in ran.loopty("direct").stderr
    done = ran.loopty("direct", "Leave the cache alone.")
    assert "from now on the models of run 1 see this" in done.stderr
    assert ran.loopty("direct").stdout == "Leave the cache alone.\n"
    nodes = {"build_on": [], "not_below": []}
    assert ran.json("direct", "Try a heap.") == {"run": 1, "directive": "Try a heap.", **nodes}
    assert ran.json("direct") == {"run": 1, "directive": "Try a heap.", **nodes}
    assert ran.json("direct", "--clear") == {"run": 1, "directive": "", **nodes}
    assert ran.loopty("direct").stdout == ""
    directives = [event.text for event in events(ran) if isinstance(event, DirectiveSet)]
    assert directives == ["Leave the cache alone.", "Try a heap.", ""]


def test_the_same_directive_again_records_nothing(ran):
    for _ in range(2):
        ran.loopty("direct", "  Try a heap.\n")
    ran.loopty("direct", "--clear")
    ran.loopty("direct", "--clear")
    assert [event.text for event in events(ran) if isinstance(event, DirectiveSet)] == ["Try a heap.", ""]


def test_an_invalid_directive_is_refused_in_one_line(ran):
    for arguments, words in (
        (("x", "--clear"), "not both"),
        (("  ",), "is empty"),
        (("x" * 4001,), "4,001 characters"),
        (("\udcff",), "not valid text"),
    ):
        refused = ran.loopty("direct", *arguments, code=2)
        assert words in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert not [event for event in events(ran) if isinstance(event, DirectiveSet)]


def test_there_is_no_directive_before_the_first_run(place):
    assert "nothing has run here yet" in place.loopty("direct", "x", code=2).stderr


def test_a_directive_cannot_control_the_terminal(ran):
    ran.loopty("direct", "a\x1b[2Jb\nc")
    assert ran.loopty("direct").stdout == "a[2Jb\nc\n"


def test_a_directive_applies_to_a_session_that_is_running(place):
    place.write("loopty.toml", PARAMETER_TASK.format(command=json.dumps(ECHO_X), attempts=100_000))
    place.commit()
    running = place.start("optimize")
    try:
        until(lambda: (place.state / "trials").is_dir() and NodeCount.of(place.history().runs[1]).nodes > 1)
        place.loopty("direct", "Try a heap.")
        until(lambda: isinstance(events(place)[-1], NodeAdded | TrialStarted | TrialEnded | NodeJudged))
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
    finally:
        running.kill()
    assert "Traceback" not in err
    assert Directive.of(place.history().runs[1]).text == "Try a heap."


def until(happened: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "the condition was never met"
        time.sleep(0.05)
