"""One run of the product: `loopty run` against the simulated model over HTTP.

Prompts, replies, calls, refusals, commits, ledger, judge and selection are the product's own; only the trial is a
function of this process, so that a run of sixty attempts takes about two seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import repository
from function_loop import function_loop
from search_landscape import Landscape
from search_program import ProgramError, evaluate, shown_score
from search_wire import first_program

from loopty.domain.trial import Ending, Outcome
from loopty.engine.protocols import Trial
from loopty.session.context import CampaignContext
from loopty.session.runs import enter_run
from loopty.testing.fakes import FunctionExecutor, outcome_of_score

_TASK = """
goal = "Make the score higher."
seed = {seed}
width = 1
[benchmark]
command = "python3 evaluate.py"
timeout_seconds = 60
[noise]
repeat = "never"
confirm = 0
[budget]
attempts = {attempts}
[access]
write = ["program.py"]
[models.simulated]
provider = "openai"
model = "simulated"
url = "{url}"
[roles.evolver]
model = "simulated"
[proposer]
kind = "llm-code"
{options}
"""


Evaluate = Callable[[str, Landscape, Trial], float]
"""The share of the way to the optimum that a trial of this program shows. Raises ProgramError."""


def evaluate_trial(text: str, land: Landscape, _trial: Trial) -> float:
    return evaluate(text, land)


def run_loopty(
    land: Landscape, seed: int, attempts: int, url: str, options: str, evaluate: Evaluate = evaluate_trial
) -> list[float]:
    """The score of each attempt in its order; a program that does not run gains nothing."""
    with _repository(land, _TASK.format(seed=seed, attempts=attempts, url=url, options=options)) as folder:
        context = CampaignContext.open(folder, lambda _: None, allow=True)
        scores: list[float] = []

        def score(trial: Trial) -> Outcome:
            text = context.files.text(trial.node.commit, "program.py") or ""
            try:
                value, outcome = evaluate(text, land, trial), None
            except ProgramError as fault:
                value, outcome = float("-inf"), Outcome(Ending.FAILED, reason=str(fault))
            if not trial.slice:
                scores.append(value)
            return outcome or outcome_of_score(shown_score(value, land))

        with contextlib.redirect_stdout(sys.stderr):
            asyncio.run(function_loop(context, enter_run(context), FunctionExecutor(score)).drive())
        return scores[1:]


@contextlib.contextmanager
def _repository(land: Landscape, task: str) -> Iterator[Path]:
    # git may still pack what the run has written.
    with TemporaryDirectory(prefix="loopty-search-", ignore_cleanup_errors=True) as top:
        folder = Path(top) / "repository"
        folder.mkdir()
        files = {"program.py": first_program(land), "evaluate.py": "# a function of the process\n"}
        for name, text in {**files, "loopty.toml": task}.items():
            (folder / name).write_text(text)
        env = repository.environment(Path(top) / "home")
        os.environ.update(env)
        repository.start(folder, env)
        yield folder
