"""Gates: conditions that a node must meet regardless of its score."""

from __future__ import annotations

from typing import Any

import pytest

from loopty.domain.benchmark import Gate, When
from loopty.domain.trial import Ending

SCORES = """echo '{"score": 2}' > $EVO_RESULT_PATH"""


@pytest.fixture
def shared(bench: Any) -> Any:
    bench.isolated = False
    return bench


async def test_a_gate_that_passes_changes_nothing(shared: Any) -> None:
    shared.gates = (Gate("tests", "echo fine"), Gate("late", "echo fine", When.AFTER))
    outcome = await shared.shell(SCORES)
    assert (outcome.ending, outcome.metrics) == (Ending.FINISHED, {"score": 2.0})
    assert (shared.folder / "gate-tests.stdout.log").read_text() == "fine\n"


async def test_a_gate_that_fails_before_the_benchmark_prevents_its_run(shared: Any) -> None:
    shared.gates = (Gate("tests", "echo broken >&2; exit 4"),)
    outcome = await shared.shell(f"touch $EVO_TRACES_DIR/ran; {SCORES}")
    assert (outcome.ending, outcome.metrics) == (Ending.REFUSED, {})
    assert outcome.reason == "gate tests: exit code 4: broken"
    assert not (shared.root / "out" / "traces" / "ran").exists()


async def test_a_gate_after_refuses_and_the_metrics_stay(shared: Any) -> None:
    shared.gates = (Gate("size limit!", "echo too large >&2; exit 1", When.AFTER),)
    outcome = await shared.shell(SCORES)
    assert (outcome.ending, outcome.metrics) == (Ending.REFUSED, {"score": 2.0})
    assert outcome.reason == "gate size limit!: exit code 1: too large"
    assert len(list(shared.folder.glob("gate-size_limit_-*.stderr.log"))) == 1


async def test_a_metric_out_of_bounds_refuses_and_the_metrics_stay(shared: Any) -> None:
    shared.gates = (Gate("good enough", metric="score", minimum=3.0), Gate("never run", "exit 1", When.AFTER))
    outcome = await shared.shell(SCORES)
    assert (outcome.ending, outcome.metrics) == (Ending.REFUSED, {"score": 2.0})
    assert outcome.reason == "gate good enough: score 2 is below 3"


async def test_a_gate_that_hangs_refuses(shared: Any) -> None:
    shared.gates = (Gate("slow", "sleep 100", timeout_seconds=0.5),)
    outcome = await shared.shell(SCORES)
    assert (outcome.ending, outcome.reason) == (Ending.REFUSED, "gate slow: still running after 0.5 s")


async def test_gates_do_not_judge_a_benchmark_that_failed(shared: Any) -> None:
    shared.gates = (Gate("good enough", metric="score", minimum=3.0), Gate("late", "exit 1", When.AFTER))
    assert (await shared.shell("exit 3")).ending is Ending.FAILED


async def test_code_that_a_gate_runs_cannot_leave_a_result_for_the_benchmark(shared: Any) -> None:
    forgery = "for to in /t/out /t/in /t . ; do echo '{\"score\": 99}' > $to/result.json; done; exit 0"
    environment = 'test -n "$LOOPTY_GATE" -a -z "$EVO_RESULT_PATH$LOOPTY_METRICS_CSV$EVO_TRACES_DIR"'
    shared.gates = (Gate("environment", environment), Gate("forges", forgery))
    outcome = await shared.shell("true")
    assert outcome.reason.startswith("the result file was not written, and neither was the metrics CSV")


async def test_a_gate_calls_an_isolated_candidate(bench: Any) -> None:
    bench.write("tree", "program.py", "def double(x):\n    return 2 * x if x != 7 else 0\n")
    bench.write(
        "benchmark",
        "reference.py",
        "def double(x):\n    return x + x\ndef inputs(rng):\n    return (rng.randrange(9),)\n",
    )
    certify = "python3 -m loopty_sdk.certify program.py:double reference.py:double --inputs reference.py:inputs"
    run = "python3 -m loopty_sdk.candidate --seconds 5 --"
    bench.gates = (
        Gate("runs", f"{run} sh -c 'test -e program.py -a ! -e reference.py'"),
        Gate("passes its code", f"{run} sh -c 'exit 9'; test $? = 9"),
        Gate("correct", certify),
    )
    outcome = await bench.shell(SCORES)
    assert outcome.ending is Ending.REFUSED
    assert outcome.reason.startswith("gate correct: exit code 1: round ")
    assert outcome.reason.endswith("program.py:double returns 0 instead of 14 for (7,)")


async def test_a_gate_in_the_candidates_sandbox_has_its_own_time_and_not_the_benchmarks(bench: Any) -> None:
    bench.gates = (Gate("slow", "python3 -m loopty_sdk.candidate --seconds 9 -- sleep 1.3"),)
    bench.seconds = 1.0
    outcome = await bench.shell(SCORES)
    assert outcome.is_finished, outcome.reason


async def test_gates_alone_return_each_result_and_a_metric_gate_needs_metrics(shared: Any) -> None:
    shared.gates = (
        Gate("good", "true"),
        Gate("bad", "echo why >&2; false", When.AFTER),
        Gate("score", metric="score", minimum=1.0),
    )
    results = await shared.run_gates()
    assert [(result.gate.name, result.refusal) for result in results] == [
        ("good", None),
        ("bad", "gate bad: exit code 1: why"),
    ]
