"""Run loopty, inside its own environment, with a model and an evaluator that answer at once.

Called as `python loopty_instant.py KIND PROPOSALS BATCH FOLDER`. KIND is `code`, where replies rewrite the
program, or `parameters`; each call gives BATCH proposals; `FOLDER/evaluated` grows by a byte per evaluation.
Everything else is real: prompt, reservation, archive of calls, git commit and branch, ledger, judge.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from instant_program import version

from loopty.agents.agent_work import AgentChoice, AgentSessions
from loopty.campaign.context import CampaignContext
from loopty.campaign.optimize_session import collect_rarely
from loopty.campaign.proposer_factory import ProposerFactory
from loopty.campaign.run_entry import enter_run
from loopty.domain.pool import Pool
from loopty.engine.loop import Loop
from loopty.engine.protocols import Trial
from loopty.engine.prune_watch import PruneWatch
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.verdict_rules import Judging
from loopty.testing.fakes import FunctionExecutor
from loopty.workspaces.node_leftovers import NodeLeftovers

_TASK = """
statement = "Make the answer better."
[benchmark]
command = "python3 evaluate.py"
timeout_seconds = 60
[noise]
repeat = "never"
[pools]
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
similarity = 1.0
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


def _no_agents(choice: AgentChoice) -> AgentSessions:
    raise AssertionError(f"no agent proposes here: {choice}")


def _loop(context: CampaignContext, counter: Path) -> Loop:
    run = enter_run(context)
    collect_rarely()

    def score(trial: Trial) -> float:
        with counter.open("ab", buffering=0) as evaluated:
            evaluated.write(b".")
        return hash((trial.node.commit, *trial.node.params.values())) % 1000 / 1000

    task, models, executor = context.task, context.role_models(run), FunctionExecutor(score)
    factory = ProposerFactory(task, context.files, NodeLeftovers(context.state), models, _no_agents)
    judging = Judging(task.pools, task.noise)
    return Loop(
        context.recorder,
        run,
        task.pools,
        {Pool.ATTEMPT: factory.proposer()},
        TrialRunner(context.recorder, judging, (), executor, context.files, context.owner),
        context.files,
        PruneWatch(lambda: context.history, None, lambda _: ((), {}), executor.machine.fingerprint),
        models.purse,
        context.owner,
        time.time,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
