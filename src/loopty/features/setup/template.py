"""The commented `loopty.toml` that `loopty init` writes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from loopty.domain.access import TASK_FILE
from loopty.domain.benchmark import Limits
from loopty.domain.space import Parameter, ParameterKind
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit import codec
from loopty.kit.contents import write_atomically
from loopty.kit.foreign_text import escape_hidden
from loopty.show.explanation import SettingValue, toml_value

_LIMITS = {name: getattr(Limits(), name) for name in ("processes", "output_mb")}
_EXAMPLES = {
    "files": '["bench.py", "data/**"]   # the benchmark\'s own files; default: the files that the command names',
    "result": '"stdout"                # or pytest-benchmark, hyperfine, …: docs/benchmarks.md of loopty',
    "scratch": '["build"]               # directories that start empty and writable, for build output',
    "warm": "true                       # start Python as a copy of a process that has imported its packages",
    "writable_copy": "true              # run in a private copy of the tree, for builds that write beside sources",
    "mounts": '["~/data"]               # host paths to mount read-only',
    "devices": '["gpu"]                 # devices that trials may use, one trial at a time',
    "isolated": "true                   # run the candidate in its own sandbox, where it cannot cheat: by the SDK",
    "network": "false",
}
"""What the file shows of settings that are not used."""


def write_task_file(folder: Path, draft: TaskDraft) -> None:
    """Write the file as a whole: who reads it meanwhile finds the former one. A link there is replaced."""
    write_atomically(folder, TASK_FILE, render_task_file(draft).encode())


def restore_task_file(folder: Path, former: bytes | None) -> None:
    """Leave the file as it was before; None: it was not there."""
    if former is None:
        (folder / TASK_FILE).unlink(missing_ok=True)
    else:
        write_atomically(folder, TASK_FILE, former)


def render_task_file(draft: TaskDraft) -> str:
    """Write the text of the file. Reasons of settings stand above them as comments."""
    return f"""\
# The task that loopty optimises. All keys: docs/task-file.md of loopty.

goal = {toml_value(draft.statement)}
{_width(draft)}
seed = 0    # the same seed repeats the same experiments

[benchmark]
# Runs in the candidate's tree, in a sandbox. It writes {{"score": 1.0}} to the file named by $EVO_RESULT_PATH,
# or rows to the CSV file named by $LOOPTY_METRICS_CSV; `result` reads other formats.
{_line(draft, "command", draft.command)}
{_line(draft, "timeout_seconds", _number(draft.timeout_seconds))}
{_optional(draft, "result", draft.result if draft.result != "file" else "")}
{_measure(draft)}{_optional(draft, "score_key", draft.score_key)}\
{_optional(draft, "rows", draft.rows)}\
{_optional(draft, "files", draft.files)}
{_optional(draft, "scratch", draft.scratch)}
{_optional(draft, "writable_copy", draft.writable_copy)}
{_optional(draft, "warm", draft.warm)}
{_optional(draft, "mounts", draft.mounts)}
{_optional(draft, "isolated", draft.isolated)}
{_optional(draft, "network", draft.network)}
{_optional(draft, "devices", draft.devices)}
# resources = ["port 8080"]         # other things that only one trial can use at a time

{_stages(draft)}[objective]
{_comment(draft, "direction")}direction = {toml_value(draft.direction)}
{_metrics(draft)}
[access]
{_access(draft)}
# hidden = ["answers/**"]           # files that no proposer sees, and trials only if benchmark.files names them

{_parameters(draft)}
{_gates(draft)}
# [noise]                           # how sure to be that a gain is not luck
# mode = "fast"                     # fewer measurements, more false keeps; the default is "careful"

{_audit(draft)}
# [sandbox]
# kind = "auto"                     # namespaces | bubblewrap | landlock | container; loopty doctor tests them

[limits]                            # for each trial
{_line(draft, "memory_mb", draft.memory_mb)}
{_line(draft, "disk_mb", draft.disk_mb)}
{_other_limits(draft)}
{_profile(draft)}[budget]                            # for the whole run
attempts = {draft.attempts}
# control = {draft.attempts}      # random trials for comparison: is the search better than chance?
# wall_seconds = 3600
# target = 1.0                      # stop when the score reaches this
# patience = 50                     # stop after this many attempts without improvement

[proposer]
kind = {toml_value(draft.proposer):<28} # for code without a model: mutate; with a model: llm-code
                                    # for parameters: tpe | random | grid | cmaes | gp | qmc | nsga2;
                                    # with a model: llm-parameters. Several in turn: ladder
                                    # a coding agent with your login: kind = "agent", agent = "codex" (or claude,
                                    # opencode, pi, gemini, qwen, aider, …): docs/agents.md of loopty

{_evolver(draft)}"""


def _stages(draft: TaskDraft) -> str:
    """Write the cheap stages; the keys of [benchmark] must all stand before them."""
    if not draft.stages:
        return _comment(draft, "stages")
    limit = toml_value(_number(draft.timeout_seconds))
    tables = (
        f"[[benchmark.cascade]]\nname = {toml_value(stage.name)}\ncommand = {toml_value(stage.command)}\n"
        f"timeout_seconds = {limit}\nminimum = {toml_value(_number(stage.minimum))}\n\n"
        for stage in draft.stages
    )
    return _comment(draft, "stages") + "".join(tables)


def _audit(draft: TaskDraft) -> str:
    if draft.audit_command:
        head = (
            "[audit]                             # other examples than those of the search: loopty measure audit"
        )
        return f"{head}\ncommand = {toml_value(draft.audit_command)}\n"
    return """\
# [audit]                           # the held-out split, which the search never sees: loopty measure audit
# files = ["held_out/**"]
"""


def _evolver(draft: TaskDraft) -> str:
    """Write the model: in use, or as a proposal."""
    is_used = draft.proposer == "llm-code"
    model, server = draft.model or "openai:gpt-5-mini", ""
    if is_used and draft.api_base:
        server = "\n".join(
            (
                "[models.evolver]",
                'provider = "openai"                 # the API that it speaks',
                f"url = {toml_value(draft.api_base)}",
                f"model = {toml_value(model)}",
                "",
                "",
            )
        )
        model = "evolver"
    mark = "" if is_used else "# "
    return f"""\
{server}\
{mark}[roles.evolver]{" " * (19 - len(mark))}# the model for llm-code and llm-parameters: docs/models.md of loopty
{mark}{f"model = {toml_value(model)}":<{34 - len(mark)}}# reads its key from OPENAI_API_KEY, for models of OpenAI
# tokens = 500_000                  # the most it may use; or money_usd = 2.0
"""


def _width(draft: TaskDraft) -> str:
    if draft.width:
        why = f"# Why: {draft.width.reason}. By default it is what [profile] and the machine have room for"
        return f"{why}\n# width = {draft.width.width}   # trials at the same time"
    return "# width = 1   # trials at the same time; keep 1, which is the default, if the benchmark measures time"


def _measure(draft: TaskDraft) -> str:
    """Write how the score is measured, where counting was tried: a setting, or a proposal."""
    if not (draft.is_counted or "measure" in draft.notes):
        return ""
    return f'{_comment(draft, "measure")}{"" if draft.is_counted else "# "}measure = "instructions"\n'


def _profile(draft: TaskDraft) -> str:
    if not draft.profile:
        return ""
    head = "[profile]                           # what a trial of the baseline uses, as loopty init measured it"
    lines = (f"{name} = {toml_value(value)}" for name, value in codec.plain(draft.profile).items())
    return _comment(draft, "profile") + "\n".join((head, *lines)) + "\n\n"


def _line(draft: TaskDraft, key: str, value: SettingValue) -> str:
    return f"{_comment(draft, key)}{key} = {toml_value(value)}"


def _optional(draft: TaskDraft, key: str, value: SettingValue) -> str:
    """Write a setting that is used, or an example of it as a comment."""
    if value:
        return _line(draft, key, value) + ("\n" if key in ("score_key", "rows") else "")
    return f"{_comment(draft, key, 'Why not')}# {key} = {_EXAMPLES[key]}" if key in _EXAMPLES else ""


def _comment(draft: TaskDraft, key: str, head: str = "Why") -> str:
    """Write the reason of a setting, as lines of comment above it."""
    why = " ".join(escape_hidden(draft.notes.get(key, "")).split())
    return "".join(f"# {line}\n" for line in textwrap.wrap(f"{head}: {why}", 108)) if why else ""


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _metrics(draft: TaskDraft) -> str:
    if not draft.metrics:
        return """\
# [[objective.metrics]]             # instead: metrics in order of priority
# name = "score"
# tolerance = 0.02                  # the smallest gain that matters; noise is measured separately
"""
    tables = (
        f'[[objective.metrics]]\nname = {toml_value(metric.name)}\ndirection = "{metric.direction}"\n'
        for metric in draft.metrics
    )
    return _comment(draft, "metrics") + "".join(tables)


def _access(draft: TaskDraft) -> str:
    if not draft.write:
        return '# write = ["src/**"]              # files that proposals may change'
    return f"{_line(draft, 'write', draft.write)}   # files that proposals may change"


def _parameters(draft: TaskDraft) -> str:
    if not draft.parameters:
        return """\
# [parameters.tile]                 # values that the benchmark reads from the JSON file named by $LOOPTY_PARAMS
# type = "int"                      # or "float", "categorical" with choices = [...]
# low = 8
# high = 128
# log = true
"""
    head = "# Values that the benchmark reads from the JSON file named by $LOOPTY_PARAMS.\n"
    return head + "\n".join("\n".join(_parameter(*item)) + "\n" for item in draft.parameters.items())


def _parameter(name: str, parameter: Parameter) -> Iterator[str]:
    yield f"[parameters.{toml_value(name)}]"
    yield f"type = {toml_value(str(parameter.type))}"
    if parameter.type is ParameterKind.CATEGORICAL:
        yield f"choices = [{', '.join(toml_value(choice) for choice in parameter.choices)}]"
        return
    assert parameter.low is not None
    assert parameter.high is not None
    whole = parameter.type is ParameterKind.INT
    yield f"low = {toml_value(int(parameter.low) if whole else parameter.low)}"
    yield f"high = {toml_value(int(parameter.high) if whole else parameter.high)}"
    if parameter.log:
        yield "log = true"
    if parameter.step is not None:
        yield f"step = {toml_value(int(parameter.step) if whole else parameter.step)}"


def _gates(draft: TaskDraft) -> str:
    left_out = [name for name in draft.notes if name.startswith("gates.") and not _has_gate(draft, name)]
    notes = "".join(_comment(draft, name) for name in left_out)
    if not draft.gates:
        return f"""\
{notes}# [[gates]]                         # a candidate that fails a gate is rejected, whatever its score
# name = "tests"
# command = "python3 -m unittest"   # or metric = "seconds" with maximum = 2.0
"""
    tables = (
        f"{_comment(draft, f'gates.{gate.name}')}[[gates]]\nname = {toml_value(gate.name)}\n"
        f"command = {toml_value(gate.command)}\ntimeout_seconds = {toml_value(_number(gate.timeout_seconds))}\n"
        for gate in draft.gates
    )
    return f"{notes}# A candidate that fails a gate is rejected, whatever its score.\n" + "\n".join(tables)


def _has_gate(draft: TaskDraft, note: str) -> bool:
    return any(note == f"gates.{gate.name}" for gate in draft.gates)


def _other_limits(draft: TaskDraft) -> str:
    changed = [name for name, usual in _LIMITS.items() if getattr(draft, name) != usual]
    return "".join(f"{_line(draft, name, getattr(draft, name))}\n" for name in changed)
