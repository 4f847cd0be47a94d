"""Run OpenEvolve, inside its own environment, with a model and an evaluator that answer after a fixed time.

Called as `python openevolve_instant.py ITERATIONS FOLDER [SECONDS WORKERS]`; `FOLDER/evaluated` grows by a byte
per evaluation. Without SECONDS both answer at once.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path
from typing import Any

from instant_program import version
from openevolve import run_evolution  # type: ignore[import-not-found]
from openevolve.config import Config, LLMModelConfig  # type: ignore[import-not-found]
from openevolve.llm.base import LLMInterface  # type: ignore[import-not-found]

_WORKERS = 2
_SECONDS = "MODEL_SECONDS"
"""The environment variable by which worker processes know how long the model takes."""
_EVALUATOR = """
import time
def evaluate(program_path):
    time.sleep({seconds})
    with open({counter!r}, "ab", buffering=0) as counter:
        counter.write(b".")
    with open(program_path, encoding="utf-8") as program:
        return {{"combined_score": (hash(program.read()) % 1000) / 1000}}
"""


class InstantModel(LLMInterface):  # type: ignore[misc]
    """A model that rewrites the program with the next number."""

    def __init__(self, config: LLMModelConfig) -> None:
        self.model = config.name
        # Each worker process has its own model, and OpenEvolve refuses an identical rewrite without evaluating it.
        self._numbers = itertools.count(os.getpid() * 1_000_000)

    async def generate(self, prompt: str, **_options: Any) -> str:
        return await self.generate_with_context("", [{"role": "user", "content": prompt}])

    async def generate_with_context(
        self, system_message: str, messages: list[dict[str, str]], **_options: Any
    ) -> str:
        del system_message, messages
        await asyncio.sleep(float(os.environ[_SECONDS]))
        return f"```python\n{version(next(self._numbers))}```"


def main(iterations: int, folder: Path, seconds: float = 0.0, workers: int = _WORKERS) -> None:
    os.environ[_SECONDS] = str(seconds)
    evaluator = folder / "evaluator.py"
    evaluator.write_text(_EVALUATOR.format(counter=str(folder / "evaluated"), seconds=seconds))
    program = folder / "program.py"
    program.write_text(version(0))
    config = Config(diff_based_evolution=False, log_level="WARNING")
    config.llm.models = [LLMModelConfig(name="instant", init_client=InstantModel)]
    config.llm.evaluator_models = config.llm.models
    config.evaluator.parallel_evaluations = workers
    config.evaluator.cascade_evaluation = False
    run_evolution(program, evaluator, config, iterations=iterations, output_dir=str(folder / "output"))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:4]), *map(int, sys.argv[4:5]))
