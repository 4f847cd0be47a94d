"""ShinkaEvolve: `evaluate.py` that takes `--program_path` and `--results_dir`, beside `initial.*`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from loopty.features.setup.peers.isolation import isolation_of
from loopty.features.setup.peers.peer_task import (
    EVALUATE,
    MAX,
    TIMEOUT,
    PeerTask,
    TaskFolder,
    assigned,
    goal,
    number,
    parsed,
    setting,
)
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.paths import literal

_EVALUATOR = "evaluate.py"
_CONFIGS = ("shinka.yaml", "shinka_small.yaml", "shinka_medium.yaml", "shinka_large.yaml")
_STARTER = "run_evo.py"
_TIME = re.compile(r"""\btime\s*=\s*["'](\d{1,9}):(\d\d):(\d\d)["']""")


def shinka_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise the two files; the goal, the time and the budget may be in a third one."""
    text, program = folder.text(folder.first(_EVALUATOR)), folder.beside("initial")
    if not (program and writes_metrics(text)):
        return None
    return correct_program(folder, _EVALUATOR, program, folder.first(*_CONFIGS))


def correct_program(folder: TaskFolder, evaluator: str, program: str, config: str = "") -> PeerTask:
    """Wire an evaluator with a program, with what a config of ShinkaEvolve says."""
    settings = folder.settings(config)
    starter = folder.text(folder.first(_STARTER))
    names = f"{shlex.quote(evaluator)} {shlex.quote(program)}"
    draft = TaskDraft(
        f"{EVALUATE} {names} --as shinka",
        (literal(program),),
        statement=goal(setting(settings, "evo_config", "task_sys_msg")) or _goal_in(starter),
        direction=MAX,
        files=folder.sealed(evaluator, program),
        timeout_seconds=_seconds(starter) or TIMEOUT,
        attempts=int(number(setting(settings, "evo_config", "num_generations")) or 100),
        model=_model(settings),
    )
    draft = draft.with_note("command", f"{evaluator} writes metrics.json and correct.json for {program}")
    what = f"{evaluator} scores {program}{f', {config} sets the budget' if config else ''}"
    draft = draft.with_note("direction", "ShinkaEvolve maximises combined_score")
    return PeerTask("ShinkaEvolve", what, draft, isolation=isolation_of(folder, evaluator, program, draft))


def writes_metrics(text: str) -> bool:
    """Say whether a script takes a program and a folder for its results, as ShinkaEvolve starts it."""
    return "run_shinka_eval" in text or ("program_path" in text and "results_dir" in text)


def _goal_in(starter: str) -> str:
    """Find the longest text that the script which starts the evolution keeps under a name."""
    texts = []
    for value in assigned(parsed(starter)).values():
        literal_value = getattr(value, "value", None)
        if isinstance(literal_value, str):
            texts.append(literal_value)
    return goal(max(texts, key=len, default=""))


def _seconds(starter: str) -> float | None:
    found = _TIME.search(starter)
    return 3_600.0 * int(found[1]) + 60 * int(found[2]) + int(found[3]) if found else None


def _model(settings: Mapping[str, Any]) -> str:
    models = setting(settings, "evo_config", "llm_models")
    return models[0] if isinstance(models, list) and models and isinstance(models[0], str) else ""
