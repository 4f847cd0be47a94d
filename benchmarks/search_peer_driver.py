"""Run another tool, inside its own environment, against the simulated model over HTTP.

Called as `python search_peer_driver.py TOOL URL SEED EVALUATIONS FOLDER`. Each evaluation of a new program
adds a line to FOLDER/scores: its score, or `x` where the program does not run. Settings are the tool's own
defaults, except what is named here; the starter ends it after so many lines.
"""

from __future__ import annotations

import hashlib
import json
import sys
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

from search_program import ProgramError, evaluate, make_task, shown_score
from search_wire import first_program

_EVALUATOR = """
import sys
sys.path.insert(0, {benchmarks!r})
from search_peer_driver import Evaluator
_evaluator = Evaluator({seed}, {folder!r})
def evaluate(program_path):
    with open(program_path, encoding="utf-8") as program:
        return {{"combined_score": _evaluator.score(program.read())}}
"""
_SCRIPT = """
import argparse, json, pathlib, sys
sys.path.insert(0, {benchmarks!r})
from search_peer_driver import Evaluator
from search_program import ProgramError
parser = argparse.ArgumentParser()
parser.add_argument("--program_path")
parser.add_argument("--results_dir")
arguments, _ = parser.parse_known_args()
score, fault = 0.0, ""
try:
    score = Evaluator({seed}, {folder!r}).score(pathlib.Path(arguments.program_path).read_text())
except ProgramError as error:
    fault = str(error)
results = pathlib.Path(arguments.results_dir)
results.mkdir(parents=True, exist_ok=True)
(results / "metrics.json").write_text(json.dumps({{"combined_score": score, "public": {{}}, "private": {{}}}}))
(results / "correct.json").write_text(json.dumps({{"correct": not fault, "error": fault or None}}))
"""
_ROUNDS_PER_EVALUATION = 4
"""A tool may ask this often for each evaluation, so that refused replies do not cost it evaluations."""


class Evaluator:
    """Scores programs and writes down the scores of new ones."""

    def __init__(self, seed: int, folder: str) -> None:
        self._land = make_task(seed)
        self._folder = Path(folder)

    def score(self, text: str) -> float:
        """The score as the tool sees it. Raises ProgramError."""
        seen = self._folder / hashlib.sha256(text.encode()).hexdigest()[:16]
        is_new = not seen.exists()
        seen.touch()
        try:
            value = evaluate(text, self._land)
        except ProgramError:
            self._write("x", is_new)
            raise
        self._write(f"{value:.6f}", is_new)
        return shown_score(value, self._land)

    def _write(self, line: str, is_new: bool) -> None:
        if is_new:
            with (self._folder / "scores").open("a") as file:
                file.write(line + "\n")


def run_openevolve(url: str, seed: int, evaluations: int, folder: Path) -> None:
    from openevolve import run_evolution  # type: ignore[import-not-found]
    from openevolve.config import Config, LLMModelConfig  # type: ignore[import-not-found]

    config = Config(random_seed=seed)
    config.llm.models = [LLMModelConfig(name="simulated", api_base=url, api_key="x", timeout=60, retries=1)]
    config.llm.evaluator_models = config.llm.models
    config.llm.update_model_params({"temperature": 0.7, "max_tokens": 4096, "retry_delay": 1})
    config.evaluator.parallel_evaluations = 1
    config.evaluator.cascade_evaluation = False
    evaluator = folder / "evaluator.py"
    evaluator.write_text(_EVALUATOR.format(benchmarks=str(Path(__file__).parent), seed=seed, folder=str(folder)))
    program = folder / "program.py"
    program.write_text(first_program(make_task(seed)))
    rounds = _ROUNDS_PER_EVALUATION * evaluations
    run_evolution(str(program), str(evaluator), config, rounds, str(folder / "output"), cleanup=False)


def run_gepa(url: str, seed: int, evaluations: int, folder: Path) -> None:
    from gepa.optimize_anything import (  # type: ignore[import-not-found]
        EngineConfig,
        GEPAConfig,
        ReflectionConfig,
        optimize_anything,
    )

    evaluator = Evaluator(seed, str(folder))

    def score(candidate: Any, **_more: Any) -> tuple[float, dict[str, str]]:
        text = candidate if isinstance(candidate, str) else next(iter(candidate.values()))
        try:
            return evaluator.score(text if text.endswith("\n") else text + "\n"), {}
        except ProgramError as fault:
            return 0.0, {"Error": str(fault)}

    rounds = _ROUNDS_PER_EVALUATION * evaluations
    engine = EngineConfig(
        seed=seed, max_metric_calls=4 * rounds, max_candidate_proposals=rounds, parallel=False, max_workers=1
    )
    optimize_anything(
        first_program(make_task(seed)),
        evaluator=score,
        objective="Make the score higher.",
        config=GEPAConfig(engine=engine, reflection=ReflectionConfig(reflection_lm=lambda text: _ask(url, text))),
    )


def run_shinka(url: str, seed: int, evaluations: int, folder: Path) -> None:
    from shinka.core import EvolutionConfig, ShinkaEvolveRunner  # type: ignore[import-not-found]
    from shinka.database import DatabaseConfig  # type: ignore[import-not-found]
    from shinka.launch import LocalJobConfig  # type: ignore[import-not-found]

    evaluator, program = folder / "evaluate.py", folder / "initial.py"
    evaluator.write_text(_SCRIPT.format(benchmarks=str(Path(__file__).parent), seed=seed, folder=str(folder)))
    program.write_text(first_program(make_task(seed)))
    evolution = EvolutionConfig(
        llm_models=[f"local/simulated@{url}"],
        embedding_model=None,
        meta_rec_interval=None,
        init_program_path=str(program),
        results_dir=str(folder / "results"),
        num_generations=_ROUNDS_PER_EVALUATION * evaluations,
    )
    ShinkaEvolveRunner(
        evolution,
        LocalJobConfig(eval_program_path=str(evaluator)),
        DatabaseConfig(db_path="shinka.sqlite"),
        verbose=False,
        max_evaluation_jobs=1,
        max_proposal_jobs=1,
    ).run()


def run_skydiscover(search: str, url: str, seed: int, evaluations: int, folder: Path) -> None:
    from skydiscover import run_discovery  # type: ignore[import-not-found]

    evaluator, program = folder / "evaluator.py", folder / "program.py"
    evaluator.write_text(_EVALUATOR.format(benchmarks=str(Path(__file__).parent), seed=seed, folder=str(folder)))
    program.write_text(first_program(make_task(seed)))
    run_discovery(
        str(program),
        str(evaluator),
        iterations=_ROUNDS_PER_EVALUATION * evaluations,
        output_dir=str(folder / "output"),
        cleanup=False,
        model="simulated",
        search=search,
        api_base=url,
    )


def _ask(url: str, text: Any) -> str:
    """One question over HTTP: GEPA takes any function as its model."""
    messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
    data = json.dumps({"model": "simulated", "messages": messages}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


RUNNERS = {"openevolve": run_openevolve, "gepa": run_gepa, "shinka": run_shinka}
RUNNERS |= {f"skydiscover {kind}": partial(run_skydiscover, kind) for kind in ("topk", "adaevolve")}

if __name__ == "__main__":
    tool, url, seed, evaluations, folder = sys.argv[1:]
    RUNNERS[tool](url, int(seed), int(evaluations), Path(folder))
