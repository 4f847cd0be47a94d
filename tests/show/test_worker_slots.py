"""How many trials run at once on workers, and what `status` says about it."""

import pytest

from loopty.show.running import WorkerRow, WorkerSlots, worker_slots
from loopty.show.status_text import worker_lines


def rows(*cohorts):
    return [WorkerRow(f"w{n}", "h", "f", cohort, "none", "", 0.0, 0) for n, cohort in enumerate(cohorts)]


@pytest.mark.parametrize(
    ("cohorts", "stated", "slots"),
    [
        (["present"] * 8, None, WorkerSlots(8, 8, 8, "workers")),
        (["present"] * 8, 2, WorkerSlots(8, 8, 2, "width")),
        (["present", "other", "closed"], 4, WorkerSlots(3, 2, 2, "workers")),
        (["closed"], 4, WorkerSlots(1, 0, 1, "workers")),
        ([], 4, None),
    ],
)
def test_the_workers_bound_the_trials_unless_the_user_said_fewer(cohorts, stated, slots):
    assert worker_slots(rows(*cohorts), stated) == slots


class Status:
    workers, nodes, lost_leases, last_loss = (), (), 0, ""

    def __init__(self, slots):
        self.worker_slots = slots


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        (WorkerSlots(8, 8, 2, "width"), "8 workers, 2 trials at once: width = 2 of loopty.toml lets 6 wait"),
        (WorkerSlots(8, 8, 8, "workers"), "8 workers, 8 trials at once: one on each that is ranked"),
    ],
)
def test_status_says_which_bound_holds(slots, words):
    assert list(worker_lines(Status(slots))) == [words]
