"""The pace of a run."""

from loopty.domain.ids import NodeId
from loopty.domain.trial import Verdict
from loopty.record.fold import Recorded
from loopty.record.verdicts import NodeJudged
from loopty.show.live import Pace


def _verdict(at):
    return Recorded(1, at, NodeJudged(NodeId("1.1"), Verdict.DISCARDED, "worse", NodeId("1")))


def test_the_rate_is_steady_until_a_verdict_takes_longer_than_usual():
    pace = Pace(100.0)
    assert pace.throughput(105.0).verdicts_per_second is None
    for at in (110.0, 120.0):
        pace.on_event(_verdict(at))
    assert pace.throughput(121.0).verdicts_per_second == pace.throughput(130.0).verdicts_per_second == 0.1
    assert pace.throughput(150.0).verdicts_per_second == 2 / 40


def test_the_baseline_says_nothing_of_how_long_proposals_take():
    pace = Pace(100.0)
    pace.on_event(Recorded(1, 101.0, NodeJudged(NodeId("1"), Verdict.KEPT, "the first result")))
    assert pace.throughput(160.0).verdicts_per_second is None
