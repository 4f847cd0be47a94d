"""How fast trials can go is found out by runs that are made anyway."""

import subprocess
import sys

from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.pace import is_same_beside, profile_of, prove_warm, warm_refusal, watch_processes
from loopty.features.setup.proposal_text import night_text, noise_text
from loopty.features.setup.proven_task import MeasuredNoise, ProvenTask, Usage
from loopty.features.setup.task_draft import TaskDraft
from loopty.session.by_hand import CheckResult

BUSY = "import time\nend = time.perf_counter() + 0.4\nwhile time.perf_counter() < end: pass"


def noise(values, seconds=(0.5, 0.5, 0.5)):
    return MeasuredNoise("score", values, seconds, Usage(0.9, 40))


def proven(measured):
    check = CheckResult(Outcome(Ending.FINISHED, {"score": 1.0}, seconds=40.0), None)
    return ProvenTask(TaskDraft("./bench"), check, (), measured)


def finished(score, seconds=0.05):
    return Outcome(Ending.FINISHED, metrics={"score": score}, seconds=seconds)


def test_processes_that_others_wait_for_are_counted_too():
    shell = f"{sys.executable} -c '{BUSY}' & wait"
    with watch_processes() as used:
        subprocess.run(["sh", "-c", shell], check=True)
    assert 0.2 < used[0].busy_seconds < 5
    assert used[0].memory_mb >= 1


def test_a_profile_says_what_the_runs_after_the_first_used():
    profile = profile_of(proven(noise((1.0, 1.0, 1.0), (9.0, 0.5, 0.5))))
    assert (profile.seconds, profile.cores, profile.memory_mb, profile.steady) == (0.5, 0.9, 40, True)
    assert not profile_of(proven(noise((1.0, 1.1, 1.0)))).steady
    once = profile_of(proven(None))
    assert (once.seconds, once.cores, once.steady) == (40.0, 0.0, False), "too long to repeat it"


def test_a_warm_start_is_taken_where_it_is_faster_and_scores_the_same():
    steady = noise((1.0, 1.0, 1.0))
    assert round(prove_warm(steady, [finished(1.0, 2.0), finished(1.0), finished(1.0)]).gain) == 10
    other = prove_warm(steady, [finished(1.0), finished(1.5), finished(1.5)])
    assert (other.gain, other.refusal) == (1, "the score changes: 1 to 1 without it, and 1.5 with it")
    assert "without it" in prove_warm(steady, [finished(1.0, 0.45)] * 3).refusal, "hardly faster"
    assert prove_warm(steady, [finished(1.0), Outcome(Ending.FAILED)]).refusal
    assert prove_warm(noise((1.0, 1.2, 1.1)), [finished(1.3)] * 3).gain > 1, "within the noise"


def test_a_score_has_to_be_the_same_beside_another():
    assert is_same_beside(noise((1.0, 1.0, 1.0)), [finished(1.0)] * 2)
    assert not is_same_beside(noise((1.0, 1.0, 1.0)), [finished(1.0), finished(0.9)])
    assert not is_same_beside(noise((1.0, 1.0, 1.0)), [finished(1.0), Outcome(Ending.FAILED)])


def test_what_a_night_buys_is_said_in_results_gains_and_cost():
    steady = night_text(2.0, 0.0, 0.0, 2)
    assert "a run takes 2 s, so at most 3,600 results an hour, 28,800 in 8 hours" in steady
    assert "any gain can be shown" in steady
    noisy = night_text(1.0, 3.0, 4.0, 1)
    assert "a run takes 1 s and its gates 3 s, so at most 900 results an hour" in noisy
    assert "a gain of 8 % can be shown by morning (twice the noise, in up to 16 pairs of 2.0 s)" in noisy
    assert "cap it with money_usd under [budget]" in noisy


def test_waiting_for_a_cpu_is_no_work_and_no_pause():
    usage = Usage(0.2, 40, waited_seconds=0.7)
    busy = MeasuredNoise("score", (1.0, 1.1, 1.0), (0.5, 0.5, 0.5), usage)
    assert profile_of(proven(busy)).cores == 0.9
    assert "They waited for a CPU in 78 % of their time" in noise_text("s", busy.values, 5.0, waited=0.78)


def test_a_warm_start_is_not_tried_where_it_cannot_be():
    measured = noise((1.0, 1.0, 1.0))
    for command in ("python3 bench.py", ".venv/bin/python -m bench"):
        assert warm_refusal(TaskDraft(command), measured) == ""
    assert warm_refusal(TaskDraft("make bench"), measured) == "the command is not one call of Python"
    assert "device" in warm_refusal(TaskDraft("python3 bench.py", devices=("gpu",)), measured)
    slow = MeasuredNoise("score", (1.0, 1.0, 1.0), (50.0, 50.0, 50.0), Usage(90.0, 40))
    assert warm_refusal(TaskDraft("python3 bench.py"), slow) == "not tried, as a run computes for 45 s"
