"""Older names of keys, and parameters in short form."""

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.objective import Direction
from loopty.domain.space import ParameterKind
from loopty.taskfile.read import parse

BENCHMARK = '[benchmark]\ncommand = "true"\ntimeout_seconds = 1\n'
CODE = BENCHMARK + '[access]\nwrite = ["a.py"]\n'


def test_older_names_are_read():
    older = parse('statement = "faster"\n' + CODE + "[pools]\nattempts = 7\n")
    assert older == parse('goal = "faster"\n' + CODE + "[budget]\nattempts = 7\n")
    assert (older.statement, older.pools.attempts) == ("faster", 7)


def test_a_fault_under_an_older_name_has_its_line():
    with pytest.raises(Misuse, match=r"loopty.toml:7: budget.attempts must be"):
        parse(CODE + "[pools]\nattempts = -1\n")


def test_both_names_are_one_too_many():
    with pytest.raises(Misuse, match="both budget and pools, its older name: keep budget"):
        parse(CODE + "[pools]\nattempts = 1\n[budget]\nattempts = 2\n")


@pytest.mark.parametrize("word", ["min", "minimize", "minimise"])
def test_directions_are_read_in_full(word):
    assert parse(CODE + f'[objective]\ndirection = "{word}"\n').objective.direction is Direction.MIN


def test_another_direction_is_refused():
    with pytest.raises(Misuse, match=r"objective\.direction must be one of max, min"):
        parse(CODE + '[objective]\ndirection = "down"\n')


SHORT = """
[parameters]
rate = { float = [1e-4, 1.0], log = true }
layers = { int = [1, 8], default = 2 }
method = { categorical = ["adam", "sgd"] }
"""


def test_parameters_have_a_short_form():
    rate, layers, method = parse(BENCHMARK + SHORT).space.parameters.values()
    assert (rate.type, rate.low, rate.high, rate.log) == (ParameterKind.FLOAT, 1e-4, 1.0, True)
    assert (layers.type, layers.low, layers.high, layers.default) == (ParameterKind.INT, 1, 8, 2)
    assert (method.type, method.choices) == (ParameterKind.CATEGORICAL, ("adam", "sgd"))


@pytest.mark.parametrize("values", ["1", "[1]", "[1, 2, 3]", '"a"'])
def test_a_short_form_without_two_ends_is_refused(values):
    with pytest.raises(Misuse, match="needs low and high"):
        parse(BENCHMARK + f"[parameters]\nx = {{ float = {values} }}\n")


def test_parameters_of_combinations_have_it_too():
    task = parse(CODE + "[combine]\nparameters = { weight = { float = [0.0, 1.0] } }\n")
    assert task.combine.parameters["weight"].high == 1.0
