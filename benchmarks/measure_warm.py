"""CPU of a numpy evaluation that starts as a copy of a warm process, beside a start of the interpreter."""

import itertools
from collections.abc import Iterator

from bench import Bench
from cost import Cost, measure_cost, measure_in_turns
from table import Row, Target, cpu

_TARGET = Target("at most 25 ms", 0.025)
_FEW = 5
_CALLS = 2000
"""How many evaluations in one process tell what one of them costs."""
_TASK = """\
[benchmark]
command = "python3 -m loopty_sdk.evaluate_program evaluator.py program.py"
timeout_seconds = 60
warm = {warm}

[access]
write = ["program.py"]

[parameters.x]
type = "float"
low = 0.0
high = 1.0

[proposer]
kind = "random"

[budget]
attempts = {attempts}
"""
_EVALUATOR = """\
import importlib.util

import numpy as np


def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    matrix = np.random.default_rng(1).normal(size=(30, 30))
    return {"combined_score": float(program.size_of(matrix))}
"""
_HELPER = """

def helper_{number}(values, limit={number}):
    total = 0.0
    for position, value in enumerate(values):
        if value > limit and position % 3:
            total += value * {number} - len(str(position))
    return {{"total": total, "limit": limit}}
"""
_LONG_EVALUATOR = _EVALUATOR + "".join(_HELPER.format(number=number) for number in range(36))
"""Three hundred lines, as most evaluators have some hundreds."""
_PROGRAM = """\
import numpy as np


def size_of(matrix):
    return np.abs(matrix).sum()
"""
_LOOP = """\
import sys
from evaluator import evaluate
for _ in range(int(sys.argv[1])):
    evaluate("program.py")
"""


def rows(bench: Bench) -> Iterator[Row]:
    measure_cost(["python3", "-c", "import numpy"], bench.scratch, bench.env)  # without numpy this says so
    trials = 30 if bench.quick else 100
    runs = itertools.count()
    files = {"evaluator.py": _EVALUATOR, "program.py": _PROGRAM, "loop.py": _LOOP}

    def optimize(warm: bool, attempts: int, evaluator: str) -> Cost:
        task = _TASK.format(attempts=attempts, warm=str(warm).lower())
        changed = {**files, "evaluator.py": evaluator}
        return bench.loopty_with(f"warm-{next(runs)}", task, changed).verb("optimize")

    def trial(warm: bool, evaluator: str = _EVALUATOR) -> Cost:
        """A trial without loopty's start, and without that of the warm process."""
        return (optimize(warm, _FEW + trials, evaluator) - optimize(warm, _FEW, evaluator)) / trials

    def evaluation() -> Cost:
        folder = bench.loopty_with(f"warm-{next(runs)}", _TASK, files).folder
        many, one = (
            measure_cost(["python3", "loop.py", str(count)], folder, bench.env) for count in (_CALLS + 1, 1)
        )
        return (many - one) / _CALLS

    warm, cold = measure_in_turns(3, lambda: trial(True), lambda: trial(False))
    yield Row("numpy evaluation as a copy of a warm process, a trial", cpu(warm), cpu(cold, "by itself"))
    if not isinstance(warm, Cost):
        return
    itself = evaluation()
    what = "the same over the evaluation itself"
    yield Row(what, cpu(warm - itself), cpu(itself, "the evaluation"), _TARGET)
    warm, cold = measure_in_turns(3, lambda: trial(True, _LONG_EVALUATOR), lambda: trial(False, _LONG_EVALUATOR))
    yield Row("an evaluator of 300 lines as a copy, a trial", cpu(warm), cpu(cold, "by itself"))
