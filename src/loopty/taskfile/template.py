"""The commented `loopty.toml` that `loopty init` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InitAnswers:
    """What the user was asked."""

    command: str
    write: tuple[str, ...]
    statement: str
    direction: str
    timeout_seconds: float
    attempts: int


def render_task_file(answers: InitAnswers) -> str:
    """The file's text. JSON strings and lists of strings are TOML, too."""
    return f"""\
# What loopty optimises here. Every key: docs/task-file.md of loopty.

statement = {_toml(answers.statement)}
width = 1   # trials at once; timing benchmarks want 1
seed = 0    # the same seed, the same experiments

[benchmark]
# Runs in the candidate's tree, in a sandbox. It writes {{"score": 1.0}} to the file that $EVO_RESULT_PATH names,
# or rows to the CSV that $LOOPTY_METRICS_CSV names.
command = {_toml(answers.command)}
timeout_seconds = {answers.timeout_seconds:g}
# files = ["bench.py", "data/**"]   # what the benchmark is made of; default: the files that the command names
# scratch = ["build"]               # directories that start empty and writable, for build products
# mounts = ["~/data"]               # host paths to show read-only
# isolated = true                   # the candidate in a sandbox of its own, called by the SDK: it cannot cheat
# network = false
# resources = ["gpu"]               # things there is one of: trials take turns

[objective]
direction = {_toml(answers.direction)}
# [[objective.metrics]]             # instead: metrics in order of priority
# name = "score"
# tolerance = 0.02                  # the smallest gain worth having; noise is measured

[access]
write = {_toml(list(answers.write))}   # what may be changed
# hidden = ["answers/**"]           # what nobody sees but the benchmark

# [parameters.tile]                 # values that the benchmark reads from $LOOPTY_PARAMS (JSON)
# type = "int"                      # or "float", "categorical" with choices = [...]
# low = 8
# high = 128
# log = true

# [[gates]]                         # what fails one is rejected, whatever its score
# name = "tests"
# command = "python3 -m unittest"   # or metric = "seconds" with maximum = 2.0

# [noise]                           # how a gain is told from luck
# error_rate = 0.05                 # the most that the chance may be of keeping what is no better

# [audit]                           # a held-out split that the search never sees: loopty audit
# files = ["held_out/**"]

# [sandbox]
# kind = "auto"                     # bubblewrap | landlock | container; loopty doctor tries them

[limits]                            # of one trial
memory_mb = 2048
disk_mb = 1024

[pools]                             # of the whole run
attempts = {answers.attempts}
# control = {answers.attempts}      # as many random trials beside them: is the search better than chance?
# wall_seconds = 3600
# target = 1.0                      # stop when the score gets there
# patience = 50                     # stop after so many attempts without improvement

[proposer]
kind = "mutate"                     # without parameters; or, with a model: llm-code
                                    # with parameters: tpe | random | grid | cmaes | gp | qmc | nsga2
                                    # and, with a model: llm-parameters; several in turn: ladder

# [roles.evolver]                   # the model of llm-code and llm-parameters: docs/models.md of loopty
# model = "openai:gpt-5-mini"       # its key: OPENAI_API_KEY; "local:smollm2" needs none
# tokens = 500_000                  # what it may use; or money_usd = 2.0
"""


def _toml(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
