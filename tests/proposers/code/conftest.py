"""A repository, its nodes, and a model that replies what a test has written down."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import Prompt, Reply
from loopty.domain.outcome import Ending, Outcome, Verdict
from loopty.domain.pool import Pool
from loopty.domain.proposal import Proposal, Refusal
from loopty.engine import decisions
from loopty.engine.protocols import Ask
from loopty.ledgers.memory import MemoryLedger
from loopty.models.purse import RunPurse
from loopty.proposers.code.code_options import CodeOptions, Operator
from loopty.proposers.code.code_proposer import CodeProposer
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.selectors.best_node import BestSelector
from loopty.taskfile import read
from loopty.testing.fakes import ScriptedRoleModel
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.repository import Repository
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


class PlainBriefing:
    def text(self, ask: Ask, parent: Node, inspirations: Sequence[Node] = ()) -> str:  # noqa: ARG002
        return f"BRIEFING of {parent.id} with {', '.join(node.id for node in inspirations) or 'nobody'}"


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
        state = StateFolder(top)
        state.prepare()
        self.files = NodeFiles(self.repository, state, task.without_held_out())
        self.recorder = Recorder(MemoryLedger(), lambda: 0.0)
        base = self.repository.head()
        self.recorder.record(lambda history: decisions.start_run(history, task, "", "", base, "asked for"))
        self.line = ScriptedRoleModel(purse=RunPurse(self.recorder, 1, task.pools, "owner"))
        self.ended(self.root, 1.0)

    @property
    def root(self) -> Node:
        return self.recorder.history[NodeId("1")]

    def proposer(self, *operators: str, **given: Any) -> CodeProposer:
        named = {name: given.pop(name) for name in ("batch", "file_tokens", "similarity") if name in given}
        options = CodeOptions(operators=tuple(map(Operator, operators or ("diff",))), **named)
        files = self.files
        return CodeProposer(
            self.line,
            options,
            given.pop("selector", BestSelector()),
            PlainBriefing(),
            files.writable_files,
            files.readable_files,
            files.text,
            files.refusal,
            **given,
        )

    def ask(self, seed: int = 0) -> Ask:
        return Ask(self.recorder.history, 1, Pool.ATTEMPT, lambda at: random.Random(f"{seed} {at}"), ())

    async def proposed(self, proposer: CodeProposer, *replies: str | Reply | Exception) -> Proposal:
        answer = await self.answered(proposer, *replies)
        assert isinstance(answer, Proposal), answer
        return answer

    async def refused(self, proposer: CodeProposer, *replies: str | Reply | Exception) -> Refusal:
        answer = await self.answered(proposer, *replies)
        assert isinstance(answer, Refusal), answer
        assert len(answer.reason.splitlines()) == 1
        return answer

    async def answered(
        self, proposer: CodeProposer, *replies: str | Reply | Exception
    ) -> Proposal | Refusal | None:
        """What the proposer makes of these replies, all of which it needs; recorded if it is a refusal."""
        self.line.replies = list(replies)
        answer = await proposer.propose(self.ask())
        assert not self.line.replies
        if isinstance(answer, Refusal):
            self.recorder.record(lambda _: [decisions.refuse_proposal(1, Pool.ATTEMPT, answer)])
        return answer

    def added(self, proposal: Proposal, pool: Pool = Pool.ATTEMPT) -> Node:
        """The proposal as a node, in git and in the ledger."""
        parent = self.recorder.history[proposal.parent]
        assert self.files.refusal(parent, proposal) is None
        committed = self.files.commit(parent, proposal.edits, proposal.summary)
        (recorded,) = self.recorder.record(lambda history: decisions.add_node(history, proposal, committed, pool))
        return self.recorder.history[recorded.event.node]  # type: ignore[union-attr]

    def ended(self, node: Node, score: float | None) -> Node:
        """The node after its trial: kept where it is the best so far, failed where it has no score."""
        best = Incumbents.of(self.recorder.history.runs[1], Pool.ATTEMPT).best
        over = self.recorder.history.score(self.recorder.history[best]) if best else None
        outcome = Outcome(Ending.FINISHED, {"score": score}) if score is not None else _failed()
        kept = score is not None and (over is None or score > over)
        self.recorder.record(
            lambda _: [
                TrialStarted(node.id, 1, node.pool, "owner"),
                TrialEnded(node.id, 1, outcome),
                NodeJudged(node.id, Verdict.KEPT if kept else Verdict.DISCARDED, outcome.reason),
            ]
        )
        return self.recorder.history[node.id]

    def tried(
        self, edits: dict[str, str | None], score: float | None, parent: str = "1", pool: Pool = Pool.ATTEMPT
    ) -> Node:
        """A node that somebody else proposed, after its trial."""
        return self.ended(self.added(Proposal("mutate", NodeId(parent), "by another", edits=edits), pool), score)

    async def line_asks(self, reply: str, operator: str, pool: Pool) -> None:
        """Somebody else asks the same model."""
        self.line.replies = [reply]
        await self.line.ask(Prompt("", ()), operator, self.root.id, pool)

    def said(self) -> str:
        """All that the model was told in the last call."""
        prompt = self.line.prompts[-1]
        return "\n".join((prompt.system, *(turn.text for turn in prompt.messages)))


def _failed() -> Outcome:
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
