"""CPU of a trial whose benchmark runs the candidate in a second sandbox, beside a subprocess in the first one."""

import itertools
from collections.abc import Iterator

from bench import Bench
from cost import Cost, measure_in_turns
from table import Row, Target, cpu

_TARGET = Target("ratio at most 1.25", 1.25)
_TASK = """\
[benchmark]
command = "python3 -S evaluate.py"
files = ["evaluate.py"]
timeout_seconds = 60
isolated = {isolated}

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
_PROGRAM = "print(1)\n"
_SHARED = """\
import json, os, subprocess
output = subprocess.run(["python3", "-I", "-S", "program.py"], capture_output=True, check=True).stdout
with open(os.environ["EVO_RESULT_PATH"], "x") as file:
    json.dump({"score": int(output)}, file)
"""
_ISOLATED = """\
from loopty_sdk import Run, candidate
Run().finish(int(candidate.run(["python3", "-I", "-S", "program.py"], seconds=30).stdout))
"""
_CALLS = """\
from loopty_sdk import Run, candidate
with candidate("program.py:answer", seconds=30) as answer:
    for number in range(1000):
        answer(number)
Run().finish(1)
"""
_FUNCTION = "def answer(number):\n    return number\n"


def rows(bench: Bench) -> Iterator[Row]:
    trials = 20 if bench.quick else 60
    runs = itertools.count()

    def optimize(evaluate: str, program: str, isolated: bool) -> Cost:
        task = _TASK.format(attempts=trials, isolated=str(isolated).lower())
        files = {"evaluate.py": evaluate, "program.py": program}
        return bench.loopty_with(f"isolated-{next(runs)}", task, files).verb("optimize") / trials

    ours, theirs = measure_in_turns(
        3,
        lambda: optimize(_ISOLATED, _PROGRAM, isolated=True),
        lambda: optimize(_SHARED, _PROGRAM, isolated=False),
    )
    what = f"candidate in a second sandbox, 1 of {trials}"
    yield Row(what, cpu(ours), cpu(theirs, "as a subprocess in the first"), _TARGET, of_ratio=True)
    with_calls = optimize(_CALLS, _FUNCTION, isolated=True)
    yield Row("the same with 1,000 calls of a function", cpu(with_calls), cpu(ours, "with one command"))
