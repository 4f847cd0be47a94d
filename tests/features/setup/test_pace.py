"""How fast trials can go is found out by runs that are made anyway."""

import subprocess
import sys

from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.pace import is_same_beside, profile_of, warm_gain, watch_processes
from loopty.features.setup.proposal_text import night_text
from loopty.features.setup.proven_task import MeasuredNoise, Usage

BUSY = "import time\nend = time.perf_counter() + 0.4\nwhile time.perf_counter() < end: pass"


def noise(values, seconds=(0.5, 0.5, 0.5)):
    return MeasuredNoise("score", values, seconds, Usage(0.9, 40))


def finished(score, seconds=0.05):
    return Outcome(Ending.FINISHED, metrics={"score": score}, seconds=seconds)


def test_processes_that_others_wait_for_are_counted_too():
    shell = f"{sys.executable} -c '{BUSY}' & wait"
    with watch_processes() as used:
        subprocess.run(["sh", "-c", shell], check=True)
    assert 0.1 < used[0].cpu_seconds < 5
    assert used[0].memory_mb >= 1


def test_a_profile_says_what_the_runs_after_the_first_used():
    profile = profile_of(noise((1.0, 1.0, 1.0), (9.0, 0.5, 0.5)))
    assert (profile.seconds, profile.cores, profile.memory_mb, profile.steady) == (0.5, 0.9, 40, True)
    assert not profile_of(noise((1.0, 1.1, 1.0))).steady


def test_a_warm_start_is_taken_where_it_is_faster_and_scores_the_same():
    steady = noise((1.0, 1.0, 1.0))
    assert round(warm_gain(steady, [finished(1.0, 2.0), finished(1.0), finished(1.0)])) == 10
    assert warm_gain(steady, [finished(1.0), finished(1.0001), finished(1.0001)]) == 0, "another score"
    assert warm_gain(steady, [finished(1.0, 0.45)] * 3) == 0, "hardly faster"
    assert warm_gain(steady, [finished(1.0), Outcome(Ending.FAILED)]) == 0
    assert warm_gain(noise((1.0, 1.2, 1.1)), [finished(1.3)] * 3) > 0, "within the noise"


def test_a_score_has_to_be_the_same_beside_another():
    assert is_same_beside(noise((1.0, 1.0, 1.0)), [finished(1.0)] * 2)
    assert not is_same_beside(noise((1.0, 1.0, 1.0)), [finished(1.0), finished(0.9)])
    assert not is_same_beside(noise((1.0, 1.0, 1.0)), [finished(1.0), Outcome(Ending.FAILED)])


def test_what_a_night_buys_is_said_in_runs_and_pairs():
    assert night_text(2.0, 0.0, 2) == "what a night buys: 8 hours are about 28,800 runs, and one shows any gain"
    text = night_text(1.0, 4.0, 1)
    assert "a gain of 10 % takes about 2 pairs" in text
    assert "a gain of 1 % takes about 200 pairs" in text
