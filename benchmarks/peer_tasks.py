"""Published tasks of other tools, scored by loopty and by the tool itself.

    python benchmarks/peer_tasks.py FOLDER --python PEERS/bin/python3 --write benchmarks/recorded/peer_tasks.json

FOLDER holds repositories as they were published, with folders that `loopty init` recognises. `--python` has the
tools (openevolve, shinka-evolve, gepa), and what the tasks import. Each repository is copied, the task wired by
`loopty init`, and checked in the sandbox; beside it the tool itself scores the same program. No task is changed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from loopty.campaign.campaign import Campaign
from loopty.domain.errors import LooptyError
from loopty.features.setup.peers.recognised_tasks import recognised_task

SAME = 1e-9
LIMIT = 300
_ASIDE = {".git", "node_modules", ".venv", "__pycache__"}
_OPENEVOLVE = """\
import asyncio, json, pathlib, sys, tempfile
from openevolve.config import load_config
from openevolve.evaluator import Evaluator
from openevolve.utils.metrics_utils import get_fitness_score
evaluator, program, config = sys.argv[1:4]
settings = load_config(config or None)
suffix = pathlib.Path(program).suffix
judge = Evaluator(settings.evaluator, evaluator, None, None, None, suffix)
metrics = asyncio.run(judge.evaluate_program(pathlib.Path(program).read_text(), "one"))
if metrics.get("error") or "combined_score" not in metrics and "error" in metrics:
    sys.exit(f"no score: {metrics}")
print("SCORE", get_fitness_score(metrics))
"""
_SHINKA = """\
import json, pathlib, subprocess, sys, tempfile
evaluator, program = sys.argv[1:3]
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, evaluator, "--program_path", program, "--results_dir", folder])
    verdict = json.loads(pathlib.Path(folder, "correct.json").read_text())
    if not verdict["correct"]:
        sys.exit(f"incorrect: {verdict['error']}")
    print("SCORE", json.loads(pathlib.Path(folder, "metrics.json").read_text())["combined_score"])
"""
_GEPA = """\
import os, runpy, statistics, sys
script = sys.argv[1]
here = os.path.dirname(os.path.abspath(script))
sys.path[:0] = [here, os.path.dirname(os.path.dirname(here))]
import gepa.optimize_anything as oa
try:
    from gepa.gepa_launcher import EvaluatorWrapper, OptimizationState
except ImportError:
    from gepa.optimize_anything import EvaluatorWrapper, OptimizationState
def score(seed_candidate=None, *, evaluator=None, dataset=None, valset=None, **_):
    is_text = isinstance(seed_candidate, str)
    wrapped = EvaluatorWrapper(evaluator, not (dataset or valset), str_candidate_mode=is_text)
    call = getattr(wrapped, "wrapped_evaluator", wrapped)
    candidate = {"current_candidate": seed_candidate} if is_text else seed_candidate
    state = {"opt_state": OptimizationState(best_example_evals=[])}
    scores = [call(candidate, example, **state)[0] for example in dataset or valset or [None]]
    print("SCORE", statistics.fmean(scores))
    sys.stdout.flush()
    os._exit(0)
oa.optimize_anything = score
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
"""
_METRIC = re.compile(r"^METRIC (\S+)=(\S+)", re.MULTILINE)


class Row(NamedTuple):
    """One task, with both scores of its first program."""

    tool: str
    task: str
    ours: list[float]
    theirs: list[float]
    problem: str

    @property
    def is_equal(self) -> bool:
        """Whether the scores are the same, or vary over the same range."""
        if not (self.ours and self.theirs):
            return False
        low, high = max(min(self.ours), min(self.theirs)), min(max(self.ours), max(self.theirs))
        return low - high <= SAME * max(1.0, abs(low))


def tasks_below(top: Path) -> list[Path]:
    """List the folders that are recognised, the deepest of nested ones."""
    found = []
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if name not in _ASIDE)
        here = Path(folder)
        files = [path.relative_to(here).as_posix() for path in here.rglob("*") if _ASIDE.isdisjoint(path.parts)]
        if names and (task := recognised_task(here, files)) and not task.refusal:
            found.append(here)
            inner[:] = []
    return found


def ours(folder: Path, repeats: int) -> tuple[str, list[float], str]:
    """Wire a copy of the task by `loopty init`, and check it in the sandbox so many times."""
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    task = recognised_task(folder, files)
    assert task is not None
    done = _run([sys.executable, "-m", "loopty.cli.main", "init", "--yes", "--no-check", "--json"], folder)
    if done.returncode:
        return task.tool, [], done.stderr.strip().splitlines()[-1]
    scores = []
    try:
        for _ in range(repeats):
            check = Campaign(folder).check()
            if check.problem:
                return task.tool, [], check.problem
            scores.append(check.outcome.metrics["score"])
    except LooptyError as error:
        return task.tool, [], str(error)
    return task.tool, scores, ""


def theirs(tool: str, folder: Path, python: str, repeats: int) -> tuple[list[float], str]:
    """Let the tool itself score the first program."""
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    task = recognised_task(folder, files)
    assert task is not None
    words = task.draft.command.split()
    scores: list[float] = []
    for _ in range(repeats):
        if tool == "OpenEvolve":
            config = next(
                (name for name in ("config.yaml", "config_phase_1.yaml") if (folder / name).exists()), ""
            )
            done = _run([python, "-c", _OPENEVOLVE, words[3], words[4], config], folder)
        elif tool == "ShinkaEvolve":
            done = _run([python, "-c", _SHINKA, words[3], words[4]], folder)
        elif tool == "GEPA":
            done = _run([python, "-c", _GEPA, words[3]], folder)
        else:
            done = _run(["bash", "-c", task.draft.command], folder)
        printed = done.stdout
        if tool == "evo":
            number = json.loads(printed)["score"] if done.returncode == 0 else None
        elif tool == "pi-autoresearch":
            number = dict(_METRIC.findall(printed)).get(task.draft.score_key)
        else:
            number = next((line.split()[1] for line in printed.splitlines() if line.startswith("SCORE ")), None)
        if number is None:
            return [], (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
        scores.append(float(number))
    return scores, ""


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"still running after {LIMIT} s")


def compare(top: Path, folder: Path, python: str, repeats: int) -> Row:
    """Score one task on both sides, each in a copy of its repository."""
    name = folder.relative_to(top)
    repository, inner = top / name.parts[0], Path(*name.parts[1:])
    with tempfile.TemporaryDirectory() as place:
        mine, peers = Path(place, "ours", repository.name), Path(place, "theirs", repository.name)
        shutil.copytree(repository, mine, symlinks=True)
        shutil.copytree(repository, peers, symlinks=True)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]
        for words in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "as published"]):
            subprocess.run([*git, *words], cwd=mine, check=True, capture_output=True)
        tool, mine_scores, problem = ours(mine / inner, repeats)
        peer_scores, peer_problem = theirs(tool, peers / inner, python, repeats)
    said = "; ".join(filter(None, (problem, peer_problem and f"{tool} itself: {peer_problem}")))
    return Row(tool, name.as_posix(), mine_scores, peer_scores, said)


def as_table(rows: list[dict[str, Any]]) -> str:
    """Print the rows as Markdown, those without a score on either side below."""
    scored = [row for row in rows if row["theirs"]]
    lines = ["| tool | task | score by the tool | score by loopty | equal |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['tool']} | {row['task']} | {_span(row['theirs'])} | {_span(row['ours'])} | "
        f"{'yes' if row['equal'] else row['problem'] or 'no'} |"
        for row in scored
    ]
    return "\n".join(lines)


def _span(scores: list[float]) -> str:
    if not scores:
        return "–"
    low, high = min(scores), max(scores)
    return f"{low:.6g}" if high - low <= SAME * max(1.0, abs(low)) else f"{low:.6g} to {high:.6g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--python", default="python3", help="the interpreter that has the tools and what tasks import"
    )
    parser.add_argument("--only", default="", help="only tasks with this in their path")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path, help="write the results to this JSON file, too")
    given = parser.parse_args()
    os.environ["PATH"] = f"{Path(given.python).parent}:{os.environ['PATH']}"
    rows = []
    for folder in (one for one in tasks_below(given.folder) if given.only in str(one)):
        row = compare(given.folder, folder, given.python, given.repeats)
        rows.append({**row._asdict(), "equal": row.is_equal})
        print(json.dumps(rows[-1]), flush=True)
        if given.write:
            given.write.write_text(json.dumps(rows, indent=1) + "\n")
    print(as_table(rows))
    print(f"{sum(row['equal'] for row in rows)} of {len(rows)} equal")


if __name__ == "__main__":
    main()
