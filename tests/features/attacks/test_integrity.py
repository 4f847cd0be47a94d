"""No score without the work: cheats against a benchmark that is isolated from them, and against one that is not.

One run of the real loop for each, with a proposer that proposes every cheat in turn.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopty.domain.trial import Ending, Integrity, Verdict
from loopty.git.folders import GitFolders
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.node_record import Node
from loopty.record.nodes import ProposalRefused
from loopty.session.saved_record import SavedRecord

from . import cheats
from .cheats import CHEATS, CHEATS_AT_TESTS, HELD_BY_THE_SANDBOX, REFUSED, SLOW_CALLS_SECONDS, Cheat

PLUGIN = """
import base64, json
from dataclasses import dataclass
from pathlib import Path
from loopty.domain.errors import Exhausted
from loopty.domain.proposal import Proposal
from loopty.proposers.services import ProposerPlugin

@dataclass(frozen=True)
class Options:
    list: str


class Cheats:
    name = "cheats"

    def __init__(self, options):
        self._left = json.loads(Path(options.list).read_text())

    async def propose(self, ask):
        if not self._left:
            raise Exhausted("every cheat was tried")
        name, edits = self._left.pop(0)
        decoded = {path: base64.b64decode(content) for path, content in edits.items()}
        return Proposal(name, ask.root.id, "cheats", {}, decoded)


PLUGIN = ProposerPlugin(Options, lambda options, services: Cheats(options))
"""
SLOW = "stop the clock"
HONEST = cheats.solve_by("def solve(x):\n    return 7 * x + 3\n")
ALL = {**CHEATS, SLOW: cheats.SLOW, **HELD_BY_THE_SANDBOX, **REFUSED}


@dataclass(frozen=True)
class CheatRun:
    """A run that has tried every cheat."""

    top: Path
    nodes: dict[str, Node]
    refusals: dict[str, str]


def run_cheats(folder: Path, benchmark: dict[str, str], proposals: dict[str, Cheat], isolated: bool) -> CheatRun:
    top = create_repository(folder, benchmark, proposals, isolated)
    optimize(top)
    history = SavedRecord(GitFolders.find(top)).history
    events = [item.event for item in SqliteLedger(top / ".git/loopty/ledger.sqlite").read()]
    return CheatRun(
        top,
        {history[node].operator: history[node] for node in history.ids},
        {event.operator: event.reason for event in events if isinstance(event, ProposalRefused)},
    )


def create_repository(
    folder: Path, benchmark: dict[str, str], proposals: dict[str, Cheat], isolated: bool
) -> Path:
    """Create a repository with this benchmark, and a proposer that makes these proposals."""
    top = folder / "repository"
    files = {
        "gold.json": json.dumps(cheats.QUESTIONS),
        "src/solve.py": cheats.WRONG,
        "src/marked.py": cheats.MARKED,
        "loopty.toml": cheats.TASK.format(isolated=str(isolated).lower(), cheats=folder / "cheats.json"),
        **benchmark,
    }
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (folder / "cheats.json").write_text(
        json.dumps([[name, encoded_edits(cheat)] for name, cheat in proposals.items()])
    )
    for command in ("init -q", "add --all", "-c user.name=user -c user.email=user@example.org commit -q -m first"):
        subprocess.run(["git", *command.split()], cwd=top, check=True)
    plug_in(folder / "packages")
    return top


def optimize(top: Path) -> None:
    # The sandbox shows the first interpreter on the path, which must be the one that has pytest.
    path = f"{sys.prefix}/bin:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "loopty.cli.main", "optimize", "--quiet", "--trust"],
        cwd=top,
        env={**os.environ, "PYTHONPATH": str(top.with_name("packages")), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def encoded_edits(cheat: Cheat) -> dict[str, str]:
    raw = {path: text if isinstance(text, bytes) else text.encode() for path, text in cheat.edits.items()}
    return {path: base64.b64encode(content).decode() for path, content in raw.items()}


def plug_in(packages: Path) -> None:
    about = packages / "cheats-1.0.dist-info"
    about.mkdir(parents=True)
    (packages / "cheats.py").write_text(PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cheats\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[loopty.proposer]\ncheats = cheats:PLUGIN\n")


def scores(nodes: dict[str, Node], names: Iterable[str]) -> dict[str, float]:
    """The scores of cheats by name; 0 where there is no result."""
    outcomes = {name: nodes[name].outcome for name in names}
    return {name: outcome.metrics.get("score", 0.0) if outcome else 0.0 for name, outcome in outcomes.items()}


def test_no_cheat_gets_a_score_from_an_isolated_benchmark(tmp_path):
    run = run_cheats(tmp_path, {"evaluate.py": cheats.APART}, ALL, isolated=True)
    assert scores(run.nodes, [*CHEATS, *HELD_BY_THE_SANDBOX]) == dict.fromkeys(
        [*CHEATS, *HELD_BY_THE_SANDBOX], 0.0
    )
    assert {node.outcome.integrity for node in run.nodes.values()} == {Integrity.STRONG}
    assert [name for name, node in run.nodes.items() if node.verdict is Verdict.KEPT] == ["baseline"]
    assert run.nodes[SLOW].outcome.metrics["tasks.seconds"] >= len(cheats.QUESTIONS) * SLOW_CALLS_SECONDS
    assert run.refusals.keys() == REFUSED.keys()
    for name in (*CHEATS, *HELD_BY_THE_SANDBOX):
        assert_the_source_is_kept(run, name)


def test_every_cheat_gets_its_score_without_isolation_and_is_marked_weak(tmp_path):
    run = run_cheats(tmp_path, {"evaluate.py": cheats.TOGETHER}, ALL, isolated=False)
    assert scores(run.nodes, CHEATS) == dict.fromkeys(CHEATS, 1.0)
    assert scores(run.nodes, HELD_BY_THE_SANDBOX) == dict.fromkeys(HELD_BY_THE_SANDBOX, 0.0)
    assert {node.outcome.integrity for node in run.nodes.values()} == {Integrity.WEAK}
    assert run.nodes[SLOW].outcome.metrics["tasks.seconds"] == 0.0
    assert run.refusals.keys() == REFUSED.keys()


def assert_the_source_is_kept(run: CheatRun, name: str) -> None:
    commit = run.nodes[name].commit
    for path, text in ALL[name].edits.items():
        shown = subprocess.run(["git", "show", f"{commit}:{path}"], cwd=run.top, capture_output=True, check=True)
        assert shown.stdout == (text if isinstance(text, bytes) else text.encode())


def test_isolated_tests_do_not_pass_for_a_cheat(tmp_path):
    files = {"evaluate.py": cheats.BY_TESTS, "tests/test_solve.py": cheats.TESTS_APART}
    run = run_cheats(tmp_path, files, {**CHEATS_AT_TESTS, "solve it": HONEST}, isolated=True)
    assert scores(run.nodes, CHEATS_AT_TESTS) == dict.fromkeys(CHEATS_AT_TESTS, 0.0)
    assert scores(run.nodes, ["solve it"]) == {"solve it": 1.0}


def test_tests_without_isolation_pass_for_a_cheat_which_is_marked_weak(tmp_path):
    files = {"evaluate.py": cheats.BY_TESTS, "tests/test_solve.py": cheats.TESTS_TOGETHER}
    run = run_cheats(tmp_path, files, CHEATS_AT_TESTS, isolated=False)
    assert scores(run.nodes, CHEATS_AT_TESTS) == dict.fromkeys(CHEATS_AT_TESTS, 1.0)
    assert {node.outcome.integrity for node in run.nodes.values()} == {Integrity.WEAK}


SLOWLY = """
import os, time
open(os.environ["EVO_TRACES_DIR"] + "/begun", "w").close()
time.sleep(2)
"""


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "together"])
@pytest.mark.parametrize("put_back", [False, True], ids=["left", "put back"])
def test_a_benchmark_that_is_replaced_while_it_runs_is_noticed(tmp_path, isolated, put_back):
    """Another process of the user replaces it: no trial can reach these files."""
    evaluator = SLOWLY + (cheats.APART if isolated else cheats.TOGETHER)
    top = create_repository(tmp_path, {"evaluate.py": evaluator}, {}, isolated)
    thread = threading.Thread(target=swap, args=(top, put_back))
    thread.start()
    optimize(top)
    thread.join()
    baseline = SavedRecord(GitFolders.find(top)).history["1"]
    assert baseline.outcome.ending is Ending.TAMPERED, baseline.outcome
    assert baseline.verdict is not Verdict.KEPT


def has_begun(top: Path) -> bool:
    """Whether a benchmark runs. Folders of trials come and go meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return any((top / ".git/loopty/trials").glob("*/out/traces/begun"))
    return False


def swap(top: Path, put_back: bool) -> None:
    deadline = time.monotonic() + 60
    while not has_begun(top) and time.monotonic() < deadline:
        time.sleep(0.01)
    for place in (top / ".git/loopty/exports").glob("*/evaluate.py"):
        honest, status = place.read_bytes(), place.stat()
        place.chmod(0o644)
        place.write_text("forged")
        if put_back:
            place.write_bytes(honest)
            place.chmod(status.st_mode & 0o777)
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
