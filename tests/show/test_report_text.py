"""Status, tree, node and closing lines as text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.kit.records import replace
from loopty.record.sessions import SessionStalled, SessionStarted
from loopty.record.trials import TrialEnded
from loopty.show.best import leaderboard, leaderboard_text
from loopty.show.closing_text import closing_text, control_hint
from loopty.show.node import detail, node_text
from loopty.show.run_status import RunStatus, status
from loopty.show.status_text import status_text
from loopty.show.terminal import Terminal, width
from loopty.show.tree_rows import tree
from loopty.show.tree_text import tree_text

from .story import OWNER, Story, random_story

POOLS = Pools(attempts=9, control=3, wall_seconds=600.0, tokens=10_000, money_usd=2.0)

STATUS = """
run 1  running (process 4711 on host)

  best      @3: 24.2 % better than the baseline; score 2.41
  baseline  score 1.94 (higher is better)
  control   @5: 4.1 % better than the baseline; score 2.02
  vs random the best attempt is 19.3 % better than the best control
  running   @6 for 3.0 s
  refused   1 proposal rejected before running; not counted as attempts
            the last one because: the same as @2
  attempts  4 of 9: 2 finished, 1 failed; 1 since the best
  controls  1 of 3: 1 finished
  time      24 s, 12.5 trials/min
  models    1,200 tokens, $0.31
  remaining 5 attempts, 9 min 36 s, 8,800 tokens, $1.69
  criteria  c0ffee
  next      loopty diff best --baseline
            loopty apply best
"""

TREE = """
       score   effect
@1      1.94          ● baseline
├─ @2   1.88   -3.1 % · a change
├─ @4          failed × a change
@3      2.41  +24.2 % ★ a change
└─ @6         running ▸ a change
1 control node is not shown (the best is @5: 2.02): --controls shows it
"""

CLOSING = """
best @3: 24.2 % better than the baseline (1.94); score 2.41
control @5: 2.02, 4.1 % better than the baseline; the best attempt is 19.3 %
better than that
4 attempts (2 finished, 1 failed) in 24 s; interrupted
models: 1,200 tokens, $0.31; details: loopty model cost
see it: loopty diff best --baseline
use it: loopty apply best
"""


@pytest.fixture
def story() -> Story:
    story = Story(baseline=1.94)
    story.tries("1", 1.88)
    story.tries("1", 2.41)
    story.tries("1", None)
    story.tries("1", 2.02, Pool.CONTROL)
    story.starts(story.adds("1.2"))
    story.refuses()
    story.reserves(1200, 0.31)
    return story


def status_of(story: Story, pools: Pools | None = POOLS) -> RunStatus:
    history = story.history
    return status(history, history.runs[1], story.now + 1, lambda _: True, pools)


def test_the_status_of_a_small_run(story: Story) -> None:
    assert status_text(status_of(story)) == STATUS.strip("\n")


def test_the_tree_of_a_small_run(story: Story) -> None:
    assert tree_text(tree(story.history, NodeId("1"), controls=False)) == TREE.strip("\n")


def test_the_control_is_in_the_tree_where_it_is_wanted(story: Story) -> None:
    assert "├─ @5   2.02   +4.1 % ◦ (control) a change" in tree_text(tree(story.history, NodeId("1")))


def test_a_pruned_node_is_not_drawn_as_failed() -> None:
    story = Story(baseline=1.0)
    story.tries("1", None, ending=Ending.PRUNED)
    assert tree_text(tree(story.history, NodeId("1"))).splitlines()[-1] == "└─ @2         pruned – a change"


def test_a_line_of_the_tree_says_what_changed_and_not_where() -> None:
    story = Story(baseline=1.0)
    for summary in ("a.py: 0.5 → 0.496 line 14", "a.py: delete statement line 3"):
        story.ends(story.adds("1", summary=summary, edits=("a.py",)), 1.0)
    text = tree_text(tree(story.history, NodeId("1")))
    assert "same · 0.5 → 0.496 line 14" in text
    assert "a.py" not in text
    story.ends(story.adds("1", summary="b.py: 1 → 2 line 1", edits=("b.py",)), 1.0)
    text = tree_text(tree(story.history, NodeId("1")))
    assert "· a.py: 0.5 → 0.496 line 14" in text
    assert "· b.py: 1 → 2 line 1" in text


def test_parameters_show_the_values_before_or_become_columns() -> None:
    story = Story(baseline=1.0)
    parent = story.adds("1", params={"lr": 0.1, "layers": 2})
    story.ends(parent, 2.0)
    story.ends(story.adds(parent, params={"lr": 0.03, "layers": 2}), 3.0)
    assert "★ lr 0.1 → 0.03" in tree_text(tree(story.history, NodeId("1")))
    lines = tree_text(tree(story.history, NodeId("1")), 33).splitlines()
    assert [line.split() for line in lines] == [
        ["score", "effect", "lr", "l…ers"],
        ["@1", "1", "●"],
        ["@2", "2", "+100.0", "%", "●", "0.1", "2"],
        ["@3", "3", "+50.0", "%", "★", "0.03", "2"],
    ]


def test_the_closing_lines_of_a_small_run(story: Story) -> None:
    assert closing_text(status_of(story), "interrupted") == CLOSING.strip("\n")


def test_a_gain_in_pairs_that_the_scores_deny_is_explained(story: Story) -> None:
    found = status_of(story)
    assert found.best
    assert found.best.over_baseline
    change = replace(found.best.over_baseline, amount=0.02, percent=1.0)
    slower = replace(found, best=replace(found.best, score=1.90, over_baseline=change))
    assert "better than the baseline in runs side by side (its 1.94 is of other runs)" in closing_text(
        slower, "x", columns=500
    )
    words = " ".join(status_text(slower).split())
    assert "better than the baseline in runs side by side; score 1.90 baseline score 1.94" in words
    much_faster = replace(slower, best=replace(found.best, score=2.5, over_baseline=change))
    assert "in runs side by side (its 1.94 is of other runs)" in closing_text(much_faster, "x", columns=500)


def test_the_closing_lines_without_a_gain_offer_nothing_to_apply() -> None:
    story = Story(baseline=2.0)
    story.tries("1", 1.0)
    text = closing_text(status_of(story, None), "all 1 attempt trials are spent")
    assert text.startswith("the search found nothing better than the baseline (2)\n1 attempt (1 finished)")
    assert "apply" not in text


def test_the_closing_lines_say_what_it_means_that_the_control_found_more() -> None:
    story = Story(baseline=2.0)
    story.tries("1", 1.0)
    story.tries("1", 90.0, Pool.CONTROL)
    found = status_of(story, None)
    lines = closing_text(found, "spent", columns=500).splitlines()
    assert lines[0] == "the search found nothing better than the baseline (2)"
    assert lines[1].startswith("but the control found @3: 90, 4,400 % better than the baseline. Random")
    assert lines[-2:] == ["see it: loopty diff @3 --baseline", "use it: loopty apply @3"]
    assert "the control's node @3 has score 90" in control_hint(found)
    assert "more than the search found" in " ".join(status_text(found).split())
    story.tries("1", 99.0)
    assert control_hint(status_of(story, None)) == ""
    assert "but the control" not in closing_text(status_of(story, None), "spent", columns=500)


def test_the_closing_lines_name_an_outage() -> None:
    story = Story(baseline=2.0)
    story.tell(SessionStalled(1, "no reply", 30.0))
    text = closing_text(status_of(story, None), "a model is unavailable: no reply")
    assert text.startswith("nothing was tried, because a model was unavailable")
    assert "outage: a model was unavailable once, 30 s in total; no attempt was charged" in text
    story.tries("1", 3.0)
    assert "outage: a model was unavailable once" in closing_text(status_of(story, None), "spent")


def test_all_closing_lines_have_the_same_unit() -> None:
    story = Story(Direction.MIN, baseline=1.0)
    story.tries("1", 0.5, Pool.CONTROL)
    story.tries("1", -0.25)
    text = closing_text(status_of(story, None), "spent")
    assert "1.25 better than the baseline (1.00); score -0.25" in text
    assert "0.50, 0.50 better than the baseline; the best attempt is 0.75 better" in text.replace("\n", " ")


def test_the_closing_lines_report_a_baseline_without_result() -> None:
    text = closing_text(status_of(Story(baseline=None), None), "the baseline 1 gave no result")
    assert text.startswith("the baseline gave no result\n")


def test_the_status_of_a_stopped_run_has_the_reason(story: Story) -> None:
    story.stops("no improvement in the last 50 attempts")
    lines = status_text(status_of(story)).splitlines()
    assert lines[:3] == ["run 1  stopped", "", "  best      @3: 24.2 % better than the baseline; score 2.41"]
    assert "  because   no improvement in the last 50 attempts" in lines
    assert lines[-2:] == ["  next      loopty diff best --baseline", "            loopty apply best"]


def test_the_status_of_a_baseline_without_result_has_the_reason() -> None:
    story = Story(baseline=None)
    assert "  baseline  not measured yet\n" in status_text(status_of(story))
    story.ends(NodeId("1"), None)
    assert "  baseline  no result: failed: exit code 1\n" in status_text(status_of(story))


def test_work_by_hand_takes_the_time_of_its_trials() -> None:
    story = Story(driven=False)
    for _ in range(9):
        story.tries("1", 2.0)
    assert "  time      5.0 s of trials\n" in status_text(status_of(story, None))
    story.tell(SessionStarted(1, OWNER))
    story.stops("stopped on request")
    assert "  time      1.0 s of sessions, 5.0 s of trials\n" in status_text(status_of(story, None))


def test_cancelled_trials_are_shown_separately() -> None:
    story = Story()
    story.starts(story.adds("1"))
    story.tell(TrialEnded(NodeId("1.1"), 1, Outcome(Ending.CANCELLED, reason="stopped")))
    found = status_of(story)
    assert "  attempts  0 of 9: 1 cancelled\n" in status_text(found)
    assert "0 attempts (1 cancelled) in " in closing_text(found, "stopped")


def test_a_lower_score_is_shown_as_better_where_lower_is_better() -> None:
    story = Story(Direction.MIN, baseline=2.0)
    story.tries("1", 1.5)
    assert "@2: 25.0 % better than the baseline; score 1.5" in status_text(status_of(story))


def test_a_node_shows_everything_known_about_it() -> None:
    story = Story()
    parent = story.adds("1", params={"rate": 0.1, "depth": 3})
    node = story.adds(parent, summary="use a heap", params={"rate": 0.25, "depth": 3}, operator="tpe")
    story.ends(node, 2.0, memory=10.0)
    text = node_text(detail(story.history, node), ".loopty/nodes/1.1.1")
    for line in (
        "@3  ● kept, best of its run",
        "  path      1.1.1",
        "  because   better: score 2 against 1 of @1",
        "  made by   tpe",
        "  change    use a heap",
        "  parent    @2",
        "  trial     finished after 0.5 s",
        f"  commit    {'b' * 40}",
        "  folder    .loopty/nodes/1.1.1",
        "  score                2           1    +100.0 %",
        "  memory              10",
        "  rate   0.25 (was 0.1)",
        "  depth  3",
    ):
        assert line in text.splitlines()


def test_the_leaderboard_ranks_with_gains() -> None:
    story = Story(baseline=2.0)
    story.tries("1", 2.5)
    story.tries("1", 1.0, Pool.CONTROL)
    text = leaderboard_text(leaderboard(story.history, 1, top=5), "score")
    assert text.splitlines() == [
        "     node  score  better by",
        "  1  @2      2.5    +25.0 %  a change",
        "  2  @1      2.0             baseline",
    ]


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    story = random_story(seed=5, attempts=60, control=20)
    node = story.adds("1.1", summary="long " * 60 + "長い", params={"x" * 60: "y" * 90})
    story.ends(node, 2.0, **{"metric " * 20: 1.0})
    history = story.history
    texts = [
        status_text(status_of(story), columns),
        tree_text(tree(history, NodeId("1"), 30), columns),
        leaderboard_text(leaderboard(history, 1, 10), "score", columns),
        node_text(detail(history, node), "folder", columns),
        closing_text(status_of(story), "all attempts are spent", columns),
    ]
    for text in texts:
        assert max(map(width, text.splitlines())) <= columns


def test_lists_fit_a_narrow_terminal() -> None:
    story, node = Story(baseline=1.0), NodeId("1")
    for score in (1.125, 1.25, 1.375, 1.5, 1.625, 1.75):
        node = story.tries(node, score)
    history = story.history
    lines = tree_text(tree(history, NodeId("1")), 30).splitlines()
    lines += leaderboard_text(leaderboard(history, 1, 9), "score", 34).splitlines()
    assert max(map(width, lines)) <= 34
    assert any(line.startswith("  1  @7 ") for line in lines)


def test_ids_of_kilobytes_are_cut_to_head_and_tail() -> None:
    story, node = Story(), NodeId("1")
    for _ in range(400):
        node = story.adds(node)
    story.ends(node, 2.0)
    history = story.history
    lines = tree_text(tree(history, NodeId("1"), limit=None)).splitlines()
    assert len(lines) == 402
    assert max(map(width, lines)) <= 80
    assert "★" in lines[-1]
    assert len(status_text(status_of(story)).splitlines()[2]) <= 80
    shown = node_text(detail(history, node), "folder")
    assert str(node) in shown.replace("\n", "").replace(" ", "")


def test_a_summary_cannot_control_the_terminal() -> None:
    story = Story()
    story.ends(story.adds("1", summary="fast\x1b[2J\r\n\x07er \u202e"), 2.0)
    history = story.history
    texts = tree_text(tree(history, NodeId("1"))) + node_text(detail(history, NodeId("1.1")), "folder")
    assert not set(texts) & {"\x1b", "\r", "\x07", "\u202e"}
    assert "fast[2J  er" in texts


def test_text_for_an_ascii_terminal_is_ascii(story: Story) -> None:
    terminal = Terminal(unicode=False)
    assert tree_text(tree(story.history, NodeId("1")), terminal=terminal).isascii()
    assert status_text(status_of(story), terminal=terminal).isascii()


def test_plain_text_does_not_import_rich() -> None:
    modules = "chart, status_text, tree_text, node, best, progress"
    code = f"import sys; from loopty.show import {modules}; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
