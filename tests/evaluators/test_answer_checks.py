"""Certify, then cheat: right for the calls of the gate, wrong in the measured run."""

from __future__ import annotations

from typing import Any

import pytest

from loopty.domain.benchmark import Gate
from loopty.domain.trial import Ending

GATE = Gate(
    "correct",
    "python3 -m loopty_sdk.certify program.py:double reference.py:double --inputs reference.py:inputs --rounds 20",
)
REFERENCE = "def double(x):\n    return 2 * x\n\ndef inputs(rng):\n    return (rng.randrange(10**9),)\n"
CHEAT = """
calls = 0
def double(x):
    global calls
    calls += 1
    return 2 * x if calls <= 20 else 0
"""
HONEST = "def double(x):\n    return x + x\n"
MEASURE = """
import os, random
from loopty_sdk import Run, candidate
from reference import double as reference, inputs
run = Run()
double = candidate("program.py:double"{options})
{closing}    for _ in range(40):
        double(*inputs(random.Random(os.urandom(16))))
run.finish(1)
"""
CLOSED, NOT_CLOSED = "with double:\n", "if True:\n"


@pytest.fixture
def certified(bench: Any) -> Any:
    bench.gates = (GATE,)
    bench.write("benchmark", "reference.py", REFERENCE)
    return bench


async def test_the_gate_alone_lets_it_pass(certified: Any) -> None:
    outcome = await certified.run(MEASURE.format(options="", closing=CLOSED), CHEAT)
    assert outcome.is_finished, outcome


@pytest.mark.parametrize("closing", [CLOSED, NOT_CLOSED], ids=["closed", "never closed"])
@pytest.mark.parametrize("sample", [1.0, 0.7])
async def test_a_check_of_the_measured_run_finds_it(certified: Any, closing: str, sample: float) -> None:
    options = f", check=reference, sample={sample}"
    outcome = await certified.run(MEASURE.format(options=options, closing=closing), CHEAT)
    assert outcome.ending is Ending.FAILED
    assert "program.py:double returned 0 instead of" in outcome.reason
    assert "in the measured run" in outcome.reason


@pytest.mark.parametrize("closing", [CLOSED, NOT_CLOSED], ids=["closed", "never closed"])
async def test_an_honest_candidate_passes(certified: Any, closing: str) -> None:
    outcome = await certified.run(MEASURE.format(options=", check=reference, sample=0.5", closing=closing), HONEST)
    assert (outcome.ending, outcome.metrics) == (Ending.FINISHED, {"score": 1.0}), outcome


async def test_the_ready_gate_says_what_it_does_not_prove(certified: Any) -> None:
    await certified.run(MEASURE.format(options="", closing=CLOSED), HONEST)
    log = (certified.folder / "gate-correct.stdout.log").read_text()
    assert "does not prove that it is right in the measured run" in log
