"""One program in a repository of its own: the prompt that loopty makes for it, and trials of replies."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import repository
from prompt_programs import Program, Step

from loopty import Campaign
from loopty.domain.errors import Misuse
from loopty.proposers.code import replies
from loopty.proposers.code.new_files import apply_changes
from loopty.proposers.code.reply_edits import ProposalFault

_TASK = """\
goal = "{goal}"
width = 1
[benchmark]
command = "python3 evaluate.py"
result = "stdout"
timeout_seconds = 20
[objective]
direction = "{direction}"
[access]
write = ["{path}"]
[noise]
repeat = "never"
[budget]
attempts = {attempts}
[models.script]
provider = "scripted"
file = "{script}"
[roles.evolver]
model = "script"
[proposer]
kind = "llm-code"
parents = "root"
{options}
"""


_MOST_REPLIES = 1_000_000


class ProgramRun:
    """A repository with the program, and a run in which its history was tried."""

    def __init__(self, folder: Path, program: Program, options: str) -> None:
        self.program = program
        self._folder = folder / "repository"
        script = folder / "script.jsonl"
        replies = [*(_reply(program, step) for step in program.tried), "nothing"]
        script.write_text("".join(json.dumps({"text": text}) + "\n" for text in replies))
        task = _TASK.format(
            goal=program.goal,
            direction=program.direction,
            path=program.path,
            attempts=len(program.tried) + 1,
            script=script,
            options=options,
        )
        files = {program.path: program.text, "evaluate.py": program.evaluator, "loopty.toml": task}
        for path, text in {**files, **dict(program.others)}.items():
            (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / path).write_text(text)
        env = repository.environment(folder / "home")
        os.environ.update(env)
        repository.start(self._folder, env)
        self._campaign = Campaign(self._folder)
        self._campaign.trust()
        self._campaign.optimize()
        self._campaign.budget({"attempts": _MOST_REPLIES})
        self._gains: dict[str, float] = {}
        self._levels = {
            (text := program.text.replace(step.old, step.new)): self._level(f"1.{number}", text)
            for number, step in enumerate(program.tried, 1)
        }
        """How far each text got that was tried: loopty runs no text twice."""

    def prompt(self) -> dict[str, str]:
        """The prompt after the history was tried, as loopty sent it."""
        calls = sorted((self._folder / ".git/loopty/calls").glob("*.jsonl"))
        records = [json.loads(line) for file in calls for line in file.read_text().splitlines()]
        sent = [record["prompt"] for record in records if len(record["prompt"]["messages"]) == 1]
        last = sent[-1]
        return {"form": last.get("form", ""), "system": last["system"], "user": last["messages"][0]["text"]}

    def try_reply(self, text: str, is_whole: bool) -> str:
        """How far a reply gets: `improves`, `runs`, `applies`, or why it does not apply."""
        edited, why = self.read_reply(text, is_whole)
        return why if edited is None else self._try_text(edited)

    def read_reply(self, text: str, is_whole: bool) -> tuple[str | None, str]:
        """The program as the reply changes it; where it does not, why."""
        program = self.program
        known = {program.path, "evaluate.py", *(path for path, _ in program.others)}
        try:
            items = replies.parse_items(text, is_whole, 1)
            if not items:
                return None, "the reply was cut off"
            changes = replies.parse_changes(items[0], known, program.path)
            edits = apply_changes(changes, {program.path: program.text}.get, frozenset())
        except ProposalFault as fault:
            return None, fault.reason
        if set(edits) != {program.path} or not (edited := edits[program.path]):
            return None, "it changes a file that may not be changed"
        return (None, "it changes nothing") if edited == program.text else (edited, "")

    def gain(self, text: str) -> float | None:
        """How much better this text is than the program; None where it does not run."""
        self._try_text(text)
        return self._gains.get(text)

    def _try_text(self, text: str) -> str:
        if text not in self._levels:
            draft = self._campaign.new(parent="1", message="a reply", sparse=True)
            (draft.folder / self.program.path).write_text(text)
            try:
                self._levels[text] = self._level(self._campaign.run(draft.node).id, text)
            except Misuse as refusal:
                self._campaign.drop(draft.node)
                self._levels[text] = str(refusal)
        return self._levels[text]

    def _level(self, name: str, text: str) -> str:
        history = self._campaign.history
        node, root = (history[self._campaign.find_node(each)] for each in (name, "1"))
        if node.outcome is None or not node.outcome.is_finished:
            return "applies"
        score, before = history.score(node), history.score(root)
        if score is None or before is None:
            return "applies"
        sign = 1 if self.program.direction == "max" else -1
        self._gains[text] = sign * (score - before)
        return "improves" if self._gains[text] > 0 else "runs"


@contextmanager
def program_run(program: Program, options: str = "") -> Iterator[ProgramRun]:
    """The run of a program, in a folder that is removed afterwards."""
    with TemporaryDirectory(prefix="loopty-prompts-") as folder:
        yield ProgramRun(Path(folder), program, options)


def _reply(program: Program, step: Step) -> str:
    old, new = step.old.strip("\n"), step.new.strip("\n")
    return f"{program.path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
