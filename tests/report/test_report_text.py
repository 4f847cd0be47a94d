"""Status, tree, node and closing lines as text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.pool import Pool
from loopty.domain.task import Pools
from loopty.record.sessions import SessionStarted
from loopty.record.trials import TrialEnded
from loopty.report.best_text import closing_text, leaderboard_text
from loopty.report.columns import width
from loopty.report.node_text import node_text
from loopty.report.status_text import status_text
from loopty.report.terminal import Terminal
from loopty.report.tree_text import tree_text
from loopty.views.leaderboard import leaderboard
from loopty.views.node_detail import detail
from loopty.views.node_tree import tree
from loopty.views.run_status import RunStatus, status

from ..views.story import OWNER, Story, random_story

POOLS = Pools(attempts=9, control=3, wall_seconds=600.0, tokens=10_000, money_usd=2.0)

STATUS = """
run 1  running (process 4711 on host)

  best      1.2: score 2.41, 24.2 % better than the baseline
  baseline  score 1.94 (higher is better)
  control   1.4: score 2.02, 4.1 % better than the baseline
  uplift    the best attempt is 19.3 % better than the best control
  attempts  4 of 9: 2 finished, 1 failed; 1 since the best
  controls  1 of 3: 1 finished
  refused   1 proposal rejected before running; not counted as attempts
  time      24 s, 12.5 trials/min
  models    1,200 tokens, $0.31
  remaining 5 attempts, 9 min 36 s, 8,800 tokens, $1.69
  running   1.2.1 for 3.0 s
  criteria  c0ffee
"""

TREE = """
1            1.94 ● baseline: the code as it is
├─ 1.1       1.88 · rewrite: a change
├─ 1.2       2.41 ★ rewrite: a change
│  └─ 1.2.1       ▸ (running) rewrite: a change
├─ 1.3            × (failed) rewrite: a change
└─ 1.4       2.02 ◦ (control) rewrite: a change
"""

CLOSING = """
best 1.2: score 2.41, 24.2 % better than the baseline (1.94)
control 1.4: 2.02, 4.1 % better than the baseline; the best attempt is 19.3 %
better than that
4 attempts (2 finished, 1 failed) in 24 s; interrupted
models: 1,200 tokens, $0.31; details: loopty spend
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
    assert tree_text(tree(story.history, NodeId("1"))) == TREE.strip("\n")


def test_the_closing_lines_of_a_small_run(story: Story) -> None:
    assert closing_text(status_of(story), "interrupted") == CLOSING.strip("\n")


def test_the_closing_lines_without_a_gain_offer_nothing_to_apply() -> None:
    story = Story(baseline=2.0)
    story.tries("1", 1.0)
    text = closing_text(status_of(story, None), "all 1 attempt trials are spent")
    assert text.startswith("nothing better than the baseline (2) was found\n1 attempt (1 finished)")
    assert "apply" not in text


def test_the_closing_lines_report_a_baseline_without_result() -> None:
    text = closing_text(status_of(Story(baseline=None), None), "the baseline 1 gave no result")
    assert text.startswith("the baseline gave no result\n")


def test_the_status_of_a_stopped_run_has_the_reason(story: Story) -> None:
    story.stops("no improvement in the last 50 attempts")
    assert status_text(status_of(story)).splitlines()[:3] == [
        "run 1  stopped",
        "",
        "  because   no improvement in the last 50 attempts",
    ]


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
    assert "1.1: score 1.5, 25.0 % better than the baseline" in status_text(status_of(story))


def test_a_node_shows_everything_known_about_it() -> None:
    story = Story()
    parent = story.adds("1", params={"rate": 0.1, "depth": 3})
    node = story.adds(parent, summary="use a heap", params={"rate": 0.25, "depth": 3}, operator="tpe")
    story.ends(node, 2.0, memory=10.0)
    text = node_text(detail(story.history, node), ".loopty/nodes/1.1.1")
    for line in (
        "1.1.1 #3  ● kept, best of its run",
        "  because   better: score 2 against 1 of 1",
        "  made by   tpe",
        "  change    use a heap",
        "  parent    1.1",
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
        "     node       score  better by",
        "  1  1.1          2.5    +25.0 %  rewrite: a change",
        "  2  1              2             baseline: the code as it is",
        "  3  1.2            1    -50.0 %  (control) rewrite: a change",
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


def test_ids_of_kilobytes_are_cut_to_head_and_tail() -> None:
    story, node = Story(), NodeId("1")
    for _ in range(400):
        node = story.adds(node)
    story.ends(node, 2.0)
    history = story.history
    lines = tree_text(tree(history, NodeId("1"), limit=None)).splitlines()
    assert len(lines) == 401
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
    modules = "chart, status_text, tree_text, node_text, best_text, progress"
    code = f"import sys; from loopty.report import {modules}; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
