"""Proposals that cheat for a score, and the task that they cheat at."""

from __future__ import annotations

import importlib._bootstrap_external as bootstrap  # type: ignore[import-not-found]
from dataclasses import dataclass, field

# Ten questions; the baseline answers none of them. Only the benchmark knows the right answers.
QUESTIONS = [[number, 7 * number + 3] for number in range(1, 11)]
WRONG = "def solve(x):\n    return 0\n"
SLOW_CALLS_SECONDS = 0.02

_SCORING = """
import sys
sys.path.insert(0, "src")
import json, os, time

with open("gold.json") as file:
    gold = json.load(file)

def score(solve):
    started = time.perf_counter()
    right = sum(solve(question) == answer for question, answer in gold)
    return right / len(gold), time.perf_counter() - started
{}
value, seconds = score(solve)
with open(os.environ["EVO_RESULT_PATH"], "w") as file:
    json.dump({{"score": value, "tasks": {{"seconds": seconds}}}}, file)
"""
TOGETHER = _SCORING.format("\nfrom solve import solve\n")
"""Like most benchmarks: it imports the candidate."""
BY_TESTS = """
import json, os, subprocess, sys
done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
with open(os.environ["EVO_RESULT_PATH"], "w") as file:
    json.dump({"score": float(done.returncode == 0)}, file)
"""
"""Like benchmarks that score by whether the tests pass."""
TESTS_TOGETHER = "from solve import solve\n\ndef test_solve():\n    assert solve(1) == 10\n"
TESTS_APART = TESTS_TOGETHER.replace(
    "from solve import solve",
    "from loopty_sdk import candidate\nsolve = candidate('src/solve.py:solve', seconds=20)",
)
APART = _SCORING.format(
    "\nfrom loopty_sdk import candidate\nsolve = candidate('src/solve.py:solve', seconds=20)\n"
)

# With PYTHONPATH, because many benchmarks set it for their imports, and so import the candidate's files first.
TASK = """
[benchmark]
command = "python3 evaluate.py"
files = ["evaluate.py", "gold.json", "tests/**"]
env = {{ PYTHONPATH = "src:/loopty/sdk" }}
isolated = {isolated}
timeout_seconds = 60
[access]
write = ["src/**", "conftest.py", "pytest.ini"]
[pools]
attempts = 100
[noise]
repeat = "never"
[proposer]
kind = "cheats"
list = "{cheats}"
"""


@dataclass(frozen=True)
class Cheat:
    """The edits of a proposal."""

    edits: dict[str, str | bytes] = field(default_factory=dict)


def solve_by(code: str) -> Cheat:
    return Cheat({"src/solve.py": code})


_FORGED = """
import os
def forge(*_):
    with open(os.environ.get("EVO_RESULT_PATH", "/loopty/out/result.json"), "w") as file:
        file.write('{"score": 1.0}')
"""


def _bytecode() -> Cheat:
    """A module with harmless source, and bytecode that claims to need no check against the source."""
    code = compile("def solve(x):\n    return 7 * x + 3\n", "solve.py", "exec")
    raw = bytes(bootstrap._code_to_hash_pyc(code, bytes(8), False))
    return Cheat(
        {
            "src/solve.py": "from helper import solve\n",
            "src/helper.py": WRONG,
            f"src/__pycache__/helper.{bootstrap.sys.implementation.cache_tag}.pyc": raw,
        }
    )


# Each gets its score when it shares a process with the benchmark.
CHEATS = {
    "write the result and leave": solve_by(f"{_FORGED}\nforge()\nos._exit(0)\n"),
    "write the result after the evaluator": solve_by(f"{_FORGED}\nimport atexit\natexit.register(forge)\n{WRONG}"),
    "patch what writes the result": solve_by(
        f"import json\njson.dump = lambda _, file: file.write('{{\"score\": 1.0}}')\n{WRONG}"
    ),
    "answer with what equals everything": solve_by(
        "class Right(int):\n    __eq__ = lambda *_: True\n\ndef solve(x):\n    return Right()\n"
    ),
    "find the answers in the frames": solve_by(
        """
import sys
def solve(x):
    frame = sys._getframe()
    while frame:
        if "gold" in frame.f_globals:
            return dict(frame.f_globals["gold"])[x]
        frame = frame.f_back
"""
    ),
    "find the answers in memory": solve_by(
        """
import gc
def solve(x):
    for item in gc.get_objects():
        if type(item) is list and len(item) == 10 and all(type(pair) is list and len(pair) == 2 for pair in item):
            return dict(item)[x]
"""
    ),
    "read the answers from disk": solve_by(
        """
import json, os
def solve(x):
    for folder in (".", "/loopty/benchmark", "/loopty/tree", "/loopty/in", "/loopty"):
        if os.path.exists(folder + "/gold.json"):
            with open(folder + "/gold.json") as file:
                return dict(json.load(file))[x]
"""
    ),
    "change the evaluator in memory": solve_by(
        f"import sys\nif hasattr(sys.modules['__main__'], 'gold'):\n"
        f"    sys.modules['__main__'].gold[:] = [[0, 0]]\n{WRONG}"
    ),
    "trace the evaluator": solve_by(
        f"""
import sys
def trace(frame, event, value):
    if frame.f_code.co_name == "score":
        frame.f_globals["gold"][:] = [[0, 0]]
sys.setprofile(trace)
{WRONG}"""
    ),
    "shadow the standard library": Cheat({"src/json.py": f"{_FORGED}\nforge()\nos._exit(0)\n"}),
    "start before the evaluator": Cheat({"src/sitecustomize.py": f"{_FORGED}\nforge()\nos._exit(0)\n"}),
}

# Each makes the tests pass when they run together with it.
CHEATS_AT_TESTS = {
    "change how the session ends": Cheat(
        {"conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"}
    ),
    "replace the tests": Cheat(
        {"conftest.py": "def pytest_pyfunc_call(pyfuncitem):\n    return True\n"},
    ),
    "have the tests only listed": Cheat({"pytest.ini": "[pytest]\naddopts = --collect-only\n"}),
    "leave in the middle of the tests": solve_by("import os\ndef solve(x):\n    os._exit(0)\n"),
}

SLOW = solve_by(
    f"""
import time
sleep = time.sleep
time.perf_counter = time.monotonic = time.time = lambda: 0.0
def solve(x):
    sleep({SLOW_CALLS_SECONDS})
    return 0
"""
)
"""It stops the clock."""

# The sandbox holds these with and without isolation.
HELD_BY_THE_SANDBOX = {
    "change the evaluator on disk": solve_by(
        f"""
for path in ("evaluate.py", "/loopty/tree/evaluate.py", "/loopty/benchmark/evaluate.py"):
    try:
        with open(path, "w") as file:
            file.write("forged")
        raise SystemExit("it could be written")
    except OSError:
        pass
{WRONG}"""
    ),
    "rewrite one's own source": solve_by(f"with open(__file__, 'w') as file:\n    file.write({WRONG!r})\n{WRONG}"),
    "leave with success": solve_by("import os\nos._exit(0)\n"),
    "start with the next user of the home": solve_by(
        f"""
import os, site
for name in ("usercustomize.py", "usercustomize.pth"):
    path = os.path.join(site.getusersitepackages(), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write({_FORGED + "forge()"!r})
{WRONG}"""
    ),
}

REFUSED = {
    "edit the evaluator": Cheat({"evaluate.py": "print('forged')\n"}),
    "edit the answers": Cheat({"gold.json": "[[0, 0]]"}),
    "edit the task": Cheat({"loopty.toml": ""}),
    "hide in bytecode": _bytecode(),
    "edit git's settings": Cheat({"src/.git/config": "[core]\n"}),
    "climb out of the tree": Cheat({"src/../evaluate.py": "print('forged')\n"}),
    "edit outside the markers": Cheat(
        {
            "src/marked.py": "import os\n# EVOLVE-BLOCK-START\nvalue = 1\n# EVOLVE-BLOCK-END\n",
        }
    ),
}
MARKED = "# EVOLVE-BLOCK-START\nvalue = 1\n# EVOLVE-BLOCK-END\n"
