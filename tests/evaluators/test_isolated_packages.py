"""An isolated candidate that is a package, has an environment, is called many times at once, is timed by CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from loopty.domain.trial import Integrity
from loopty.sandboxes.unsafe import Unsafe

EVALUATE = """
import json, time
from loopty_sdk import Run, candidate
run = Run()
with candidate("page:render") as render:
    render("a")
    answers = render.call_many([(str(number),) for number in range(200)])
    many = render.seconds
    seen = {"answers": answers == [str(number) * 2 for number in range(200)], "timed": len(render.seconds_each)}
run.finish(1)
print(json.dumps(seen))
"""
CPU = """
import json, time
from loopty_sdk import Run, candidate
run = Run()
with candidate("program.py:f") as f:
    f(0.0)
    idle = f.cpu_seconds
    f(0.3)
    busy = f.cpu_seconds
ended = candidate.run(["python3", "program.py"])
run.finish(1)
print(json.dumps([idle, busy, ended.cpu_seconds]))
"""
BUSY = """
import os, time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
def f(seconds):
    if os.fork() == 0:
        work(seconds)
        os._exit(0)
    os.wait()
    time.sleep(0.1)
if __name__ == "__main__":
    work(0.3)
"""


SQUARE = "def f(x):\n    return x * x\n"


def last_output(bench: Any) -> Any:
    return json.loads(bench.log.splitlines()[-1])


async def test_a_package_in_src_answers_many_calls_at_once(bench: Any) -> None:
    bench.write("tree", "src/page/__init__.py", "from .inner import double as render\n")
    bench.write("tree", "src/page/inner.py", "def double(text):\n    return text * 2\n")
    outcome = await bench.run(EVALUATE)
    assert outcome.is_finished, outcome
    assert outcome.integrity is Integrity.STRONG
    assert last_output(bench) == {"answers": True, "timed": 200}


async def test_the_cpu_time_of_a_call_is_that_of_all_processes_of_the_candidate(bench: Any) -> None:
    outcome = await bench.run(CPU, BUSY)
    assert outcome.is_finished, (outcome, (bench.folder / "stderr.log").read_text())
    idle, busy, ended = last_output(bench)
    assert idle < 0.1
    assert 0.25 < busy < 1.0
    assert 0.25 < ended < 2.0


async def test_cpu_time_that_nothing_measured_is_an_error_of_one_line(bench: Any) -> None:
    bench.sandbox = Unsafe()  # sees only processes that live, so a candidate could work in others
    read = "from loopty_sdk import Run, candidate\nRun().finish({}.cpu_seconds)\n"
    outcome = await bench.run(read.format("candidate.run(['python3', 'program.py'])"), SQUARE)
    assert "the CPU time of python3 is not measured here: use its seconds" in outcome.reason
    called = "f = candidate('program.py:f')\nf(3)\n"
    outcome = await bench.run(read.format("f").replace("Run()", f"{called}Run()", 1), SQUARE)
    assert "the CPU time of program.py:f is not measured here: use its seconds" in outcome.reason


def make_environment(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependency.py").write_text("VALUE = 5\n")


async def test_the_candidate_runs_in_the_environment_of_the_benchmark(bench: Any) -> None:
    """An environment that is mounted for both sides, as benchmark.mounts does it."""
    for part in ("benchmark", "tree"):
        make_environment(bench.root / part / ".venv")
    bench.write("tree", "program.py", "import dependency\ndef f():\n    return dependency.VALUE\n")
    script = "from loopty_sdk import Run, candidate\nRun().finish(candidate('program.py:f')())\n"
    bench.write("benchmark", "evaluate.py", script)
    outcome = await bench.shell(".venv/bin/python evaluate.py")
    assert outcome.metrics == {"score": 5.0}, outcome
