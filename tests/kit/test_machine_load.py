"""How busy a machine is, as a factor for limits."""

import os

import pytest

from loopty.kit.process import processes_per_core


@pytest.mark.parametrize(("load", "factor"), [(0.1, 1.0), (2.0, 1.0), (6.0, 3.0), (900.0, 8.0)])
def test_a_busy_machine_gets_longer_limits_within_bounds(monkeypatch, load, factor):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert processes_per_core() == factor


def test_a_machine_that_does_not_tell_is_taken_as_idle(monkeypatch):
    def hidden():
        raise OSError

    monkeypatch.setattr(os, "getloadavg", hidden)
    assert processes_per_core() == 1.0
