"""How much each parameter matters, as text."""

from loopty.show.parameters import ParameterImportance, importance_text
from loopty.show.terminal import Terminal


def test_the_most_important_parameters_come_first_with_their_share():
    rows = [ParameterImportance("rate", 0.5, 48), ParameterImportance("depth", 0.04, 21)]
    head, rate, depth = importance_text(rows, 80).splitlines()
    assert head == "what the score depends on: share of the differences in rank, 48 trials"
    assert rate == f"  rate                  50 %  {'█' * 15}"
    assert depth == "  depth                  4 %  █  where it applies: 21 trials"


def test_nothing_known_is_nothing_said():
    assert importance_text([]) == ""


def test_long_lists_and_hostile_names_are_cut():
    rows = [ParameterImportance(f"\x1b[31mparameter {number}", 0.9, 30) for number in range(13)]
    text = importance_text(rows, 40, Terminal(unicode=False))
    assert "\x1b" not in text
    assert text.isascii()
    assert "and 3 other parameters" in text
    assert max(map(len, text.splitlines())) <= 40
