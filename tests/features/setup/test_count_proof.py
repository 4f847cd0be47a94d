"""Counting is offered where instructions stand for time, and set where the clock is noisy."""

import shutil

import pytest

from loopty import Campaign
from loopty.features.setup.causes.results import CPU_TIMER
from loopty.features.setup.count_proof import count_refusal, count_text, with_count
from loopty.features.setup.draft_checks import DraftChecks
from loopty.features.setup.proven_task import CountProof, MeasuredNoise, Usage
from loopty.features.setup.task_draft import TaskDraft
from loopty.features.setup.template import render_task_file
from loopty.kit.records import replace
from loopty.taskfile.read import load

from ...needs import needs

NOISY = MeasuredNoise("score", (1.0, 1.2, 1.1), (1.0, 1.0, 1.0), Usage(2.0, 40))
QUIET = replace(NOISY, values=(1.0, 1.001, 1.0))
COUNTED = CountProof(counts=(1e9, 1e9), seconds=20.0, is_better=True)
DRAFT = TaskDraft(f"{CPU_TIMER} ./bench", ("src/**",), timeout_seconds=30.0)


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("change", "noise", "seconds", "why"),
    [
        ({}, NOISY, 1000.0, ""),
        ({"devices": ("gpu",)}, NOISY, 1000.0, "device"),
        ({"network": True}, NOISY, 1000.0, "network"),
        ({"command": "node bench.js"}, NOISY, 1000.0, "node compiles while it runs"),
        ({}, replace(NOISY, usage=Usage(4.0, 40)), 1000.0, "2.0 cores"),
        ({}, replace(NOISY, usage=Usage(0.4, 40)), 1000.0, "waits for the rest"),
        ({}, NOISY, 100.0, "no time left"),
    ],
)
def test_counting_is_not_tried_where_instructions_do_not_stand_for_time(change, noise, seconds, why):
    found = count_refusal(replace(DRAFT, **change), noise, seconds)
    assert (why in found) if why else not found


def test_without_valgrind_the_reason_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "apt-get install valgrind" in count_refusal(DRAFT, NOISY, 1000.0)


def test_it_is_set_where_the_clock_is_noisy_and_a_comment_elsewhere():
    counted = with_count(DRAFT, COUNTED, NOISY, may_set=True)
    assert (counted.is_counted, counted.direction, counted.timeout_seconds) == (True, "min", 200.0)
    assert '\nmeasure = "instructions"\n' in render_task_file(counted)
    for proof, may_set in ((COUNTED, False), (replace(COUNTED, is_better=False), True)):
        proposed = with_count(DRAFT, proof, QUIET, may_set=may_set)
        assert (proposed.is_counted, proposed.timeout_seconds) == (False, 30.0)
        text = render_task_file(proposed)
        assert '\n# measure = "instructions"\n' in text
        assert "with timeout_seconds = 200" in text
    assert "instructions" not in render_task_file(DRAFT)


def test_what_was_found_is_said_with_its_cost_beside_the_clock():
    text = count_text(replace(COUNTED, start=4e8), NOISY)
    assert "40 % of it Python's start" in text
    assert "one run of 20 s decides, instead of many of 1 s by the clock, which varies by 9.1 %" in text
    assert 'measure = "instructions" is set' in text
    assert "uncomment" in count_text(replace(COUNTED, is_better=False), QUIET)
    assert count_text(CountProof(refusal="why"), NOISY) == "instructions are not counted: why"


PROGRAM = """
long work(long n)
{
    long sum = 0;
    for (long i = 0; i < n; i++) sum += i * i % 7;
    return sum;
}
"""
MAIN = "long work(long);\nint main(void) { return work(300000) == 1; }\n"


@needs("cc")
@needs("bwrap")
@needs("valgrind")
def test_a_program_is_counted_twice_and_with_a_planted_delay(place):
    place.write("src/work.c", PROGRAM)
    place.write("main.c", MAIN)
    place.commit()
    checks = DraftChecks(lambda: Campaign(place.top), place.top, unsafe=False)
    draft = TaskDraft(f"cc -o $TMPDIR/b main.c src/work.c && {CPU_TIMER} $TMPDIR/b", ("src/work.c",))
    checks.write(draft)
    found = checks.count(draft, NOISY, 500.0)
    assert not found.refusal
    assert found.counts[0] == pytest.approx(found.counts[1], rel=1e-3)
    assert found.counts[0] < 20_000_000, "neither the compiler nor the timer is counted"
    assert not load(place.top).benchmark.is_counted, "the file is as it was"


def test_a_sandbox_without_mounts_is_refused_with_the_remedy(place):
    place.write("src/work.py", PROGRAM)
    place.write("bench.py", "")
    place.commit()
    checks = DraftChecks(lambda: Campaign(place.top), place.top, unsafe=True)
    found = checks.count(TaskDraft("python3 bench.py", ("src/**",)), NOISY, 200.0)
    assert 'does not work in the sandbox unsafe: set kind = "namespaces"' in found.refusal
