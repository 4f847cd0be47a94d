"""evo, Harbor, AIDE and Optuna: what their folders say, and what of it can run here."""

from __future__ import annotations

import ast
import json
import math
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from loopty.domain.objective import direction_of
from loopty.domain.space import Parameter, ParameterKind, Value
from loopty.features.setup.peers.peer_task import MAX, PeerTask, TaskFolder, functions, goal, number, parsed
from loopty.features.setup.task_draft import GateDraft, TaskDraft
from loopty.kit.paths import literal

_WRITES_RESULT = re.compile(r"EVO_RESULT_PATH|\bevo_agent\b|evo-agent|\bloopty_sdk\b")
_META, _CONFIG = ".evo/meta.json", "config.json"


def evo_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise a workspace of evo by its config: the target, the benchmark, the gate."""
    meta = _json(folder.text(_META))
    active = meta.get("active") or meta.get("active_run") or meta.get("current_run")
    config = _json(folder.text(f".evo/{active}/{_CONFIG}" if isinstance(active, str) else f".evo/{_CONFIG}"))
    target, line = config.get("target"), config.get("benchmark")
    if not (isinstance(target, str) and isinstance(line, str)):
        return None

    def filled(text: str) -> str:
        return text.replace("{target}", shlex.quote(target)).replace("{worktree}", ".")

    gates = config.get("gates") or config.get("gate")
    listed = gates if isinstance(gates, list) else [gates]
    lines = [one.get("command") if isinstance(one, dict) else one for one in listed]
    draft = TaskDraft(
        filled(line),
        (literal(target),),
        direction="min" if config.get("metric") == "min" else MAX,
        result=_result(folder, line),
        gates=tuple(GateDraft(f"gate-{n}", filled(one)) for n, one in enumerate(lines, 1) if isinstance(one, str)),
    ).with_note("direction", "the config of evo says so")
    return PeerTask("evo", f".evo has the benchmark {line}", draft)


def _result(folder: TaskFolder, line: str) -> str:
    """Say where the result is: evo takes what is printed, where the benchmark writes no file."""
    texts = (folder.text(word) for word in line.split() if word in folder.files)
    return "file" if any(_WRITES_RESULT.search(text) for text in texts) else "stdout"


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def harbor_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise a task of Harbor or Terminal-Bench. It runs in its own image, which loopty does not build."""
    is_harbor = folder.has("task.toml", "instruction.md") and folder.has("tests/test.sh")
    is_terminal_bench = folder.has("task.yaml", "Dockerfile", "run-tests.sh")
    if not (is_harbor or is_terminal_bench):
        return None
    tests, image = ("tests/test.sh", "environment") if is_harbor else ("run-tests.sh", ".")
    statement = goal(
        folder.text("instruction.md") if is_harbor else folder.settings("task.yaml").get("instruction")
    )
    draft = TaskDraft(f"bash {tests}", statement=statement, files=(tests,))
    engine = shutil.which("docker") or shutil.which("podman")
    name = folder.top.name.lower()
    refusal = (
        f"it runs in an image of its own, and no container engine is here: install docker or podman, build "
        f"the image ({image}/Dockerfile), and start again"
        if engine is None
        else f"it runs in an image of its own, which loopty does not build: {engine} build -t {name} {image}; "
        f"then loopty init --command 'bash {tests}' --write FILES, with [sandbox] kind = \"container\" and "
        f'image = "{name}"'
    )
    return PeerTask(
        "Harbor" if is_harbor else "Terminal-Bench", f"{tests} in the image of {image}", draft, refusal=refusal
    )


_GOALS = ("task.md", "goal.md", "description.md", "instructions.md")
_DATA = ("input/", "data/", "public/")
_SCRIPTS = ("solution.py", "runfile.py")
_METRIC = re.compile(
    r"\b(?:metric|evaluat\w+ (?:on|by|with))\b[\s:*#]*(?:is |the )*`?([A-Za-z][\w -]{0,30}\w)", re.IGNORECASE
)


def aide_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise a goal, data and a script that prints its metric, as AIDE and MLE-bench have them."""
    text, script = folder.first(*_GOALS), folder.first(*_SCRIPTS)
    data = [start for start in _DATA if any(path.startswith(start) for path in folder.files)]
    if not (text and data):
        return None
    words = folder.text(text)
    metric = _METRIC.search(words)
    draft = TaskDraft(
        f"python3 {script or _SCRIPTS[0]}",
        (script or _SCRIPTS[0],),
        statement=goal(words),
        direction=str((direction_of(metric[1]) if metric else None) or MAX),
        result="stdout",
        files=(text, *(f"{start}**" for start in data)),
        trains=True,
    ).with_note("files", "the data is read-only; the script prints its own metric, so integrity is weak")
    refusal = (
        ""
        if script
        else (
            f"it has no {_SCRIPTS[0]}: begin it so that it prints its metric, as `validation RMSE: 1.2`; nothing "
            "scores an empty file here"
        )
    )
    return PeerTask("AIDE", f"{text} is the goal, {', '.join(data)} the data", draft, refusal=refusal)


_OBJECTIVE = "objective"
_STUDY = re.compile(r"""create_study\([^)]*direction\s*=\s*["'](min|max)""")


def optuna_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise the only script whose `objective(trial)` suggests parameters with bounds that stand there."""
    scripts = [path for path in folder.files if path.endswith(".py") and "/" not in path]
    found = [(path, one) for path in scripts if (one := _objective(folder.text(path)))]
    if len(found) != 1:
        return None
    (script, function), *_ = found
    parameters = dict(_parameters(function))
    direction = _STUDY.search(folder.text(script))
    draft = TaskDraft(
        f"python3 -m loopty_sdk.evaluate_objective {shlex.quote(script)}",
        direction=direction[1] if direction else "min",
        files=(literal(script),),
        parameters=parameters,
    ).with_note(
        "direction", "create_study says so" if direction else "Optuna minimises unless a study says otherwise"
    )
    faults = (f"{name} of {script}: {fault}" for name, one in parameters.items() if (fault := one.fault()))
    unknown = f"{_OBJECTIVE}(trial) of {script} computes its bounds: name them with --param"
    refusal = next(faults, "") if parameters else unknown
    return PeerTask(
        "Optuna", f"{_OBJECTIVE}(trial) of {script} has {len(parameters)} parameters", draft, refusal=refusal
    )


def _objective(text: str) -> ast.FunctionDef | None:
    if "optuna" not in text:
        return None
    function = functions(parsed(text)).get(_OBJECTIVE)
    return function if function and len(function.args.args) == 1 else None


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[str, Parameter]]:
    for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
        kind = getattr(call.func, "attr", "")
        try:
            values = [ast.literal_eval(one) for one in call.args]
            words = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
            parameter = _parameter(kind, values, words)
        except (ValueError, TypeError, OverflowError, RecursionError):
            continue
        if parameter:
            yield str(values[0] if values else words.get("name")), parameter


def _parameter(kind: str, values: list[Any], words: Mapping[str, Any]) -> Parameter | None:
    bounds = [*values[1:], *(words[name] for name in ("low", "high", "choices") if name in words)]
    if kind == "suggest_categorical" and bounds:
        return Parameter(ParameterKind.CATEGORICAL, choices=tuple(map(_choice, bounds[0])))
    if kind in ("suggest_float", "suggest_int") and len(bounds) >= 2:
        whole = ParameterKind.INT if kind == "suggest_int" else ParameterKind.FLOAT
        is_log = bool(words.get("log"))
        step = None if is_log else number(words.get("step"))
        return Parameter(whole, float(bounds[0]), float(bounds[1]), is_log, step)
    return None


def _choice(choice: object) -> Value:
    """Return a choice, or as a text what TOML does not have, as None; the SDK finds that again."""
    if isinstance(choice, str | int) or (isinstance(choice, float) and math.isfinite(choice)):
        return choice
    return repr(choice)
