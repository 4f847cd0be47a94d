"""What the four checks of a gain say together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from loopty.domain.trial import Integrity
from loopty.show.run_status import RunState
from loopty.web.run_checks import checks_verdict, reality_checks


@pytest.mark.parametrize(
    ("states", "running", "ended"),
    [
        ({"pass"}, "yes", "yes"),
        ({"pass", "missing"}, "too early", "in part"),
        ({"missing"}, "too early", "not shown"),
        ({"pass", "fail"}, "not shown", "not shown"),
        ({"fail", "missing"}, "not shown", "not shown"),
    ],
)
def test_a_gain_is_real_only_where_every_check_holds(states: set[str], running: str, ended: str) -> None:
    assert checks_verdict(states, RunState.RUNNING) == running
    assert checks_verdict(states, RunState.STOPPED) == ended


def test_a_baseline_that_is_the_best_node_shows_no_gain() -> None:
    best = SimpleNamespace(over_baseline=None, integrity=Integrity.STRONG, edited=False)
    status: Any = SimpleNamespace(best=best, noise=None, state=RunState.STOPPED, uplift=None)
    assert reality_checks(status, None, has_split=False)["verdict"] == "not shown"
