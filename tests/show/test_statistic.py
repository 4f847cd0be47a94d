"""What of many runs must be better: the task says, and the status tells what the median hides."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Objective, Statistic
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Pool, Verdict
from loopty.record.sessions import RunStarted
from loopty.record.verdicts import Incumbents
from loopty.show.closing_text import closing_text
from loopty.show.run_status import RunStatus, status
from loopty.show.status_text import status_text

from .story import Story

SLOW_EVERY = 10


def timed(statistic: Statistic, slow: bool) -> Story:
    """A change that takes 3 % less time; with `slow`, each tenth of its runs takes three times as long."""
    jitter, runs = itertools.cycle([1.0, 0.999, 1.001, 0.9985, 1.0015]), itertools.count(1)

    def again(node: NodeId) -> float:
        if node == "1":
            return 100.0 * next(jitter)
        return 97.0 * next(jitter) * (3 if slow and next(runs) % SLOW_EVERY == 0 else 1)

    story = TimedStory(statistic, again)
    story.ends(NodeId("1"), 100.0)
    story.tries("1", 97.0)
    story.confirms()
    return story


class TimedStory(Story):
    """A run with a statistic of its own."""

    def __init__(self, statistic: Statistic, again: Callable[[NodeId], float]) -> None:
        self.statistic = statistic
        super().__init__(Direction.MIN, baseline=None, noise=Noise(), again=again)

    def tell(self, *events):  # type: ignore[no-untyped-def]
        objective = Objective(Direction.MIN, statistic=self.statistic)
        return super().tell(
            *(RunStarted(1, "c", objective, 7, "") if isinstance(event, RunStarted) else event for event in events)
        )


def status_of(story: Story) -> RunStatus:
    history = story.history
    return status(history, history.runs[1], story.now, lambda _: True, Pools())


@pytest.mark.parametrize("statistic", [Statistic.MEAN, Statistic.P95])
def test_a_change_with_rare_slow_runs_is_not_better_in_mean_and_p95(statistic: Statistic) -> None:
    story = timed(statistic, slow=True)
    node = story.history[NodeId("1.1")]
    assert (node.verdict, node.effect and node.effect.pairs) == (Verdict.DISCARDED, 59)
    assert f"in the {statistic} of 59 pairs, though better in most of them" in node.reason


def test_a_change_without_them_is_kept_and_stated_in_the_statistic() -> None:
    story = timed(Statistic.MEAN, slow=False)
    assert Incumbents.of(story.history.runs[1], Pool.ATTEMPT).best == "1.1"
    assert "in the mean of 59 pairs" in story.history[NodeId("1.1")].reason
    best = status_of(story).best
    assert best is not None
    assert best.over_baseline is not None
    assert best.over_baseline.percent == pytest.approx(3.0, abs=0.2)
    assert best.over_baseline.pairs == 59
    assert best.over_baseline.is_certain
    assert "59 fresh pairs by their mean" in status_text(status_of(story), 200)


def test_the_median_keeps_it_and_the_status_tells_what_it_hides() -> None:
    story = timed(Statistic.MEDIAN, slow=True)
    assert story.history[NodeId("1.1")].verdict is Verdict.KEPT
    for text in (status_text(status_of(story), 200), closing_text(status_of(story), "spent", 200)):
        assert "worst run 19" in text
        assert 'if the mean counts, set statistic = "mean" under [objective]' in text


def test_p95_is_what_one_run_of_twenty_is_worse_than() -> None:
    runs = [float(run) for run in range(1, 101)]
    assert Statistic.P95.of(runs, Direction.MIN) == 95.0
    assert Statistic.P95.of(runs, Direction.MAX) == 6.0
    assert Statistic.MEAN.of(runs, Direction.MIN) == 50.5
