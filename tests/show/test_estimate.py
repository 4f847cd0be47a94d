"""What a run costs, before and while it is spent."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopty.domain.task import Task
from loopty.models.prices import Rates
from loopty.record.trials import Cohorts
from loopty.show.estimate import estimate, smallest_gain
from loopty.taskfile import read

from ..record.test_operator_credit import Story

RATES = Rates(1.0, 0.1, 10.0)


def task_with(top: Path, tables: str) -> Task:
    (top / "loopty.toml").write_text(
        f'[benchmark]\ncommand = "python3 b.py"\ntimeout_seconds = 9\n[access]\nwrite = ["p.py"]\n{tables}'
    )
    return read.load(top)


def test_before_a_run_the_files_and_the_profile_say_what_it_costs(tmp_path):
    task = task_with(tmp_path, "[pools]\nattempts = 100\nmoney_usd = 0.16\n[profile]\nseconds = 2.0\n")
    found = estimate(task, Story().history, None, "near", RATES, program_tokens=2_000)
    assert (found.tokens, found.money_usd) == (6_500.0, pytest.approx(0.02))
    assert (found.proposals, found.scarcest) == (8, "money")
    assert [*found.lines()] == [
        "a trial takes 2.0 s: about 1,800 an hour, in 1 slot",
        "a proposal of near: about 6,500 tokens, $0.0200 (a guess from the files)",
        "the budget allows about 8 more proposals: money is what ends first",
        "warning: fewer than 10 proposals are hardly a search: raise the limit of money under [budget] or "
        "[roles.evolver]",
    ]


def test_a_run_says_what_it_measured(tmp_path):
    story = Story()
    for number in range(1, 5):
        story.call(f"c{number}", tokens=1_000)
        story.add(f"1.{number}", calls=(f"c{number}",))
        story.judge(f"1.{number}", 2.0)
    run = story.history.runs[1]
    story.history.runs[1] = run.with_part(Cohorts(noise={"": {"score": 0.02}}))
    task = task_with(tmp_path, "[pools]\nattempts = 50\n[roles.evolver]\nmodel = 'openai:near'\ntokens = 100000\n")
    found = estimate(task, story.history, story.history.runs[1], "near", None, 2_000)
    assert (found.tokens, found.answers, found.money_usd) == (1_000, 4, 1.0)
    assert (found.proposals, found.scarcest) == (46, "attempts")
    assert not any(line.startswith("warning") for line in found.lines())


def test_the_smallest_gain_shrinks_with_the_pairs():
    assert smallest_gain(4.0, 200) == pytest.approx(1.0)
