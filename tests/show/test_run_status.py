"""The status of a run."""

from __future__ import annotations

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.kit.records import replace
from loopty.record.sessions import SessionStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.show.comparisons import score_change
from loopty.show.live import Throughput, remaining_seconds
from loopty.show.run_status import RunState, RunStatus, status
from loopty.show.running import Repeat
from loopty.show.status_text import status_text

from .story import OWNER, Story


def status_of(story: Story, pools: Pools | None = None, alive: bool = True) -> RunStatus:
    history = story.history
    return status(history, history.runs[1], story.now, lambda _: alive, pools)


def test_a_new_run_has_neither_baseline_nor_best() -> None:
    found = status_of(Story(baseline=None))
    assert (found.baseline, found.best, found.control, found.uplift) == (None, None, None, None)
    assert found.trials_per_second is None


def test_the_best_is_compared_with_the_baseline() -> None:
    story = Story(baseline=2.0)
    story.tries("1", 2.5)
    story.tries("1", 2.4)
    best = status_of(story).best
    assert best is not None
    assert best.over_baseline is not None
    assert (best.node, best.score) == ("1.1", 2.5)
    assert (best.over_baseline.amount, best.over_baseline.percent) == (0.5, 25.0)


def test_lower_is_better_if_the_objective_says_so() -> None:
    story = Story(Direction.MIN, baseline=2.0)
    story.tries("1", 1.5)
    best = status_of(story).best
    assert best is not None
    assert best.over_baseline is not None
    assert best.over_baseline.percent == 25.0


def test_a_baseline_of_zero_has_no_percent() -> None:
    story = Story(baseline=0.0)
    story.tries("1", 0.5)
    best = status_of(story).best
    assert best is not None
    assert best.over_baseline is not None
    assert (best.over_baseline.amount, best.over_baseline.percent) == (0.5, None)


def test_a_baseline_that_may_be_noise_has_no_percent() -> None:
    wobble = iter([-0.04, 0.05, -0.03, 0.02, 0.0])
    story = Story(baseline=0.01, again=lambda _: next(wobble))
    story.noise = Noise(repeat="never")
    story.tries("1", 0.9)
    found = status_of(story)
    assert found.noise is not None
    assert found.noise.percent is None
    assert found.best is not None
    assert found.best.over_baseline is not None
    assert found.best.over_baseline.percent is None
    assert found.best.over_baseline.amount == pytest.approx(0.89)


@pytest.mark.parametrize(("baseline", "score"), [(-0.5, 0.2), (0.5, -0.2)])
def test_a_change_of_sign_has_no_percent(baseline: float, score: float) -> None:
    assert score_change(score, baseline, Direction.MAX).percent is None


def test_a_baseline_without_a_result_has_a_reason() -> None:
    story = Story(baseline=None)
    assert status_of(story).without_baseline == ""
    story.ends(NodeId("1"), None)
    assert status_of(story).without_baseline == "failed: exit code 1"
    assert status_of(Story()).without_baseline == ""


def test_trials_by_hand_take_their_own_time_and_have_no_pace() -> None:
    story = Story(driven=False)
    story.tries("1", 2.0)
    found = status_of(story)
    assert (found.by_hand, found.elapsed_seconds, found.work_seconds) == (True, 0.0, 1.0)
    assert found.trials_per_second is None


def test_trials_too_long_for_the_session_ran_by_hand_unless_in_parallel() -> None:
    story = Story(driven=False)
    for _ in range(9):
        story.tries("1", 2.0)
    story.tell(SessionStarted(1, OWNER))
    story.stops("stopped on request")
    assert (status_of(story).by_hand, status_of(story).trials_per_second) == (True, None)
    history = story.history
    parallel = status(history, history.runs[1], story.now, lambda _: True, trials_at_once=8)
    assert (parallel.by_hand, parallel.trials_per_second) == (False, 10.0)


def test_the_baseline_is_not_counted_as_an_attempt() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.tries("1", None)
    count = status_of(story, Pools(attempts=10)).count(Pool.ATTEMPT)
    assert (count.started, count.limit) == (2, 10)
    assert count.endings == {"finished": 1, "failed": 1}


def test_attempts_are_compared_with_the_control() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 1.5)
    story.tries("1", 1.25, Pool.CONTROL)
    found = status_of(story)
    assert found.control is not None
    assert found.uplift is not None
    assert (found.control.node, found.uplift.amount, found.uplift.won) == ("1.2", 0.25, 1)


def test_without_a_control_there_is_no_uplift() -> None:
    story = Story()
    story.tries("1", 2.0)
    found = status_of(story, Pools(control=0))
    assert (found.control, found.uplift) == (None, None)
    assert [count.pool for count in found.counts] == [Pool.ATTEMPT]


def test_the_state_follows_the_session() -> None:
    story = Story()
    assert (status_of(story).state, status_of(story).driver) == (RunState.RUNNING, OWNER)
    assert status_of(story, alive=False).state is RunState.LOST
    story.stops("all 5 attempt trials are spent")
    assert (status_of(story).state, status_of(story).reason) == (
        RunState.STOPPED,
        "all 5 attempt trials are spent",
    )


def test_time_stands_still_without_a_session() -> None:
    story = Story()
    running, lost = status_of(story).elapsed_seconds, status_of(story, alive=False).elapsed_seconds
    story.now += 60
    assert status_of(story).elapsed_seconds == running + 60
    assert status_of(story, alive=False).elapsed_seconds == lost


def test_calls_in_flight_reduce_the_remaining_budget() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.refuses()
    story.reserves(tokens=300, money_usd=0.5)
    found = status_of(story, Pools(attempts=5, wall_seconds=100.0, tokens=1000, money_usd=2.0))
    remaining = found.left
    assert remaining is not None
    assert (remaining.attempts, remaining.tokens, remaining.money_usd) == (4, 700, 1.5)
    assert remaining.wall_seconds == pytest.approx(100 - found.elapsed_seconds)
    assert found.refusals == 1


def test_a_model_that_does_not_answer_is_named_as_what_the_run_waits_for() -> None:
    story = Story()
    story.reserves(tokens=300, money_usd=0.5)
    assert status_of(story).awaited is None, "each call takes a while"
    story.now += 130
    awaited = status_of(story).awaited
    assert awaited is not None
    assert (bool(awaited.name), awaited.seconds >= 130) == (True, True)
    assert "waiting for" in status_text(status_of(story), columns=200)
    assert status_of(story, alive=False).awaited is None
    story.starts(story.adds("1"))
    assert status_of(story).awaited is None, "a trial goes on"


def test_in_a_pause_no_end_is_forecast() -> None:
    found = status_of(Story(), Pools(attempts=5, wall_seconds=100.0))
    pace = Throughput(1.0, 1.0)
    assert remaining_seconds(found, pace) is not None
    assert remaining_seconds(replace(found, is_paused=True), pace) is None


def test_running_trials_have_an_age() -> None:
    story = Story()
    story.starts(story.adds("1"))
    story.now += 10
    (trial,) = status_of(story).running
    assert (trial.node, trial.number, trial.age_seconds) == ("1.1", 1, 10.0)


def test_noise_is_reported_as_measured() -> None:
    wobble = iter([1.9, 2.1, 2.0, 1.95, 2.05])
    noise = status_of(Story(baseline=2.0, again=lambda _: next(wobble))).noise
    assert noise is not None
    assert noise.measurements == 3
    assert 0.03 < noise.sigma < 0.2
    assert noise.percent == pytest.approx(50 * noise.sigma, rel=0.1)


def test_a_baseline_that_never_varies_has_no_noise() -> None:
    noise = status_of(Story(baseline=2.0, again=lambda _: 2.0)).noise
    assert noise is not None
    assert (noise.sigma, noise.measurements) == (0.0, 3)


def test_one_measurement_says_nothing_about_noise() -> None:
    assert status_of(Story(baseline=2.0)).noise is None


def test_a_repeated_measurement_has_its_purpose() -> None:
    wobble = iter([1.01, 0.99, 1.02, 0.98, 1.0])
    story = Story(baseline=1.0, again=lambda _: next(wobble))
    node = story.adds("1")
    story.starts(node)
    story.tell(TrialEnded(node, 1, Outcome(Ending.FINISHED, {"score": 1.5})))
    rows = []
    for measured, rival in (("1", None), ("1", "1"), ("1.1", "1"), ("1.1", "1")):
        number, incumbent = story.recorder.history[NodeId(measured)].trials + 1, NodeId(rival) if rival else None
        story.tell(TrialStarted(NodeId(measured), number, Pool.REPEAT, OWNER, node, incumbent))
        (trial,) = status_of(story).running
        rows.append((trial.node, trial.repeat))
        story.tell(TrialEnded(NodeId(measured), number, Outcome(Ending.FINISHED, {"score": 1.0})))
    assert rows == [
        ("1", Repeat(node, None, 2, 2)),
        ("1", Repeat(node, NodeId("1"), 1, 2, 1)),
        ("1.1", Repeat(node, NodeId("1"), 1, 2, 1)),
        ("1.1", Repeat(node, NodeId("1"), 2, 2, 1)),
    ]


def test_running_trials_keep_their_place_while_a_pair_takes_turns() -> None:
    story = Story()
    first, second = story.adds("1"), story.adds("1")
    story.starts(second)
    story.tell(TrialStarted(NodeId("1"), 2, Pool.REPEAT, OWNER, first, NodeId("1")))
    assert [trial.node for trial in status_of(story).running] == ["1", "1.2"]


def test_observing_trials_are_counted_including_the_baseline() -> None:
    story = Story(baseline=1.0, machine="laptop")
    story.tries("1", 2.0)
    story.moves("server", {"1": 5.0, "1.1": 6.0}, incumbent="1.1")
    count = status_of(story).count(Pool.REBASE)
    assert (count.started, count.endings) == (2, {"finished": 2})


def test_the_status_of_a_long_run_decodes_a_few_nodes() -> None:
    story = Story()
    for _ in range(300):
        story.tries("1", 0.5)
    history, read = story.history_and_reads()
    status(history, history.runs[1], story.now, lambda _: True)
    assert len(read) <= 2


def test_a_control_that_never_ran_is_not_beaten() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 2.0)
    found = status(story.history, story.history.runs[1], story.now, lambda _: True, Pools(control=3))
    assert found.count(Pool.CONTROL).started == 0
    assert found.control is None
    assert found.uplift is None


def test_a_control_without_attempts_is_compared_with_nothing() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 2.0, Pool.CONTROL)
    found = status(story.history, story.history.runs[1], story.now, lambda _: True, Pools(control=3))
    assert found.control is not None
    assert found.uplift is None
