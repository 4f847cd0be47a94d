"""A repository, its nodes, and a model with scripted replies."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import ModelOption, Prompt, Reply
from loopty.domain.proposal import Proposal, Refusal
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import Ask
from loopty.git.repository import Repository
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.purse import RunPurse
from loopty.proposers.code.code_proposer import CodeProposer
from loopty.proposers.code.options import CodeOptions, Operator
from loopty.proposers.selectors.choices import BestSelector
from loopty.record.node_record import Node
from loopty.record.nodes import refuse_proposal
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.session.runs import start_run
from loopty.taskfile import read
from loopty.testing.fakes import ScriptedRoleModel
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.state_folder import StateFolder

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "user",
    "GIT_AUTHOR_EMAIL": "user@localhost",
    "GIT_COMMITTER_NAME": "user",
    "GIT_COMMITTER_EMAIL": "user@localhost",
}
TASK = """\
statement = "make it fast"
[benchmark]
command = "python3 evaluate.py"
timeout_seconds = 30
[access]
write = ["src/**"]
hidden = ["secret/**"]
"""
CODE = "def area(x):\n    y = x * 2\n    return y + 7\n"
FILES = {
    "src/main.py": CODE,
    "src/other.py": "LIMIT = 10\n",
    "evaluate.py": "print('score')\n",
    "README.md": "About areas.\n",
    "secret/answers.txt": "forty-two\n",
}


class PlainContext:
    def text(self, ask: Ask, parent: Node) -> str:  # noqa: ARG002
        return f"CONTEXT of {parent.id}"


class World:
    """A run over a real repository, with a proposer to ask."""

    def __init__(self, top: Path, files: dict[str, str]) -> None:
        top.mkdir()
        for name, text in {"loopty.toml": TASK, **files}.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(text.encode())
        for words in ("init --quiet --initial-branch=main", "add --all", "commit --quiet --message=work"):
            subprocess.run(["git", *words.split()], cwd=top, env=ENVIRONMENT, check=True, capture_output=True)
        self.repository = Repository.open(top)
        task = read.load(top)
        state = StateFolder.of(self.repository.folders)
        state.prepare()
        self.files = NodeFiles(self.repository, state, task.without_held_out())
        self.ledger = MemoryLedger()
        self.recorder = Recorder(self.ledger, lambda: 0.0)
        base = self.repository.head()
        self.recorder.record(lambda history: start_run(history, task, "", "", base, "asked for"))
        self.role_model = ScriptedRoleModel(purse=RunPurse(self.recorder, 1, task.pools, "owner"))
        self.end(self.root, 1.0)

    @property
    def root(self) -> Node:
        return self.recorder.history[NodeId("1")]

    def proposer(self, *operators: str, **overrides: Any) -> CodeProposer:
        values = {
            name: overrides.pop(name)
            for name in ("batch", "drafts", "file_tokens", "form", "weights")
            if name in overrides
        }
        options = CodeOptions(operators=tuple(map(Operator, operators or ("diff",))), **values)
        files = self.files
        return CodeProposer(
            {ModelOption(self.role_model.model): self.role_model},
            options,
            overrides.pop("selector", BestSelector()),
            PlainContext(),
            files.writable_files,
            files.readable_files,
            files.text,
            files.refusal,
            files.merge,
            **overrides,
        )

    def ask(self, seed: int = 0) -> Ask:
        return Ask(self.recorder.history, 1, Pool.ATTEMPT, lambda at: random.Random(f"{seed} {at}"))

    async def get_proposal(self, proposer: CodeProposer, *replies: str | Reply | Exception) -> Proposal:
        answer = await self.get_answer(proposer, *replies)
        assert isinstance(answer, Proposal), answer
        return answer

    async def get_refusal(self, proposer: CodeProposer, *replies: str | Reply | Exception) -> Refusal:
        answer = await self.get_answer(proposer, *replies)
        assert isinstance(answer, Refusal), answer
        assert len(answer.reason.splitlines()) == 1
        return answer

    async def get_answer(
        self, proposer: CodeProposer, *replies: str | Reply | Exception
    ) -> Proposal | Refusal | None:
        """The proposer's answer to these replies, all of which it must use; a refusal is recorded."""
        self.role_model.replies = list(replies)
        answer = await proposer.propose(self.ask())
        assert not self.role_model.replies
        if isinstance(answer, Refusal):
            self.recorder.record(lambda _: [refuse_proposal(1, Pool.ATTEMPT, answer)])
        return answer

    def add(self, proposal: Proposal, pool: Pool = Pool.ATTEMPT) -> Node:
        """Add the proposal as a node, in git and in the ledger."""
        parent = self.recorder.history[proposal.parent]
        assert self.files.refusal(parent, proposal) is None
        committed = self.files.commit(parent, proposal.edits, proposal.summary)
        (recorded,) = self.recorder.record(lambda history: decisions.add_node(history, proposal, committed, pool))
        return self.recorder.history[recorded.event.node]  # type: ignore[union-attr]

    def end(self, node: Node, score: float | None) -> Node:
        """End the node's trial: the node is kept if it is the best so far, and failed without a score."""
        best = Incumbents.of(self.recorder.history.runs[1], Pool.ATTEMPT).best
        over = self.recorder.history.score(self.recorder.history[best]) if best else None
        outcome = Outcome(Ending.FINISHED, {"score": score}) if score is not None else _failure()
        kept = score is not None and (over is None or score > over)
        self.recorder.record(
            lambda _: [
                TrialStarted(node.id, 1, node.pool, "owner"),
                TrialEnded(node.id, 1, outcome),
                NodeJudged(node.id, Verdict.KEPT if kept else Verdict.DISCARDED, outcome.reason),
            ]
        )
        return self.recorder.history[node.id]

    def try_edits(
        self, edits: dict[str, str | None], score: float | None, parent: str = "1", pool: Pool = Pool.ATTEMPT
    ) -> Node:
        """Add a node of another proposer and end its trial."""
        return self.end(self.add(Proposal("mutate", NodeId(parent), "by another", edits=edits), pool), score)

    async def ask_for_another(self, reply: str, operator: str, pool: Pool) -> None:
        """Ask the same model for another proposer."""
        self.role_model.replies = [reply]
        await self.role_model.ask(Prompt("", ()), operator, self.root.id, pool)

    def last_prompt(self) -> str:
        """The whole prompt of the last call."""
        prompt = self.role_model.prompts[-1]
        return "\n".join((prompt.system, *(turn.text for turn in prompt.messages)))


def _failure() -> Outcome:
    return Outcome(Ending.FAILED, reason="ZeroDivisionError: division by zero")


@pytest.fixture
def world_of(tmp_path: Path) -> Callable[[dict[str, str]], World]:
    return lambda files: World(tmp_path.resolve() / "repo", files)


@pytest.fixture
def world(world_of: Callable[[dict[str, str]], World]) -> World:
    return world_of(FILES)


def block(search: str, replace: str, path: str = "src/main.py") -> str:
    """A reply with one SEARCH block."""
    return f"{path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@pytest.fixture(name="block")
def _block() -> Callable[..., str]:
    return block
