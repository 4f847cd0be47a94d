"""The dot chart."""

from __future__ import annotations

import pytest

from loopty.domain.objective import Direction
from loopty.domain.trial import Pool
from loopty.show.chart import chart
from loopty.show.rated_nodes import points
from loopty.show.terminal import Terminal, safe_text, width

from .story import Story, random_story

HIGHER_IS_BETTER = """
score (higher is better)                                           best @15: 7.2
       │                                                                  ●─────
   7.0 ┤                                                                  │    ·
       │                                                                  │
   6.5 ┤                                               ●──────────────·───╯
       │                                               │
   6.0 ┤                            ●──────────────────╯
       │                            │         ·
   5.5 ┤                            │
       │              ●─────────────╯                            ◦╌╌╌╌╌╌╌╌╌╌╌╌╌╌
       │              │                  ◦╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╯
   5.0 ┤●────────◦────╯╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╯
       │                   ·
   4.5 ┤     ·
       │
   4.0 ┤                                           ·
failed │                        ×                           ×
       └┬──────────────────┬───────────────────────┬──────────────────────┬─────
        1                  5                      10                     15
● 5 kept   · 6 discarded   × 2 failed   ◦ 3 control (╌ its best)   ─ best so far
"""

LOWER_IS_BETTER = """
score (lower is better)                                            best @15: 2.8
   6.0 ┤                                           ·
       │
   5.5 ┤     ·
       │                   ·
   5.0 ┤●────────◦────╮╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╮
       │              │                  ◦╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╮
       │              ●─────────────╮                            ◦╌╌╌╌╌╌╌╌╌╌╌╌╌╌
   4.5 ┤                            │
       │                            │         ·
   4.0 ┤                            ●──────────────────╮
       │                                               │
   3.5 ┤                                               ●──────────────·───╮
       │                                                                  │
   3.0 ┤                                                                  │    ·
       │                                                                  ●─────
failed │                        ×                           ×
       └┬──────────────────┬───────────────────────┬──────────────────────┬─────
        1                  5                      10                     15
● 5 kept   · 6 discarded   × 2 failed   ◦ 3 control (╌ its best)   ─ best so far
"""

NARROW_ASCII = """
score (higher is better)   best @15: 7.2
       |                             o-.
       |                     o-----.-'
     6 |            o----.---'
       |o-----o-----'~+~~~~~~~~~~+~~~~~~
       |  . +   .
     4 |                   .
failed |          x            x
       `+------------------+------------
        1                 10
o 5 kept   . 6 discarded   x 2 failed
+ 3 control (~ its best)   - best so far
"""


def small_run(direction: Direction) -> Story:
    story = Story(direction, baseline=5.0)
    for number, gain in enumerate([-0.5, 0.4, -0.2, None, 1.0, 0.9, -1.0, 1.6, None, 1.5, 2.2, 2.0]):
        story.tries("1", None if gain is None else 5.0 + direction.sign * gain)
        if number % 4 == 0:
            story.tries("1", 5.0 + direction.sign * (number * 0.05 - 0.1), Pool.CONTROL)
    return story


def chart_of(story: Story, columns: int = 80, rows: int = 20, terminal: Terminal | None = None) -> str:
    return chart(points(story.history, 1), columns, rows, terminal)


def test_the_chart_of_a_small_run_where_higher_is_better() -> None:
    assert chart_of(small_run(Direction.MAX)) == HIGHER_IS_BETTER.strip("\n")


def test_the_chart_of_a_small_run_where_lower_is_better() -> None:
    assert chart_of(small_run(Direction.MIN)) == LOWER_IS_BETTER.strip("\n")


def test_a_narrow_terminal_without_unicode_gets_a_chart_too() -> None:
    text = chart_of(small_run(Direction.MAX), 40, 12, Terminal(unicode=False))
    assert text == NARROW_ASCII.strip("\n")
    assert text.isascii()


def test_past_versions_are_neither_kept_points_nor_the_control() -> None:
    story = small_run(Direction.MAX)
    before = chart_of(story).splitlines()
    story.tries("1", 6.9, Pool.VERSION)
    story.tries("1", 5.2, Pool.VERSION)
    lines = chart_of(story).splitlines()
    assert lines[0] == before[0], "the best node is the best of the attempts"
    assert lines[-2].startswith("● 5 kept   · 6 discarded   × 2 failed   ◦ 3 control (╌ its best)")
    assert lines[-1] == "◇ 2 past versions   ─ best so far"
    assert sum(line.count("◇") for line in lines[:-1]) == 2


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("rows", [14, 20, 50])
def test_a_chart_keeps_to_its_size(columns: int, rows: int) -> None:
    lines = chart_of(random_story(seed=2, attempts=60, control=10), columns, rows).splitlines()
    assert len(lines) == rows
    assert max(map(width, lines)) <= columns


def test_a_terminal_too_small_for_a_chart_gets_a_small_one() -> None:
    assert "●" in chart_of(small_run(Direction.MAX), columns=5, rows=2)


def test_colours_change_nothing_but_colours() -> None:
    story = small_run(Direction.MAX)
    coloured = safe_text(chart_of(story, terminal=Terminal(colour=True)))
    assert "\x1b[1;32m●" in coloured
    for code in ("0", "1", "2", "31", "32", "36", "1;32"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert [line.rstrip() for line in coloured.splitlines()] == chart_of(story).splitlines()


def test_a_few_outliers_do_not_flatten_the_rest() -> None:
    story = small_run(Direction.MAX)
    for _ in range(15):
        story.tries("1", 5.5)
    story.tries("1", -400.0)
    story.tries("1", -300.0)
    text = chart_of(story)
    assert text.count("▼") == 3
    assert "▼ 2 off the chart, down to -400" in text
    assert "7.0 ┤" in text


def test_the_best_is_on_the_chart_even_if_it_is_an_outlier() -> None:
    story = Story(baseline=1.0)
    for number in range(30):
        story.tries("1", 0.9 + number / 1000)
    story.tries("1", 1000.0)
    text = chart_of(story)
    assert "off the chart" not in text
    assert "1000 ┤" in text


def test_equal_scores_lie_on_one_line() -> None:
    story = Story(baseline=3.0)
    story.tries("1", 3.0)
    story.tries("1", 3.0)
    (line,) = [line for line in chart_of(story).splitlines() if "●" in line and "┤" in line]
    assert line.lstrip().startswith("3.00 ┤●")
    assert line.count("·") == 2


def test_a_single_result_is_a_chart() -> None:
    assert "┤●" in chart_of(Story(baseline=0.0))


def test_many_points_share_cells_and_the_kept_one_is_visible() -> None:
    story = Story(baseline=1.0)
    for number in range(400):
        story.tries("1", 1.5 if number == 200 else 0.5)
    assert sum(line.count("●") for line in chart_of(story).splitlines()[:-1]) == 2


def test_without_scores_there_is_nothing_to_draw() -> None:
    story = Story(baseline=None)
    assert chart_of(story) == "no score to draw yet"
    story.tries("1", None)
    assert chart_of(story) == "no score to draw yet: 1 without a result"


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1e6, 1e15])
def test_scores_of_any_size_have_readable_labels(size: float) -> None:
    story = Story(baseline=size)
    for number in range(20):
        story.tries("1", size * (1 + number / 10))
    lines = chart_of(story).splitlines()
    assert max(map(width, lines)) <= 80
    names = [line.split("┤")[0].strip() for line in lines if "┤" in line]
    assert len(names) == len(set(names)) >= 3
