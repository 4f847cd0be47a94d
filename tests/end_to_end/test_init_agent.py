"""`loopty init --agent`: the user's agent writes the benchmark; what does not hold goes back to it."""

import base64
import shlex

import pytest

from loopty.taskfile.read import load

SOLVE = """\
def total(numbers):
    result = 0
    for number in numbers:
        result = result + number
    return result
"""
GOOD = """\
import random, time
from solve import total

rng = random.Random(0)
lists = [[rng.random() for _ in range(2000)] for _ in range(200)]
best = 9.0
for _ in range(3):
    started = time.process_time()
    results = [total(numbers) for numbers in lists]
    best = min(best, time.process_time() - started)
if any(abs(sum(numbers) - result) > 1e-6 for numbers, result in zip(lists, results)):
    raise SystemExit("wrong")
print("seconds:", best)
"""
APART = """\
import os, random
from loopty_sdk import Run, candidate

rng = random.Random(os.environ.get("LOOPTY_SEED"))
lists = [([rng.random() for _ in range(500)],) for _ in range(100)]
with candidate("solve:total") as total:
    results = [total.call_many(lists) for _ in range(20)][0]
    seconds = total.seconds
if any(abs(sum(numbers) - result) > 1e-6 for (numbers,), result in zip(lists, results)):
    raise SystemExit("wrong")
Run().finish(seconds)
"""
BLIND = "import time\nsum(range(3000000))\nprint('seconds:', time.process_time())\n"


def writing(text, path="loopty_bench.py"):
    return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {path}"


@pytest.fixture
def library(place):
    place.write("solve.py", SOLVE)
    place.commit()
    return place


def test_a_benchmark_that_calls_the_code_by_the_sdk_is_isolated(library):
    library.write("test_solve.py", "from solve import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n")
    library.commit()
    library.loopty("init", "--yes", "--agent", f"python3 -c 'import loopty_sdk' && {writing(APART)}")
    task = load(library.top)
    assert task.benchmark.isolated
    assert task.objective.direction == "min", "what it was asked to report is a time"
    (gate,) = task.gates
    assert gate.command.startswith("python3 -m loopty_sdk.candidate --seconds 120 -- sh -c 'python3 -m pytest")
    library.write(
        "loopty.toml", (library.top / "loopty.toml").read_text().replace("attempts = 100", "attempts = 1")
    )
    library.loopty("optimize", "--quiet", code=None)
    assert library.history()["1"].outcome.integrity == "strong"


def test_an_agent_writes_a_benchmark_and_hears_what_its_proof_found(library):
    prompt = '"$LOOPTY_PROMPT_FILE"'
    library.write(".env", "KEY=a-secret\n")
    library.commit()
    blind = f"cat solve.py; test ! -e .env || exit 9; {writing('x = 1', 'solve.py')}; {writing(BLIND)}"
    script = f"if grep -q 'proof of it said' {prompt}; then {writing(GOOD)}; else {blind}; fi"
    done = library.loopty("init", "--yes", "--agent", script)
    assert " ".join(done.stderr.split()).count("writes loopty_bench.py, in the sandbox") == 2
    assert (library.top / "loopty_bench.py").read_text() == GOOD
    assert (library.top / "solve.py").read_text() == SOLVE, "no other file is taken"
    assert "from solve import total" in done.stderr, "it is shown"
    task = load(library.top)
    assert (task.benchmark.command, task.access.write) == ("python3 loopty_bench.py", ("solve.py",))
    assert task.objective.direction == "min"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("true", "it left loopty_bench.py as it was"),
        ("exit 3", "exit code 3"),
        ("rm loopty_bench.py; ln -s /etc/passwd loopty_bench.py", "is a link or cannot be opened"),
        ("rm loopty_bench.py; mkfifo loopty_bench.py", "is not a regular file"),
    ],
)
def test_an_agent_that_leaves_no_benchmark_leaves_nothing(library, script, why):
    done = library.loopty("init", "--yes", "--agent", script, code=2)
    assert why in " ".join(done.stderr.split())
    assert library.git("status", "--short") == ""


def test_somebody_has_to_see_it(library):
    done = library.loopty("init", "--agent", "true", code=2)
    assert "--yes accepts what the agent writes" in " ".join(done.stderr.split())
    done = library.loopty("init", "--agent", "true", "--command", shlex.quote("sh x"), code=2)
    assert "leave one of them out" in " ".join(done.stderr.split())
