"""Run loopty, inside its own environment, with a model and an evaluator that answer at once.

Called as `python loopty_instant.py KIND PROPOSALS BATCH FOLDER`. KIND is `code`, where replies rewrite the
program, or `parameters`; each call gives BATCH proposals; `FOLDER/evaluated` grows by a byte per evaluation.
Everything else is real: prompt, reservation, archive of calls, git commit and branch, ledger, judge.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from function_loop import function_loop
from instant_program import version

from loopty.campaign.optimize import collect_rarely
from loopty.engine.loop import Loop
from loopty.engine.protocols import Trial
from loopty.session.context import CampaignContext
from loopty.session.runs import enter_run
from loopty.testing.fakes import FunctionExecutor

_TASK = """
goal = "Make the answer better."
[benchmark]
command = "python3 evaluate.py"
timeout_seconds = 60
[noise]
repeat = "never"
[budget]
attempts = {attempts}
[models.instant]
provider = "scripted"
file = "../script.jsonl"
[roles.evolver]
model = "instant"
[proposer]
kind = "llm-{kind}"
batch = {batch}
"""
_TASK_BY_KIND = {
    "code": """
operators = ["rewrite"]
[access]
write = ["program.py"]
""",
    "parameters": """
[parameters.step]
type = "float"
low = 0
high = 1
[parameters.rounds]
type = "int"
low = 1
high = 1000000
""",
}


def main(kind: str, proposals: int, batch: int, folder: Path) -> None:
    repository = folder / "repository"
    repository.mkdir()
    reply = _REPLIES[kind]
    replies = (reply(range(first, first + batch)) for first in range(1, proposals + 1, batch))
    (folder / "script.jsonl").write_text("".join(f"{json.dumps({'text': reply})}\n" for reply in replies))
    (repository / "program.py").write_text(version(0))
    (repository / "evaluate.py").write_text("# the evaluator is a function of this process\n")
    (repository / "loopty.toml").write_text(
        _TASK.format(kind=kind, attempts=proposals, batch=batch) + _TASK_BY_KIND[kind]
    )
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
        subprocess.run(["git", *identity, *command], cwd=repository, check=True)
    asyncio.run(_loop(CampaignContext.open(repository, print, allow=True), folder / "evaluated").drive())


def _configurations(numbers: Iterable[int]) -> str:
    """A reply that proposes a configuration for each number."""
    proposals = [{"parameters": {"step": 0.5, "rounds": n}, "reason": "try it"} for n in numbers]
    return json.dumps({"proposals": proposals})


def _programs(numbers: Iterable[int]) -> str:
    """A reply that proposes these versions of the program."""
    files = (f"=== PROPOSAL {n}: version {n} ===\nprogram.py\n```python\n{version(n)}```\n" for n in numbers)
    return "".join((*files, "=== END ===\n"))


_REPLIES = {"code": _programs, "parameters": _configurations}


def _loop(context: CampaignContext, counter: Path) -> Loop:
    run = enter_run(context)
    collect_rarely()

    def score(trial: Trial) -> float:
        with counter.open("ab", buffering=0) as evaluated:
            evaluated.write(b".")
        return hash((trial.node.commit, *trial.node.params.values())) % 1000 / 1000

    return function_loop(context, run, FunctionExecutor(score))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
