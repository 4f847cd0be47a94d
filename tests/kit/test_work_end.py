"""What is left to do for a piece of work is done once, all of it."""

from __future__ import annotations

import functools

import pytest

from loopty.kit import process
from loopty.kit.process import at_work_end, end_work


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch):
    """Without what other tests of this process have left."""
    monkeypatch.setattr(process, "_functions", {})


def test_functions_are_called_once_newest_first():
    called: list[int] = []
    first, second = functools.partial(called.append, 1), functools.partial(called.append, 2)
    for function in (first, second, first):
        at_work_end(function)
    end_work()
    end_work()
    assert called == [2, 1]


def test_a_function_that_fails_does_not_keep_the_others_from_it(capsys):
    called: list[int] = []
    at_work_end(functools.partial(called.append, 1))
    at_work_end(functools.partial(called.remove, 5))
    end_work()
    assert called == [1]
    assert "ValueError" in capsys.readouterr().err
