"""An isolated benchmark: the candidate runs in another sandbox than the code that scores it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from loopty.domain.launch import SandboxError
from loopty.domain.trial import KNOWN_INPUTS, Ending, Integrity, Outcome
from loopty.sandboxes.unsafe import Unsafe

SQUARE = "def solve(x):\n    return x * x\n"
SCORE = """
from loopty_sdk import Run, candidate
with candidate("program.py:solve", seconds=10) as solve:
    Run().finish(int(solve(3)))
"""


def last_output(bench: Any) -> Any:
    """What the evaluator printed last, as JSON."""
    return json.loads(bench.log.splitlines()[-1])


async def test_a_function_of_the_candidate_is_scored(bench: Any) -> None:
    outcome = await bench.run(SCORE, SQUARE)
    assert (outcome.ending, outcome.metrics) == (Ending.FINISHED, {"score": 9.0}), outcome
    assert outcome.integrity is Integrity.STRONG


TIMED = """
import sys
from loopty_sdk import Run, candidate
with candidate("program.py:solve") as solve:
    solve.call_many([(3,), (NUMBER,)])
COMMAND = candidate.run(["python3", "-c", "print(1)"])
with candidate.open(["cat"]) as cat:
    cat.exchange(b"TEXT", 2)
Run().finish(LOOK)
"""


def timed(number: int = 4, text: str = "ab", look: str = "solve.seconds") -> str:
    return TIMED.replace("NUMBER", str(number)).replace("TEXT", text).replace("LOOK", look)


async def run_anew(bench: Any, evaluate: str) -> Outcome:
    """Run it in an empty outbox; it finishes without a word."""
    shutil.rmtree(bench.root / "out", ignore_errors=True)
    outcome = await bench.run(evaluate, SQUARE)
    assert outcome.is_finished, outcome
    assert not (bench.folder / "stderr.log").exists()
    return outcome


@pytest.mark.parametrize("look", ["solve.seconds", "solve.seconds_each[0]", "COMMAND.seconds", "cat.seconds"])
async def test_a_candidate_that_is_timed_on_inputs_that_it_knows_has_weak_integrity(bench: Any, look: str) -> None:
    first = bench.outcome_of_root = await run_anew(bench, timed(look=look))
    assert (first.integrity, first.unenforced) == (Integrity.STRONG, ()), first
    again = await run_anew(bench, timed(look=look))
    assert (again.integrity, again.unenforced) == (Integrity.WEAK, (KNOWN_INPUTS,)), again
    assert again.weakness == KNOWN_INPUTS
    for others in (timed(5, look=look), timed(text="ac", look=look)):
        assert (await run_anew(bench, others)).integrity is Integrity.STRONG


async def test_a_candidate_whose_time_nobody_looks_at_may_get_the_same_inputs(bench: Any) -> None:
    bench.outcome_of_root = await run_anew(bench, timed(look="1"))
    again = await run_anew(bench, timed(look="1"))
    assert (again.integrity, again.timed_inputs) == (Integrity.STRONG, "")


async def test_integrity_is_weak_without_isolation(bench: Any) -> None:
    bench.isolated = False
    outcome = await bench.shell("""echo '{"score": 1}' > $EVO_RESULT_PATH""")
    assert (outcome.ending, outcome.integrity) == (Ending.FINISHED, Integrity.WEAK)


async def test_isolation_works_without_a_sandbox_and_integrity_is_weak(bench: Any) -> None:
    bench.sandbox = Unsafe()
    outcome = await bench.run(SCORE, SQUARE)
    assert (outcome.ending, outcome.integrity) == (Ending.FINISHED, Integrity.WEAK), outcome


async def test_neither_side_sees_the_other(bench: Any) -> None:
    bench.write("benchmark", "gold.json", "42")
    outcome = await bench.run(
        """
import json, os, pathlib
from loopty_sdk import Run, candidate
with candidate("program.py:look") as look:
    seen = look(os.environ["LOOPTY_CANDIDATE"], os.getpid())
seen["of the candidate"] = [name for name in ("program.py", "/t/tree") if os.path.exists(name)]
seen["worktree"] = os.environ.get("EVO_WORKTREE")
print(json.dumps(seen))
Run().finish(1)
""",
        """
import os, pathlib
def look(socket, pid):
    return {
        "tree": sorted(os.listdir(".")),
        "places": sorted(os.listdir("/t")),
        "socket": os.path.exists(socket),
        "variables": [name for name in os.environ if name.startswith(("EVO_", "LOOPTY_", "PYTHONPATH"))],
        "gold": [str(path) for path in pathlib.Path("/t").rglob("gold.json")],
        "processes": len([name for name in os.listdir("/proc") if name.isdecimal()]),
    }
""",
    )
    assert outcome.is_finished, outcome
    seen = last_output(bench)
    assert seen.pop("processes") <= 3
    assert seen == {
        "tree": ["build", "program.py"],
        "places": ["sdk", "tree"],
        "socket": False,
        "variables": [],
        "gold": [],
        "of the candidate": [],
        "worktree": None,
    }


async def test_the_gold_data_is_not_in_the_candidates_memory(bench: Any) -> None:
    """Frames, gc and modules of the candidate's process hold nothing of the evaluator."""
    outcome = await bench.run(
        """
from loopty_sdk import Run, candidate
gold = "the-gold-answer"
with candidate("program.py:steal") as steal:
    Run().finish(len(steal()))
""",
        """
import gc, sys
def steal():
    frame, found = sys._getframe(), []
    while frame:
        values = [*frame.f_globals.values(), *frame.f_locals.values()]
        found += [value for value in values if value == "the-gold-" + "answer"]
        frame = frame.f_back
    return found + [item for item in gc.get_objects() if isinstance(item, dict) and "gold" in item]
""",
    )
    assert outcome.metrics == {"score": 0.0}, outcome


async def test_a_patched_clock_changes_no_timing(bench: Any) -> None:
    outcome = await bench.run(
        """
from loopty_sdk import Run, candidate
with candidate("program.py:solve") as solve:
    solve(1)
    Run().finish(solve.seconds)
""",
        "import time\nsleep = time.sleep\ntime.perf_counter = time.monotonic = lambda: 0.0\n"
        "def solve(x):\n    sleep(0.3)\n    return x\n",
    )
    assert outcome.metrics["score"] >= 0.3


FORGERIES = {
    "writes a result": "import os, pathlib\ndef solve(x):\n"
    "    for place in ('/t/out', '/t', '/t/benchmark', '.', '/'):\n"
    "        try:\n            pathlib.Path(place, 'result.json').write_text('{\"score\": 99}')\n"
    "        except OSError:\n            pass\n    return 1\n",
    "prints a result": "import sys\nprint('{\"score\": 99}')\ndef solve(x):\n"
    "    print('{\"score\": 99}', file=sys.__stdout__, flush=True)\n    return 1\n",
    "patches json": "import json\njson.dumps = lambda *a, **k: '{\"score\": 99}'\ndef solve(x):\n    return 1\n",
    "leaves a handler": "import atexit\natexit.register(print, '{\"score\": 99}')\ndef solve(x):\n    return 1\n",
    "changes the server": "import sys\nsys.modules['loopty_values'].encode = lambda value: b't'\n"
    "def solve(x):\n    return 99\n",
}


@pytest.mark.parametrize("program", FORGERIES.values(), ids=FORGERIES)
async def test_a_result_cannot_be_forged(bench: Any, program: str) -> None:
    outcome = await bench.run(SCORE, program)
    assert outcome.metrics == {"score": 1.0}, outcome


async def test_an_exit_of_the_candidate_is_not_the_evaluators(bench: Any) -> None:
    outcome = await bench.run(SCORE, "import os\ndef solve(x):\n    os._exit(0)\n")
    assert (outcome.ending, outcome.metrics) == (Ending.FAILED, {})
    assert outcome.reason.startswith(
        "exit code 1: loopty_sdk.CandidateError: program.py:solve ended without an answer"
    )


async def test_each_limit_on_a_candidate_is_named(bench: Any) -> None:
    outcome = await bench.run(
        """
import json
from loopty_sdk import CandidateError, Run, candidate
found = {}
for name, seconds in {"hang": 0.5, "eat": 20, "flood": 20, "fill": 20}.items():
    with candidate("program.py:" + name, seconds=seconds, memory_mb=200) as function:
        try:
            function()
        except CandidateError as error:
            found[name] = [error.kind, str(error)]
print(json.dumps(found))
Run().finish(1)
""",
        """
import sys, time
def hang():
    time.sleep(100)
def eat():
    kept = bytearray(400 << 20)
    time.sleep(100)
def flood():
    while True:
        print("y" * 1000)
def fill():
    with open("build/full", "wb") as file:
        while True:
            file.write(bytes(1 << 20))
            time.sleep(0.01)
""",
    )
    assert outcome.is_finished, outcome
    found = last_output(bench)
    assert found["hang"] == ["time", "program.py:hang took more than 0.5 s"]
    assert found["eat"] == ["memory", "program.py:eat used too much memory"]
    assert found["flood"] == ["output", "program.py:flood printed too much"]
    # Either the watcher or the kernel's limit on one file is first.
    assert found["fill"][0] in ("disk", "raised")


async def test_a_benchmark_runs_commands_opens_sessions_and_reads_files_of_the_candidate(bench: Any) -> None:
    outcome = await bench.run(
        """
import json, time
from loopty_sdk import CandidateError, Run, candidate
built = candidate.run(["sh", "-c", "cp program.py build/made; cat; echo oops >&2; exit 3"], input=b"in" * 100000)
assert (built.stdout, built.code, built.stderr) == (b"in" * 100000, 3, "oops"), built
assert candidate.run(["cat", "build/made"]).stdout == b"text\\n", "launches share the scratch directories"
assert candidate.read("program.py") == candidate.read("build/made") == "text\\n"
with candidate.open(["cat"]) as echo:
    assert echo.exchange(b"abc" * 100000, 300000) == b"abc" * 100000
    assert 0 < echo.seconds < 10
refused = []
for path in ("evaluate.py", "../tree/program.py", "/etc/passwd", "build", "build/link", "build/pipe", "none"):
    candidate.run(["sh", "-c", "ln -sf /etc/passwd build/link; mkfifo build/pipe"])
    try:
        refused.append(candidate.read(path))
    except CandidateError as error:
        refused.append(error.kind)
try:
    candidate.read("program.py", limit=2)
except CandidateError as error:
    refused.append(str(error))
print(json.dumps(refused))
Run().finish(1)
""",
        "text\n",
    )
    assert outcome.is_finished, outcome
    *kinds, large = last_output(bench)
    assert kinds == ["refused"] * 7
    assert large == "the request reads 'program.py', which holds 5 bytes, more than the 2 allowed"


async def test_the_candidates_output_is_kept_for_the_user(bench: Any) -> None:
    await bench.run(SCORE, "import sys\ndef solve(x):\n    print('a hint')\n    return 1\n")
    assert (bench.folder / "candidate-stderr.log").read_text() == "a hint\n"
    assert sorted(path.name for path in bench.folder.iterdir()) == ["candidate-stderr.log", "result.json"]


def processes(token: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if token.encode() in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


LEAVES = """
import sys, time
from loopty_sdk import Run, candidate
session = candidate.open(["sh", "-c", "(setsid sleep 3333{token} &) ; echo up; exec sleep 4444{token}"])
assert session.receive(3) == b"up\\n"
{then}
"""


@pytest.mark.parametrize("then", ["Run().finish(1)", "sys.exit(3)", "time.sleep(100)"])
async def test_every_candidate_is_dead_when_the_benchmark_has_ended(bench: Any, then: str) -> None:
    token = re.sub(r"\D", "", str(abs(hash(bench.root))))[:9]
    cancel = asyncio.Event()
    if "sleep" in then:
        asyncio.get_running_loop().call_later(2.0, cancel.set)
    await bench.run(LEAVES.format(token=token, then=then), cancel=cancel)
    assert processes(f"3333{token}") == processes(f"4444{token}") == []
    assert list((bench.root / "calls").iterdir()) == []


async def test_a_closed_session_is_dead_and_its_memory_is_free(bench: Any) -> None:
    outcome = await bench.run(
        """
from loopty_sdk import CandidateError, Run, candidate
for _ in range(3):
    with candidate.open(["cat"]) as one:
        assert one.exchange(b"x", 1) == b"x"
        try:
            with candidate.open(["cat"], memory_mb=100) as two:
                two.exchange(b"y", 1)
        except CandidateError as error:
            assert "give each less with memory_mb" in str(error), error
        else:
            raise AssertionError("more memory than the task has")
with candidate.open(["cat"], memory_mb=100) as one, candidate.open(["cat"], memory_mb=100) as two:
    Run().finish(len(one.exchange(b"x", 1) + two.exchange(b"y", 1)))
"""
    )
    assert outcome.metrics == {"score": 2.0}, outcome


GARBAGE = """
import array, json, os, socket
from loopty_sdk import Run, candidate
def ask(raw, *descriptors):
    loopty = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    loopty.settimeout(20)
    loopty.connect(os.environ["LOOPTY_CANDIDATE"])
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    loopty.sendmsg([raw], rights)
    return loopty.recv(65536).decode().partition("error=")[2] or "no error"
ours, theirs = socket.socketpair()
file = os.open("evaluate.py", os.O_RDONLY)
start = {"argv": ["true"]}
answers = [
    ask(b"nonsense", theirs.fileno()),
    ask(b"[1]", theirs.fileno()),
    ask(b'{"start": {"argv": ["true"]}, "start": {"argv": ["false"]}}', theirs.fileno()),
    ask(b"[" * 20000, theirs.fileno()),
    ask(b" " * 80000, theirs.fileno()),
    ask(json.dumps({"start": start}).encode()),
    ask(json.dumps({"start": start}).encode(), file),
    ask(json.dumps({"start": start}).encode(), theirs.fileno(), theirs.fileno(), file),
]
for change in (
    {"argv": []}, {"argv": "true"}, {"argv": [1]}, {"argv": ["a\\0b"]}, {"env": {"A=B": "c"}},
    {"env": {"A": "b\\0c"}}, {"env": {"A": 1}}, {"seconds": -1}, {"seconds": True}, {"seconds": "1"},
    {"memory_mb": 0}, {"memory_mb": 9999}, {"memory_mb": 1.5}, {"mounts": ["/"]},
):
    answers.append(ask(json.dumps({"start": {**start, **change}}).encode(), theirs.fileno()))
for wanted in ({}, {"path": "program.py"}, {"path": 1, "limit": 1}, {"path": "program.py", "limit": -1},
               {"path": "program.py", "limit": 1 << 40}, {"path": "", "limit": 9}, {"path": "a\\0b", "limit": 9}):
    answers.append(ask(json.dumps({"read": wanted}).encode()))
idle = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(20)]
for one in idle:
    one.connect(os.environ["LOOPTY_CANDIDATE"])
print(json.dumps(answers))
Run().finish(candidate.run(["true"]).code)
"""


async def test_garbage_is_answered_and_harms_nothing(bench: Any) -> None:
    outcome = await bench.run(GARBAGE)
    assert outcome.is_finished, outcome
    answers = last_output(bench)
    assert len(answers) == 29
    assert [answer for answer in answers if not answer.startswith("the request ")] == []


async def test_a_failing_sandbox_is_not_the_candidates_fault(bench: Any) -> None:
    class Broken(type(bench.sandbox)):  # type: ignore[misc]
        async def run(self, launch: Any, cancel: asyncio.Event) -> Any:
            if launch.channel is not None:
                os.close(launch.channel)
                raise SandboxError("no namespaces left")
            return await super().run(launch, cancel)

    bench.sandbox = Broken()
    with pytest.raises(SandboxError, match="no namespaces left"):
        await bench.run(SCORE, SQUARE)


async def test_a_benchmark_that_changed_while_it_ran_is_tampered_with(bench: Any) -> None:
    bench.tampering = "the benchmark's evaluate.py was changed"
    outcome = await bench.run(SCORE, SQUARE)
    assert (outcome.ending, outcome.metrics, outcome.reason) == (Ending.TAMPERED, {}, bench.tampering)
