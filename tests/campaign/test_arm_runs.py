"""The budget and the turns of a comparison of arms."""

from __future__ import annotations

import subprocess

import pytest

from loopty.campaign.arms import ArmBudget, ArmRuns, parse_budget
from loopty.domain.errors import Misuse


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("40", ArmBudget(40.0, "attempts")),
        ("40 attempts", ArmBudget(40.0, "attempts")),
        ("600s", ArmBudget(600.0, "seconds")),
        ("200k tokens", ArmBudget(200_000.0, "tokens")),
        ("$2.50", ArmBudget(2.5, "money")),
        ("2.5 usd", ArmBudget(2.5, "money")),
    ],
)
def test_a_budget_is_in_attempts_seconds_tokens_or_money(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "0", "many", "5 apples", "-3"])
def test_an_unclear_budget_is_refused_with_examples(text):
    with pytest.raises(Misuse, match="200k tokens"):
        parse_budget(text)


def test_slices_end_with_the_whole_budget():
    assert [ArmBudget(6.0, "attempts").slice(number) for number in (1, 2, 3, 4)] == [2, 3, 4, 6]
    assert ArmBudget(1.0, "money").slice(1) == 0.25


@pytest.fixture
def repository(tmp_path):
    top = tmp_path / "repository"
    top.mkdir()
    (top / "loopty.toml").write_text('[benchmark]\ncommand = "true"\ntimeout_seconds = 9\n')
    names = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
    for args in (["init", "-q"], ["add", "-A"], [*names, "commit", "-q", "-m", "start"]):
        subprocess.run(["git", *args], cwd=top, check=True)
    for arm in ("a", "b"):
        (tmp_path / f"{arm}.toml").write_text("")
    return top


def test_arms_take_turns_and_a_comparison_keeps_its_folder_when_seeds_are_added(repository, tmp_path):
    arms, budget = [tmp_path / "a.toml", tmp_path / "b.toml"], ArmBudget(4.0, "attempts")
    few, more = (ArmRuns([repository], arms, seeds, budget, tmp_path / "copies") for seeds in (2, 3))
    order = [(search.arm, search.seed) for search in more.searches()]
    assert order == [("b", 1), ("a", 1), ("a", 2), ("b", 2), ("b", 3), ("a", 3)]
    assert list(few.searches()) == list(more.searches())[:4]
    assert few.report().rows == ()
    assert not few.report().is_complete


def test_arms_need_two_names(repository, tmp_path):
    one = [tmp_path / "a.toml"]
    with pytest.raises(Misuse, match="two arms"):
        ArmRuns([repository], one, 1, ArmBudget(1.0, "attempts"), tmp_path)
    with pytest.raises(Misuse, match="same file name"):
        ArmRuns([repository], one * 2, 1, ArmBudget(1.0, "attempts"), tmp_path)
    with pytest.raises(Misuse, match="cannot be read"):
        ArmRuns([repository], [*one, tmp_path / "none.toml"], 1, ArmBudget(1.0, "attempts"), tmp_path)
