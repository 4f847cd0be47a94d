"""Renders the commented `loopty.toml` that `loopty init` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InitAnswers:
    """The user's answers to the questions of `loopty init`."""

    command: str
    write: tuple[str, ...]
    statement: str
    direction: str
    timeout_seconds: float
    attempts: int


def render_task_file(answers: InitAnswers) -> str:
    """The text of the file. JSON strings and lists of strings are valid TOML."""
    return f"""\
# The task that loopty optimises. All keys: docs/task-file.md of loopty.

statement = {_toml(answers.statement)}
width = 1   # trials at the same time; keep 1 for benchmarks that measure time
seed = 0    # the same seed repeats the same experiments

[benchmark]
# Runs in the candidate's tree, in a sandbox. It writes {{"score": 1.0}} to the file named by $EVO_RESULT_PATH,
# or rows to the CSV file named by $LOOPTY_METRICS_CSV.
command = {_toml(answers.command)}
timeout_seconds = {answers.timeout_seconds:g}
# files = ["bench.py", "data/**"]   # the benchmark's own files; default: the files that the command names
# scratch = ["build"]               # directories that start empty and writable, for build output
# mounts = ["~/data"]               # host paths to mount read-only
# isolated = true                   # run the candidate in its own sandbox, where it cannot cheat; needs the SDK
# network = false
# devices = ["gpu"]                 # devices that trials may use, one trial at a time
# resources = ["port 8080"]         # other things that only one trial can use at a time

[objective]
direction = {_toml(answers.direction)}
# [[objective.metrics]]             # instead: metrics in order of priority
# name = "score"
# tolerance = 0.02                  # the smallest gain that matters; noise is measured separately

[access]
write = {_toml(list(answers.write))}   # files that proposals may change
# hidden = ["answers/**"]           # files that no proposer sees, and trials only if benchmark.files names them

# [parameters.tile]                 # values that the benchmark reads from $LOOPTY_PARAMS (JSON)
# type = "int"                      # or "float", "categorical" with choices = [...]
# low = 8
# high = 128
# log = true

# [[gates]]                         # a candidate that fails a gate is rejected, whatever its score
# name = "tests"
# command = "python3 -m unittest"   # or metric = "seconds" with maximum = 2.0

# [noise]                           # how sure to be that a gain is not luck
# error_rate = 0.05                 # maximum probability of keeping a candidate that is not better

# [audit]                           # the held-out split, which the search never sees: loopty audit
# files = ["held_out/**"]

# [sandbox]
# kind = "auto"                     # bubblewrap | landlock | container; loopty doctor tests them

[limits]                            # for each trial
memory_mb = 2048
disk_mb = 1024

[pools]                             # for the whole run
attempts = {answers.attempts}
# control = {answers.attempts}      # random trials for comparison: is the search better than chance?
# wall_seconds = 3600
# target = 1.0                      # stop when the score reaches this
# patience = 50                     # stop after this many attempts without improvement

[proposer]
kind = "mutate"                     # for code without a model; with a model: llm-code
                                    # for parameters: tpe | random | grid | cmaes | gp | qmc | nsga2;
                                    # with a model: llm-parameters. Several in turn: ladder

# [roles.evolver]                   # the model for llm-code and llm-parameters: docs/models.md of loopty
# model = "openai:gpt-5-mini"       # reads its key from OPENAI_API_KEY; "local:smollm2" needs none
# tokens = 500_000                  # the most it may use; or money_usd = 2.0
"""


def _toml(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
