"""Where a run stands."""

from __future__ import annotations

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.pool import Pool
from loopty.domain.task import Noise, Pools
from loopty.record.history import History
from loopty.record.sessions import SessionStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.views.run_status import Repeat, RunState, RunStatus, status
from loopty.views.score_change import score_change

from .story import OWNER, Story


def now(story: Story, pools: Pools | None = None, alive: bool = True) -> RunStatus:
    history = story.history
    return status(history, history.runs[1], story.now, lambda _: alive, pools)


def test_a_new_run_has_neither_baseline_nor_best() -> None:
    found = now(Story(baseline=None))
    assert (found.baseline, found.best, found.control, found.uplift) == (None, None, None, None)
    assert found.trials_per_second is None


def test_the_best_is_compared_with_the_baseline() -> None:
    story = Story(baseline=2.0)
    story.tries("1", 2.5)
    story.tries("1", 2.4)
    best = now(story).best
    assert best is not None
    assert best.over_baseline is not None
    assert (best.node, best.score) == ("1.1", 2.5)
    assert (best.over_baseline.amount, best.over_baseline.percent) == (0.5, 25.0)


def test_less_is_better_where_the_objective_says_so() -> None:
    story = Story(Direction.MIN, baseline=2.0)
    story.tries("1", 1.5)
    best = now(story).best
    assert best is not None
    assert best.over_baseline is not None
    assert best.over_baseline.percent == 25.0


def test_a_baseline_of_zero_has_no_percent() -> None:
    story = Story(baseline=0.0)
    story.tries("1", 0.5)
    best = now(story).best
    assert best is not None
    assert best.over_baseline is not None
    assert (best.over_baseline.amount, best.over_baseline.percent) == (0.5, None)


def test_a_baseline_that_may_be_noise_has_no_percent() -> None:
    wobble = iter([-0.04, 0.05, -0.03, 0.02, 0.0])
    story = Story(baseline=0.01, again=lambda _: next(wobble))
    story.noise = Noise(repeat="never")
    story.tries("1", 0.9)
    found = now(story)
    assert found.noise is not None
    assert found.noise.percent is None
    assert found.best is not None
    assert found.best.over_baseline is not None
    assert found.best.over_baseline.percent is None
    assert found.best.over_baseline.amount == pytest.approx(0.895)


@pytest.mark.parametrize(("baseline", "score"), [(-0.5, 0.2), (0.5, -0.2)])
def test_a_change_of_sign_has_no_percent(baseline: float, score: float) -> None:
    assert score_change(score, baseline, Direction.MAX).percent is None


def test_a_baseline_without_result_says_why() -> None:
    story = Story(baseline=None)
    assert now(story).without_baseline == ""
    story.ends(NodeId("1"), None)
    assert now(story).without_baseline == "failed: exit code 1"
    assert now(Story()).without_baseline == ""


def test_trials_by_hand_have_the_time_of_the_trials_and_no_pace() -> None:
    story = Story(driven=False)
    story.tries("1", 2.0)
    found = now(story)
    assert (found.by_hand, found.elapsed_seconds, found.work_seconds) == (True, 0.0, 1.0)
    assert found.trials_per_second is None


def test_a_session_too_short_for_the_trials_had_help_unless_they_ran_at_once() -> None:
    story = Story(driven=False)
    for _ in range(9):
        story.tries("1", 2.0)
    story.tell(SessionStarted(1, OWNER))
    story.stops("stopped on request")
    assert (now(story).by_hand, now(story).trials_per_second) == (True, None)
    history = story.history
    at_once = status(history, history.runs[1], story.now, lambda _: True, trials_at_once=8)
    assert (at_once.by_hand, at_once.trials_per_second) == (False, 10.0)


def test_the_baseline_is_not_counted_as_an_attempt() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.tries("1", None)
    count = now(story, Pools(attempts=10)).count(Pool.ATTEMPT)
    assert (count.started, count.limit) == (2, 10)
    assert count.endings == {"finished": 1, "failed": 1}


def test_attempts_are_measured_against_the_control() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 1.5)
    story.tries("1", 1.25, Pool.CONTROL)
    found = now(story)
    assert found.control is not None
    assert found.uplift is not None
    assert (found.control.node, found.uplift.amount, found.uplift.percent) == ("1.2", 0.25, 20.0)


def test_without_a_control_there_is_no_uplift() -> None:
    story = Story()
    story.tries("1", 2.0)
    found = now(story, Pools(control=0))
    assert (found.control, found.uplift) == (None, None)
    assert [count.pool for count in found.counts] == [Pool.ATTEMPT]


def test_the_state_follows_the_session() -> None:
    story = Story()
    assert (now(story).state, now(story).driver) == (RunState.RUNNING, OWNER)
    assert now(story, alive=False).state is RunState.LOST
    story.stops("all 5 attempt trials are spent")
    assert (now(story).state, now(story).reason) == (RunState.STOPPED, "all 5 attempt trials are spent")


def test_time_stands_still_when_nobody_drives() -> None:
    story = Story()
    running, lost = now(story).elapsed_seconds, now(story, alive=False).elapsed_seconds
    story.now += 60
    assert now(story).elapsed_seconds == running + 60
    assert now(story, alive=False).elapsed_seconds == lost


def test_what_is_left_counts_calls_in_flight() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.refuses()
    story.reserves(tokens=300, money_usd=0.5)
    found = now(story, Pools(attempts=5, wall_seconds=100.0, tokens=1000, money_usd=2.0))
    left = found.left
    assert left is not None
    assert (left.attempts, left.tokens, left.money_usd) == (4, 700, 1.5)
    assert left.wall_seconds == pytest.approx(100 - found.elapsed_seconds)
    assert found.refusals == 1


def test_trials_in_flight_have_an_age() -> None:
    story = Story()
    story.starts(story.adds("1"))
    story.now += 10
    (flight,) = now(story).flights
    assert (flight.node, flight.number, flight.age_seconds) == ("1.1", 1, 10.0)


def test_noise_is_told_as_it_was_measured() -> None:
    wobble = iter([1.9, 2.1, 2.0, 1.95, 2.05])
    noise = now(Story(baseline=2.0, again=lambda _: next(wobble))).noise
    assert noise is not None
    assert noise.measurements == 6
    assert 0.03 < noise.sigma < 0.2
    assert noise.percent == pytest.approx(50 * noise.sigma, rel=0.1)


def test_a_baseline_that_never_varies_has_no_noise() -> None:
    noise = now(Story(baseline=2.0, again=lambda _: 2.0)).noise
    assert noise is not None
    assert (noise.sigma, noise.measurements) == (0.0, 3)


def test_one_measurement_tells_nothing_of_noise() -> None:
    assert now(Story(baseline=2.0)).noise is None


def test_a_repeated_measurement_tells_what_it_is_for() -> None:
    wobble = iter([1.01, 0.99, 1.02, 0.98, 1.0])
    story = Story(baseline=1.0, again=lambda _: next(wobble))
    node = story.adds("1")
    story.starts(node)
    story.tell(TrialEnded(node, 1, Outcome(Ending.FINISHED, {"score": 1.5})))
    seen = []
    for turn in ("1", "1", "1.1"):
        number = story.recorder.history[NodeId(turn)].trials + 1
        story.tell(TrialStarted(NodeId(turn), number, Pool.REPEAT, OWNER, node, NodeId("1")))
        (flight,) = now(story).flights
        seen.append((flight.node, flight.repeat))
        story.tell(TrialEnded(NodeId(turn), number, Outcome(Ending.FINISHED, {"score": 1.0})))
    assert seen == [
        ("1", Repeat(node, NodeId("1"), 1)),
        ("1", Repeat(node, NodeId("1"), 2)),
        ("1.1", Repeat(node, NodeId("1"), 2)),
    ]


def test_flights_keep_their_place_while_rivals_take_turns() -> None:
    story = Story()
    first, second = story.adds("1"), story.adds("1")
    story.starts(second)
    story.tell(TrialStarted(NodeId("1"), 2, Pool.REPEAT, OWNER, first, NodeId("1")))
    assert [flight.node for flight in now(story).flights] == ["1", "1.2"]


def test_trials_that_only_look_are_counted_with_those_of_the_baseline() -> None:
    story = Story(baseline=1.0, machine="laptop")
    story.tries("1", 2.0)
    story.moves("server", {"1": 5.0, "1.1": 6.0}, incumbent="1.1")
    count = now(story).count(Pool.REBASE)
    assert (count.started, count.endings) == (2, {"finished": 2})


def test_the_status_of_a_long_run_decodes_a_few_nodes() -> None:
    story = Story()
    for _ in range(300):
        story.tries("1", 0.5)
    written = story.history
    pages = [(node, written.page(node)) for node in written.ids]
    history = History.open(written.number, [("run 1", story.run_page()), *pages])
    status(history, history.runs[1], story.now, lambda _: True)
    assert sum(history.page(node) is not body for node, body in pages) <= 2
