"""Noise, other machines and chance, in words."""

from __future__ import annotations

import itertools

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Integrity, Pool
from loopty.record.calls import CallReserved, CallSettled
from loopty.show.best import leaderboard, leaderboard_text, other_cohorts, other_cohorts_text
from loopty.show.chart import chart
from loopty.show.closing_text import closing_text
from loopty.show.goodput import goodput, goodput_text
from loopty.show.node import detail, node_text
from loopty.show.rated_nodes import points
from loopty.show.run_status import status
from loopty.show.status_text import status_text
from loopty.show.tally import tally
from loopty.show.terminal import Terminal, width
from loopty.show.tree_rows import tree
from loopty.show.tree_text import tree_text

from .story import Story

STATUS = """
run 1  running (process 4711 on host)

  best      @4: 40.0 % better than the baseline; score 70
  baseline  score 50 (higher is better)
  elsewhere best @2: 100.0 % better than the baseline; score 2 (cpu slow, memory
            16 GiB)
  noise     none seen in 3 measurements
  verdicts  2 kept, 1 inconclusive, 1 rejected
  attempts  4: 3 finished, 1 rejected by a gate
  repeats   6: 6 finished
  rebases   4: 4 finished
  time      47 s, 14.0 trials/min
  criteria  c0ffee
  next      loopty diff best --baseline
            loopty apply best
"""

TREE = """
       score    effect
@1        50           ● baseline
├─ @3         rejected ! a change
├─ @5                  ≠ (99 on another machine, inconclusive) a change
@2        60   +20.0 % ● a change
@4        70   +16.7 % ★ a change
"""

LEADERBOARDS = """
     node  score  better by
  1  @4       70    +40.0 %  a change
  2  @2       60    +20.0 %  a change
  3  @1       50             baseline

on another machine, not comparable with the above: cpu slow, memory 16 GiB
     node  score  better by
  1  @2        2   +100.0 %  a change
  2  @1        1             baseline

on another machine, not comparable with the above: cpu tiny, memory 1 GiB
     node  score  better by
  1  @5       99             (inconclusive) a change
"""

NODE = """
@2  ● kept, best of its run

  path      1.1
  because   better than @1
  effect    score better than @1 by 0.97 (95.1 %) in 3 pairs; error rate 5 %
  made by   rewrite
  change    a change
  parent    @1, 96.0 % better than it
  trial     finished after 0.5 s
  measured  5 times: score 1.98 to 2.00, median: 2.00
  integrity strong: the candidate ran apart from the code that scored it
  gates     exact, small
  trials    5 trials
  commit    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
  folder    .loopty/nodes/1.1

  metric           value    baseline   better by
  score             2.00        1.01     +96.0 %
"""

GOODPUT = """
2 comparable results in 30 min 00 s: 4 per hour, 20 per million tokens
  wasted                trials          time   share
  failed                     2         1.0 s    25 %
  rejected by a gate         1         0.5 s    12 %
  refused proposals          1
2 repeat measurements took 1.0 s (25 %)
"""


def run_on_two_machines() -> Story:
    """A run that moves from a laptop to a server, with one gate and a result from a phone."""
    story = Story(baseline=1.0, machine="laptop", again=lambda node: {"1": 1.0, "1.1": 2.0, "1.1.1": 70.0}[node])
    story.sees("laptop", cpu="slow", cores="4", memory="16 GiB")
    story.sees("server", cpu="fast", cores="4", memory="64 GiB")
    story.sees("phone", cpu="tiny", cores="4", memory="1 GiB")
    story.tries("1", 2.0)
    story.tries("1", None, ending=Ending.REFUSED)
    for _ in range(3):
        story.moves("server", {"1": 50.0}, incumbent="1")
    story.moves("server", {"1.1": 60.0}, incumbent="1.1")
    story.tries("1.1", 70.0)
    story.machine = "phone"
    story.tries("1", 99.0)
    return story


def noisy_run() -> Story:
    """1.1 is far better in every measurement; so is 1.2, in a single pair."""
    wobble = itertools.cycle([0.01, -0.01, 0.02, -0.02, 0.0])
    story = Story(baseline=1.0, again=lambda node: 1.0 + (node == "1.1") + 8 * (node == "1.2") + next(wobble))
    story.gates("1", "exact")
    story.gates("1.1", "small")
    story.tries("1", 2.0)
    story.noise = Noise(pairs=1)
    story.tries("1", 9.0)
    return story


def status_of(story: Story, columns: int = 80, terminal: Terminal | None = None) -> str:
    history = story.history
    found = status(history, history.runs[1], story.now + 1, lambda _: True)
    return status_text(found, columns, terminal, tally(history, 1))


def leaderboards(story: Story, columns: int = 80) -> str:
    history = story.history
    here = leaderboard_text(leaderboard(history, 1, 5), "score", columns)
    return f"{here}\n\n{other_cohorts_text(other_cohorts(history, 1, 5), 'score', columns)}"


def test_the_status_keeps_machines_apart() -> None:
    assert status_of(run_on_two_machines()) == STATUS.strip("\n")


def test_the_tree_marks_nodes_of_other_machines_and_rejected_ones() -> None:
    assert tree_text(tree(run_on_two_machines().history, NodeId("1"))) == TREE.strip("\n")


def test_each_machine_has_its_own_leaderboard_and_heading() -> None:
    assert leaderboards(run_on_two_machines()) == LEADERBOARDS.strip("\n")


def test_the_chart_counts_points_that_it_does_not_draw() -> None:
    text = chart(points(run_on_two_machines().history, 1))
    assert "≠ 1 on other machines, not drawn" in text
    assert "! 1 rejected" in text
    assert "best @4: 70" in text


def test_a_node_shows_effect_spread_integrity_and_gates() -> None:
    assert node_text(detail(noisy_run().history, NodeId("1.1")), ".loopty/nodes/1.1") == NODE.strip("\n")


def test_what_one_pair_shows_is_undecided() -> None:
    text = node_text(detail(noisy_run().history, NodeId("1.2")), "folder")
    assert "@3  ? inconclusive" in text
    assert "score better than @2 by 6.98 (349.0 %) in 1 pair; error rate 5 %" in " ".join(text.split())


def test_a_worse_effect_is_called_worse() -> None:
    wobble = itertools.cycle([0.01, -0.01, 0.02, -0.02, 0.0])
    story = Story(baseline=1.0, again=lambda node: 1.0 - 0.1 * (node == "1.1") + next(wobble))
    story.tries("1", 1.1)
    text = node_text(detail(story.history, NodeId("1.1")), "folder")
    assert "  because   worse than @1\n" in text
    assert "  effect    score worse than @1 by 0.14 (13.7 %) in 1 pair" in text
    assert "by -" not in text


def test_weak_integrity_is_reported_once() -> None:
    story = noisy_run()
    assert "integrity" not in status_of(story)
    story = Story()
    story.integrity = Integrity.WEAK
    assert "integrity" not in status_of(story)
    story.tries("1", 2.0)
    warning = "weak: the candidate could reach the code that scored it; set isolated = true to separate them"
    assert f"integrity {warning}" in " ".join(status_of(story).split())
    assert f"integrity: {warning}" in closing(story).replace("\n", " ")
    said = [" ".join(text.split()) for text in (closing(story), status_of(story))]
    assert [text.count("isolated = true") for text in said] == [1, 1]
    assert "100.0 % better than the baseline (1), not isolated;" in closing(story)


def test_a_change_over_a_baseline_near_zero_has_the_metrics_unit() -> None:
    wobble = iter([-0.04, 0.05, -0.03, 0.02, 0.0])
    story = Story(baseline=0.01, again=lambda _: next(wobble))
    story.noise = Noise(repeat="never")
    story.tries("1", 0.9)
    assert "best      @2: 0.89 better than the baseline (not confirmed); score 0.90" in status_of(story)
    assert " % (6 measurements" not in status_of(story)
    assert "+0.89" in leaderboard_text(leaderboard(story.history, 1, 5), "score")
    assert "+0.89" in node_text(detail(story.history, NodeId("1.1")), "folder")


def test_verdicts_of_the_control_are_separate() -> None:
    story = noisy_run()
    story.tries("1", 0.5, Pool.CONTROL)
    assert "  verdicts  1 kept, 1 inconclusive; control 1 discarded\n" in status_of(story)


def test_a_candidate_that_tampered_is_marked_as_rejected() -> None:
    story = Story()
    story.tries("1", None, ending=Ending.TAMPERED)
    assert "rejected ! a change" in tree_text(tree(story.history, NodeId("1")))


def test_noise_is_a_share_of_the_score() -> None:
    assert "  noise     score ± 0.5 % (newest 5 of @2)" in status_of(noisy_run()).splitlines()


def test_a_lucky_measurement_is_not_listed() -> None:
    head, first, second = leaderboard_text(leaderboard(noisy_run().history, 1, 5), "score").splitlines()
    assert head == "     node  score  better by"
    assert first == "  1  @2     2.00    +96.0 %  (not confirmed) a change"
    assert second == "  2  @1     1.01             baseline"


def test_the_tree_has_as_many_digits_as_the_noise_allows() -> None:
    assert tree_text(tree(noisy_run().history, NodeId("1"))).splitlines() == [
        "       score    effect",
        "@1      1.01           ● baseline",
        "├─ @3   8.99  +790.1 % ? (inconclusive) a change",
        "@2      2.00   +96.0 % ★ a change",
    ]


def test_goodput_is_a_small_table() -> None:
    wobble = iter([1.1, 0.9, 1.0, 1.05, 0.95])
    story = Story(baseline=1.0, again=lambda _: next(wobble))
    for score, ending in ((0.5, Ending.FAILED), (None, Ending.FAILED), (None, Ending.REFUSED)):
        story.tries("1", score, ending=ending)
    story.tries("1", 0.5, Pool.CONTROL)
    story.tries("1", None, Pool.CONTROL)
    story.refuses()
    story.reserves(100_000, 0.1)
    history = story.history
    assert goodput_text(goodput(history, history.runs[1], 1800.0)) == GOODPUT.strip("\n")


def test_the_slots_of_trials_and_models_are_a_line_of_the_goodput_where_a_model_proposes() -> None:
    story = Story(baseline=1.0)
    story.tell(CallReserved(1, "a", "evolver", 9, 0.0, "me", pool=Pool.ATTEMPT))
    story.tell(CallSettled(1, "a", 9, 0.0))
    history = story.history
    last = goodput_text(goodput(history, history.runs[1], 2.0)).splitlines()[-1]
    assert last == "trial slots were busy 25 % of the time, model slots 50 %"


def controlled(attempts: list[float], control: list[float], direction: Direction = Direction.MAX) -> Story:
    story = Story(direction, baseline=1.0)
    for one, other in itertools.zip_longest(attempts, control):
        if one is not None:
            story.tries("1", one)
        if other is not None:
            story.tries("1", other, Pool.CONTROL)
    return story


def closing(story: Story) -> str:
    history = story.history
    found = status(history, history.runs[1], story.now + 1, lambda _: True, Pools(control=9))
    return closing_text(found, "all attempts are spent")


def test_a_proposer_no_better_than_random_is_reported() -> None:
    story = controlled([1.1, 1.3, 1.2, 1.5, 1.4, 1.7, 1.6, 1.8], [1.2, 1.1, 1.4, 1.3, 1.6, 1.5, 1.8, 1.7])
    words = "4 of 8 pairs won, 4 lost: not significant (p = 1); best against best no difference in score"
    assert f"vs random {words}" in " ".join(status_of(story).split())
    assert f"vs random: {words}" in closing(story).replace("\n", " ")


def test_a_lower_score_is_an_uplift_where_lower_is_better() -> None:
    story = controlled([0.1] * 8, [0.9] * 8, Direction.MIN)
    text = "vs random: 8 of 8 pairs won, 0 lost: better than random (p = 0.0352); best against best +0.8 in score"
    assert text in closing(story).replace("\n", " ")


def test_two_control_trials_allow_no_conclusion() -> None:
    lines = closing(controlled([1.1, 1.2, 1.3, 1.4, 1.5], [0.5, 0.5])).replace("\n", " ")
    assert "control: nothing better than the baseline" in lines
    assert "vs random: 2 of 2 pairs won, 0 lost: too few pairs differ to say" in lines


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("story", [run_on_two_machines(), noisy_run()], ids=["run_on_two_machines", "noisy_run"])
def test_no_line_is_wider_than_the_terminal(story: Story, columns: int) -> None:
    history = story.history
    ascii_terminal = Terminal(unicode=False)
    texts = [
        status_of(story, columns),
        status_of(story, columns, ascii_terminal),
        leaderboards(story, columns),
        tree_text(tree(history, NodeId("1")), columns),
        node_text(detail(history, NodeId("1.1")), "folder", columns),
        goodput_text(goodput(history, history.runs[1], 60.0), columns),
    ]
    for text in texts:
        assert max(map(width, text.splitlines())) <= columns
    assert texts[1].isascii()
