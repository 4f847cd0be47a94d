"""How many trials run at once, where the user does not say it."""

import pytest

from loopty.domain.task_tables import (
    AttemptFigures,
    Capacity,
    ExclusiveUse,
    ResourceProfile,
    choose_round_depth,
    choose_round_size,
)

MACHINE = Capacity(16, 64_000)
SMALL = ResourceProfile(1.0, 0.9, 100, steady=True)


@pytest.mark.parametrize(
    ("profile", "machine", "use", "width", "reason"),
    [
        (ResourceProfile(), MACHINE, ExclusiveUse(), 1, "was not measured"),
        (SMALL, MACHINE, ExclusiveUse(), 8, "at most 8"),
        (SMALL, Capacity(4, 64_000), ExclusiveUse(), 4, "one of 4 cores"),
        (ResourceProfile(1.0, 3.5, 100, steady=True), MACHINE, ExclusiveUse(), 4, "3.5 of 16 cores"),
        (ResourceProfile(1.0, 40.0, 100, steady=True), MACHINE, ExclusiveUse(), 1, "40.0 of 16 cores"),
        (ResourceProfile(1.0, 0.9, 20_000, steady=True), MACHINE, ExclusiveUse(), 2, "20,000 MB of 64,000 MB"),
        (ResourceProfile(1.0, 0.9, 100, steady=False), MACHINE, ExclusiveUse(), 1, "no equal scores"),
        (SMALL, MACHINE, ExclusiveUse(("port 8080",)), 1, "use port 8080"),
        (
            ResourceProfile(20.0, 0.9, 100, steady=True),
            MACHINE,
            ExclusiveUse((), 10.0),
            3,
            "asked 10 times a minute",
        ),
        (SMALL, MACHINE, ExclusiveUse((), 10.0), 1, "asked 10 times a minute"),
    ],
)
def test_the_scarcest_resource_decides_and_is_named(profile, machine, use, width, reason):
    size = choose_round_size(profile, machine, use)
    assert size.width == width
    assert reason in size.reason


@pytest.mark.parametrize(
    ("attempt", "left", "width", "depth", "reason"),
    [
        (AttemptFigures(0.0), 100, 1, 2, "not known yet"),
        (AttemptFigures(1.0), None, 1, 8, "after 8 submissions"),
        (AttemptFigures(400.0), 100, 1, 4, "about 400 s"),
        (AttemptFigures(7200.0), 100, 1, 1, "about 7.2e+03 s"),
        (AttemptFigures(1.0, 5.0), 100, 1, 2, "noise of 5 %"),
        (AttemptFigures(400.0, 5.0), 100, 40, 2, "noise of 5 %"),
        (AttemptFigures(1.0), 12, 4, 3, "12 attempts are left for 4 at once"),
        (AttemptFigures(1.0), 0, 4, 1, "0 attempts are left"),
    ],
)
def test_cost_noise_and_budget_decide_how_many_submissions_a_round_has(attempt, left, width, depth, reason):
    found = choose_round_depth(attempt, left, width)
    assert found.depth == depth
    assert reason in found.reason
