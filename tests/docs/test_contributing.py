"""The worked examples of CONTRIBUTING.md are applied to a copy of the source and run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
MAX_LINES = 30

PROPOSER = """
import pytest
from loopty.proposers.neighbour import NeighbourProposer
from loopty.testing.proposer_suite import ProposerConformance

class TestNeighbour(ProposerConformance):
    @pytest.fixture
    def make(self):
        return NeighbourProposer

def test_the_task_file_knows_it():
    from loopty.taskfile.read import parse
    task = parse('[benchmark]\\ncommand="true"\\ntimeout_seconds=1\\n[proposer]\\nkind="neighbour"\\n'
                 '[parameters.x]\\ntype="float"\\nlow=0\\nhigh=1\\n')
    assert task.proposer.kind == "neighbour"
"""
SELECTOR = """
from loopty.campaign.optimize import make_selector
from loopty.testing.proposer_suite import ScoredRun

def test_the_newest_is_selected():
    selection = make_selector("newest").select(ScoredRun().ask)
    assert (selection.node.id, selection.reason) == ("1", "the newest node with a result")
"""
SANDBOX = """
import pytest
from loopty.sandboxes.nice import Nice
from loopty.testing.sandbox_suite import SandboxConformance

class TestNice(SandboxConformance):
    @pytest.fixture
    def sandbox(self):
        return Nice()

def test_the_task_file_knows_it():
    from loopty.taskfile.read import parse
    head = '[benchmark]\\ncommand="true"\\ntimeout_seconds=1\\n[access]\\nwrite=["a"]\\n'
    assert parse(head + '[sandbox]\\nkind="nice"\\n').sandbox.kind == "nice"
"""
LEDGER = """
import pytest
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import LedgerConformance, run_events

class TestJsonLines(LedgerConformance):
    @pytest.fixture
    def ledger(self, tmp_path):
        return open_ledger(f"jsonl://{tmp_path}/events.jsonl")

def test_another_process_reads_the_same_events(tmp_path):
    url = f"jsonl://{tmp_path}/events.jsonl"
    written = Recorder(open_ledger(url), lambda: 1.5).record(lambda _: run_events())
    assert list(open_ledger(url).read()) == written
"""
VERB = """
import subprocess, sys
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events
from loopty.git.folders import GitFolders
from loopty.workspaces.state_folder import StateFolder

def test_the_verb_counts_and_is_listed(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    state = StateFolder.of(GitFolders.find(tmp_path))
    state.prepare()
    Recorder(SqliteLedger(state.ledger.path_for_programs()), lambda: 0.0).record(lambda _: run_events())
    loopty = [sys.executable, "-m", "loopty"]
    assert subprocess.check_output([*loopty, "count"], cwd=tmp_path, text=True) == "1 nodes\\n"
    assert "Count the nodes" in subprocess.check_output([*loopty, "--help"], text=True)
"""
FAMILY = """
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.recorder import Recorder
from loopty.record.remarks import RemarkAdded, Remarks
from loopty.testing.ledger_suite import run_events

def test_remarks_are_folded_saved_and_read_again(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 0.0)
    recorder.record(lambda _: [*run_events(), RemarkAdded(1, "looks good"), RemarkAdded(1, "it was")])
    for history in (recorder.history, SqliteLedger(path).history()):
        assert Remarks.of(history.runs[1]).texts == ("looks good", "it was")
"""
TESTS = {
    "A proposer": PROPOSER,
    "A selector": SELECTOR,
    "A sandbox": SANDBOX,
    "A ledger": LEDGER,
    "A verb": VERB,
    "A pool": "",
    "An event family": FAMILY,
}


@dataclass(frozen=True)
class Block:
    language: str
    body: str


def blocks(heading: str) -> Iterator[Block]:
    section = TEXT.split(f"### {heading}\n")[1].split("\n### ")[0]
    for language, body in re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL):
        yield Block(language, body)


def apply(block: Block, top: Path) -> None:
    """Write the new file, or add the marked lines after the lines before them."""
    first, _, rest = block.body.partition("\n")
    if block.language == "python":
        path = top / first.removeprefix("# ")
        assert not path.exists()
        path.write_text(rest)
        return
    lines = rest.splitlines()
    context = "".join(f"{line[1:]}\n" for line in lines if line.startswith(" "))
    added = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
    path = top / first
    assert path.read_text().count(context) == 1, f"{first} does not hold, once:\n{context}"
    path.write_text(path.read_text().replace(context, context + added))


def test_every_example_is_listed_here():
    assert re.findall(r"^### (.+)$", TEXT, re.MULTILINE) == list(TESTS)


@pytest.mark.parametrize("heading", TESTS)
def test_an_example_is_short(heading):
    assert sum(len(block.body.splitlines()) for block in blocks(heading)) <= MAX_LINES


def test_the_examples_work(tmp_path):
    """All in one copy, because most of the time goes into compiling it."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/engine/conftest.py", tmp_path / "tests/conftest.py")
    for heading, test in TESTS.items():
        for block in blocks(heading):
            apply(block, tmp_path)
        (tmp_path / f"tests/test_{heading.split()[-1]}.py").write_text(test)
    path = os.pathsep.join(map(str, (tmp_path / "src", ROOT / "sdk/python")))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()
