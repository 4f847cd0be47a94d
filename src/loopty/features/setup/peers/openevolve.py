"""OpenEvolve and SkyDiscover: `evaluator.py` with `evaluate(program_path)`, beside one program."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from loopty.features.setup.build_facts import evaluates_programs, has_blocks
from loopty.features.setup.peers.isolation import isolation_of
from loopty.features.setup.peers.peer_task import (
    EVALUATE,
    MAX,
    TIMEOUT,
    PeerTask,
    TaskFolder,
    functions,
    goal,
    number,
    parsed,
    setting,
)
from loopty.features.setup.task_draft import StageDraft, TaskDraft
from loopty.kit.paths import literal

EVALUATOR = "evaluator.py"
CONFIGS = ("config.yaml", "config.yml", "config_phase_1.yaml")
_THRESHOLDS = (0.5, 0.75)
"""OpenEvolve's own, for stages whose config names none."""
_STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")


def openevolve_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise an evaluator with one program beside it, and its config."""
    if EVALUATOR not in folder.files:
        return None
    program = folder.beside("initial_program") or _marked_program(folder)
    if not (program and evaluates_programs(EVALUATOR, folder.text(EVALUATOR))):
        return None
    return evaluated_program(folder, EVALUATOR, program, folder.first(*CONFIGS))


def evaluated_program(folder: TaskFolder, evaluator: str, program: str, config: str = "") -> PeerTask:
    """Wire an evaluator with a program, with what a config of OpenEvolve says."""
    settings = folder.settings(config)
    stages = _stages(folder.text(evaluator), settings)
    files = f"{shlex.quote(evaluator)} {shlex.quote(program)}"
    draft = TaskDraft(
        f"{EVALUATE} {files}{' --stage all' if stages else ''}",
        (literal(program),),
        statement=goal(setting(settings, "prompt", "system_message")),
        direction=MAX,
        files=folder.sealed(evaluator, program),
        timeout_seconds=number(setting(settings, "evaluator", "timeout")) or TIMEOUT,
        attempts=int(number(settings.get("max_iterations")) or 100),
        stages=tuple(
            StageDraft(f"stage {place}", f"{EVALUATE} {files} --stage {place}", minimum)
            for place, minimum in enumerate(_thresholds(settings, len(stages)), 1)
        ),
        model=_model(settings),
        api_base=str(setting(settings, "llm", "api_base") or ""),
    ).with_note("command", f"{evaluator} scores {program}: {'its stages' if stages else 'evaluate(program_path)'}")
    what = f"{evaluator} scores {program}{f', {config} sets the budget' if config else ''}"
    draft = draft.with_note("direction", "OpenEvolve maximises its score")
    return PeerTask("OpenEvolve", what, draft, isolation=isolation_of(folder, evaluator, program, draft))


def _marked_program(folder: TaskFolder) -> str:
    """Find the only file at the top in which EVOLVE-BLOCK lines mark what may change."""
    beside = [path for path in folder.files if "/" not in path and path != EVALUATOR]
    marked = [path for path in beside if has_blocks(folder.text(path))]
    return marked[0] if len(marked) == 1 else ""


def _stages(text: str, settings: Mapping[str, Any]) -> list[str]:
    """Name the stages that OpenEvolve would run in place of `evaluate`."""
    if setting(settings, "evaluator", "cascade_evaluation") is False:
        return []
    known = functions(parsed(text))
    names: list[str] = []
    for name in _STAGES:
        if name not in known:
            break
        names.append(name)
    return names


def _thresholds(settings: Mapping[str, Any], stages: int) -> list[float]:
    """Return what each stage but the last has to reach."""
    given = setting(settings, "evaluator", "cascade_thresholds")
    chosen = given if isinstance(given, list) else _THRESHOLDS
    values = (number(one, -math.inf) for one in chosen[: max(stages - 1, 0)])
    return [value for value in values if value is not None]


def _model(settings: Mapping[str, Any]) -> str:
    """Return the name of the model that the config asks for, or nothing."""
    models = setting(settings, "llm", "models")
    first = models[0] if isinstance(models, list) and models else None
    named = setting(settings, "llm", "primary_model") or (first.get("name") if isinstance(first, dict) else None)
    return named if isinstance(named, str) else ""
