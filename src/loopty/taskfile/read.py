"""Reads `loopty.toml` into a Task."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopty.domain.access import TASK_FILE, Access
from loopty.domain.benchmark import Benchmark, Gate, Limits
from loopty.domain.errors import Misuse
from loopty.domain.evidence import can_win
from loopty.domain.model import ModelSpec, Roles, VerifierSpec
from loopty.domain.objective import SCORE, Direction, Objective
from loopty.domain.space import Parameter, Space
from loopty.domain.task import Audit, Noise, PluginChoice, Pools, SandboxSpec, Task
from loopty.domain.task_tables import (
    MOST_VERSIONS,
    POOL_FOLDER,
    AgentRights,
    Anchors,
    Combine,
    ExecutorSpec,
    ResourceProfile,
    Tune,
)
from loopty.evaluators.result_formats import FORMATS
from loopty.executors.this_machine import this_capacity
from loopty.git.folders import WORK_FOLDER
from loopty.kit import paths
from loopty.kit.records import replace
from loopty.sandboxes.back_ends import BACK_ENDS
from loopty.taskfile.model_tables import (
    AGENT_PROPOSER,
    check_agents,
    check_roles,
    check_shares,
    parse_model_specs,
    user_config_models,
)
from loopty.taskfile.plugins import CONTROLS, PROPOSERS, PRUNERS, SELECTORS, Plugins, find_plugin, find_selector
from loopty.taskfile.schema import WRONG, Checker, parse_toml, raise_faults, read_text

if TYPE_CHECKING:
    from loopty.taskfile.schema import KeyPath


TABLES: dict[str, type] = {
    "benchmark": Benchmark,
    "objective": Objective,
    "access": Access,
    "limits": Limits,
    "budget": Pools,
    "noise": Noise,
    "audit": Audit,
    "anchors": Anchors,
    "sandbox": SandboxSpec,
    "roles": Roles,
    "verifier": VerifierSpec,
    "profile": ResourceProfile,
    "agents": AgentRights,
    "tune": Tune,
    "combine": Combine,
    "executor": ExecutorSpec,
}
TOP_KEYS = {
    "goal": "What to improve, in words, for you and for models.",
    "width": "Number of trials that run at the same time, over all processes of the repository. Default: what the "
    "machine has room for by `[profile]`, 1 without one; with workers, one on each of them.",
    "seed": "Seed of all random choices. Default: 0.",
    "parameters_file": "JSON file, relative to the repository's top, to which `loopty apply` writes parameters; "
    "its other keys stay. Default: none; `loopty apply` prints them.",
}
PLUGIN_TABLES: dict[str, Plugins] = {"proposer": PROPOSERS, "control": CONTROLS, "pruner": PRUNERS}


def load(top: Path, environ: Mapping[str, str] = os.environ) -> Task:
    """Load the task of the repository, with the models of the user's config file.

    Raises Misuse when the task file cannot be read, and with every fault of either file.
    """
    path = top / TASK_FILE
    try:
        text = read_text(path, TASK_FILE)
    except FileNotFoundError:
        raise Misuse(f"there is no {TASK_FILE} in {top}: write one with `loopty init`") from None
    except OSError as error:
        raise Misuse(f"{path} cannot be read ({error.strerror}): it must be a readable file") from None
    models = user_config_models(environ)
    task = _with_relative_data(parse(text, models) if models else _parse_once(text), top)
    return replace(task, width=task.round_size(this_capacity()).width)


@functools.lru_cache(maxsize=4)
def _parse_once(text: str) -> Task:
    """Parse a text, or return what was just parsed: a process reads its task file several times."""
    return parse(text)


def _with_relative_data(task: Task, top: Path) -> Task:
    """Make data paths inside the repository relative to its top, so that access rules can hide them."""

    def path_from_top(path: str) -> str:
        real_path = Path(os.path.realpath(top / Path(path).expanduser()))
        is_inside = real_path.is_relative_to(os.path.realpath(top)) and Path(path).is_absolute()
        return str(real_path.relative_to(os.path.realpath(top))) if is_inside else path

    return replace(
        task,
        benchmark=replace(task.benchmark, data=tuple(map(path_from_top, task.benchmark.data))),
        audit=replace(task.audit, data=tuple(map(path_from_top, task.audit.data))),
    )


def parse(text: str, user_models: Mapping[str, ModelSpec] | None = None) -> Task:
    """Parse the task that the text describes. Raises Misuse with every fault and its line.

    `user_models` are the models of the user's config file; a model of the task file with the same name wins.
    """
    checker = Checker()
    task = _parse_task(parse_toml(text, TASK_FILE), user_models or {}, checker)
    raise_faults(checker, text, TASK_FILE)
    return task


def _parse_task(data: Mapping[str, Any], user_models: Mapping[str, ModelSpec], checker: Checker) -> Task:
    checker.check_keys(
        data, {**TOP_KEYS, **TABLES, **PLUGIN_TABLES, "parameters": None, "gates": None, "models": None}, ()
    )
    if "benchmark" not in data:
        checker.add_fault(
            ("benchmark",), 'is missing: add [benchmark] with command = "…" and timeout_seconds = 60'
        )
    tables: dict[str, Any] = {}
    for name, cls in TABLES.items():
        if name in data:
            tables[name] = checker.read_table(cls, data[name], (name,))
        else:
            tables[name] = WRONG if name == "benchmark" else cls()
    if tables["benchmark"] is not WRONG and not tables["benchmark"].command:
        checker.add_fault(
            ("benchmark", "command"), 'is empty: give the command to run, as in "python3 evaluate.py"'
        )
    if tables["benchmark"] is not WRONG and tables["benchmark"].result not in FORMATS:
        checker.add_fault(
            ("benchmark", "result"), f"must be one of {', '.join(FORMATS)}, not {tables['benchmark'].result!r}"
        )
    if tables["benchmark"] is not WRONG and tables["benchmark"].writable_copy and tables["benchmark"].isolated:
        checker.add_fault(
            ("benchmark", "writable_copy"),
            "has no effect on an isolated candidate: let it build in a directory of benchmark.scratch",
        )
    if tables["benchmark"] is not WRONG:
        _check_count(tables, checker)
        _check_caches(tables["benchmark"], checker)
        _check_cascade(tables["benchmark"], checker)
    space = _parse_space(data.get("parameters", {}), checker)
    has_space = bool(data.get("parameters"))  # also when they are faulty: report the fault, not its consequences
    chosen: dict[str, Any] = {
        name: _parse_plugin(name, data.get(name, {}), has_space, checker) for name in PLUGIN_TABLES
    }
    width = checker.read_value(int, data.get("width", 1), ("width",), {"minimum": 1})
    seed = checker.read_value(int, data.get("seed", 0), ("seed",), {"minimum": 0})
    goal = checker.read_value(str, data.get("goal", ""), ("goal",), {})
    parameters_file = _parse_parameters_file(data.get("parameters_file", ""), has_space, checker)
    access = tables["access"]
    if access is not WRONG and not access.write and not has_space:
        checker.add_fault((), "leaves nothing to change: give [access] write = […], or [parameters.NAME]")
    benchmark, audit, noise = tables["benchmark"], tables["audit"], tables["noise"]
    if WRONG not in (benchmark, audit) and audit.files and not benchmark.files:
        checker.add_fault(
            ("audit", "files"), "needs benchmark.files: list the benchmark files that the search may see"
        )
    anchors = tables["anchors"]
    if anchors is not WRONG and len(anchors.versions) > MOST_VERSIONS:
        checker.add_fault(
            ("anchors", "versions"), f"names more than {MOST_VERSIONS} versions: keep the ones that count"
        )
    if noise is not WRONG and not can_win(noise.rate, noise.pairs):
        checker.add_fault(
            ("noise", "pairs"),
            f"is too few to keep a candidate at error_rate {noise.rate:g}: raise either",
        )
    if "tune" in data and tables["tune"] is not WRONG and not tables["tune"]:
        checker.add_fault(
            ("tune", "slice"), 'is empty: say what the benchmark measures in tune mode, as in slice = "dev"'
        )
    combiner = _parse_combination(data.get("combine"), tables["combine"], tables["benchmark"], checker)
    _check_sandbox(tables["sandbox"], checker)
    _check_consistency(tables["objective"], chosen, has_space, checker)
    gates = _parse_gates(data.get("gates", []), checker)
    models = {**user_models, **parse_model_specs(data.get("models", {}), checker)}
    if WRONG not in (tables["roles"], tables["verifier"]):
        check_roles(tables["roles"], tables["verifier"], chosen["proposer"], models, checker)
        if combiner and combiner.kind != chosen["proposer"].kind:
            check_roles(tables["roles"], tables["verifier"], combiner, models, checker)
    if WRONG not in (tables["roles"], tables["budget"]):
        check_shares(tables["roles"], tables["budget"], checker)
    return Task(
        goal,
        pools=tables.pop("budget"),
        models=models,
        space=space,
        width=width,
        seed=seed,
        gates=gates,
        parameters_file=parameters_file,
        combiner=combiner,
        is_width_stated="width" in data,
        **tables,
        **chosen,
    )


def _parse_parameters_file(data: Any, has_space: bool, checker: Checker) -> Any:
    key = ("parameters_file",)
    path = checker.read_value(str, data, key, {})
    if path is WRONG or not path:
        return path
    parts = path.split("/")
    is_elsewhere = any(part in ("", ".", "..") for part in parts) or "\0" in path
    if is_elsewhere or parts[0] in ("~", ".git", WORK_FOLDER):
        return checker.add_fault(key, f"is {path!r}: give a path inside the repository, relative to its top")
    if not path.endswith(".json"):
        return checker.add_fault(key, f"is {path!r}: parameters are written as JSON, so the name ends in .json")
    if not has_space:
        return checker.add_fault(key, "needs parameters: add [parameters.NAME]")
    return path


def _parse_combination(data: Any, combine: Any, benchmark: Any, checker: Checker) -> PluginChoice | None:
    """Parse what proposes combinations, after a check of the whole table."""
    if data is None or combine is WRONG:
        return None
    path = ("combine",)
    if not combine:
        checker.add_fault(path, "leaves nothing to change: give write = […], or [combine.parameters.NAME]")
        return None
    if any(paths.matches(f"{POOL_FOLDER}/x/y", [pattern]) for pattern in combine.write):
        checker.add_fault((*path, "write"), f"covers {POOL_FOLDER}/, where the pool lies: name other files")
    if benchmark is not WRONG and benchmark.isolated and not benchmark.files:
        checker.add_fault(path, "needs benchmark.files where the benchmark is isolated: the pool is added to them")
    _parse_space(data.get("parameters", {}), checker, (*path, "parameters"))
    has_space = bool(combine.parameters)
    choice = _parse_plugin("proposer", dict(combine.proposer), has_space, checker, (*path, "proposer"))
    if _needs_space("proposer", choice.kind) and not has_space:
        checker.add_fault(
            (*path, "proposer", "kind"), f"is {choice.kind}, which needs parameters: add [combine.parameters.NAME]"
        )
    return choice


def _check_count(tables: dict[str, Any], checker: Checker) -> None:
    """Refuse what a count of instructions leaves out; fewer instructions are better, whatever `direction` says."""
    benchmark, objective = tables["benchmark"], tables["objective"]
    if not benchmark.is_counted:
        return
    others = {
        "isolated": "the candidate runs apart, and is not counted",
        "warm": "a copy of a warm process is not counted",
        "network": "waiting for the network is not counted",
        "devices": "what a device does is not counted",
    }
    for key, why in others.items():
        if getattr(benchmark, key):
            checker.add_fault(("benchmark", "measure"), f'must be "clock" with {key}: {why}')
    if tables["roles"] is not WRONG and tables["roles"].user.model:
        checker.add_fault(("benchmark", "measure"), 'must be "clock" with a model under [roles.user]')
    if objective is WRONG:
        return
    if any(metric.name == SCORE and metric.direction is Direction.MAX for metric in objective.metrics):
        checker.add_fault(("objective", "metrics"), 'wants more instructions: say direction = "min" for score')
    tables["objective"] = replace(objective, direction=Direction.MIN)


def _check_caches(benchmark: Benchmark, checker: Checker) -> None:
    """Check that a cache is a directory of its own: what lies over or under it would hide it."""
    places = [os.path.normpath(path) for path in (*benchmark.caches, *benchmark.scratch)]
    for index, cache in enumerate(map(os.path.normpath, benchmark.caches)):
        others = [place for number, place in enumerate(places) if number != index]
        if any(f"{cache}/".startswith(f"{other}/") or other.startswith(f"{cache}/") for other in others):
            checker.add_fault(
                ("benchmark", "caches", index), "overlaps another directory of caches or scratch: name one of them"
            )


def _check_cascade(benchmark: Benchmark, checker: Checker) -> None:
    names = [stage.name for stage in benchmark.cascade]
    for index, stage in enumerate(benchmark.cascade):
        path = ("benchmark", "cascade", index)
        if fault := stage.fault():
            checker.add_fault(path, fault)
        if stage.name in names[:index]:
            checker.add_fault((*path, "name"), f"is {stage.name!r} for two stages: give each its own name")


def _parse_space(data: Any, checker: Checker, top: KeyPath = ("parameters",)) -> Space:
    if not isinstance(data, dict):
        checker.add_fault(top, "must be tables, as in [parameters.NAME]")
        return Space()
    parameters: dict[str, Parameter] = {}
    for name, table in data.items():
        path = (*top, name)
        parameter = checker.read_table(Parameter, table, path)
        if parameter is WRONG:
            continue
        if fault := parameter.fault():
            checker.add_fault(path, fault)
        elif unknown := [other for other in parameter.when if other not in data]:
            checker.add_fault((*path, "when"), f"names {', '.join(unknown)}, which is not a parameter")
        else:
            parameters[name] = parameter
    if len(parameters) < len(data):
        return Space()
    space = Space(parameters)
    try:
        space.order()
    except ValueError as error:
        checker.add_fault(top, str(error))
        return Space()
    for name, parameter in parameters.items():
        for other, value in parameter.when.items():
            if other in parameters and not parameters[other].accepts(value):
                checker.add_fault((*top, name, "when"), f"needs {other} = {value!r}, a value it never has")
    return space


def _parse_gates(data: Any, checker: Checker) -> tuple[Gate, ...]:
    if not isinstance(data, list):
        checker.add_fault(("gates",), 'must be a list of tables, as in [[gates]] name = "…"')
        return ()
    gates: list[Gate] = []
    for index, table in enumerate(data):
        gate = checker.read_table(Gate, table, ("gates", index))
        if gate is WRONG:
            continue
        if fault := gate.fault():
            checker.add_fault(("gates", index), fault)
        elif gate.name in (other.name for other in gates):
            checker.add_fault(("gates", index, "name"), f"is {gate.name!r} for two gates: give each its own name")
        gates.append(gate)
    return tuple(gates)


def _parse_plugin(
    role: str, data: Any, has_space: bool, checker: Checker, rung_path: KeyPath = ()
) -> PluginChoice:
    plugins, path = PLUGIN_TABLES[role], rung_path or (role,)
    if not isinstance(data, dict):
        checker.add_fault(path, f'must be a table, as in [{role}] kind = "{next(iter(plugins.kinds))}"')
        return PluginChoice(plugins.default(has_space))
    kind = checker.read_value(str, data.get("kind", plugins.default(has_space)), (*path, "kind"), {})
    if kind is WRONG:
        return PluginChoice(plugins.default(has_space))
    plugin = find_plugin(role, plugins, kind)
    if plugin is None:
        checker.add_fault((*path, "kind"), f"must be one of {', '.join(plugins.kinds)}, not {kind!r}")
        return PluginChoice(plugins.default(has_space))
    options = {name: value for name, value in data.items() if name != "kind"}
    also_known = ("kind", "patience") if rung_path else ("kind",)
    checker.read_table(plugin.load_options(), options, path, also_known)
    if "parents" in options:
        _check_selector(options["parents"], (*path, "parents"), checker)
    if kind == AGENT_PROPOSER:
        check_agents(options, path, plugin.load_options(), checker)
    if kind == "ladder":
        _check_rungs(options.get("rungs"), has_space, checker)
    return PluginChoice(kind, options)


def _check_rungs(rungs: Any, has_space: bool, checker: Checker) -> None:
    """Check each rung as a proposer that may also have a `patience`."""
    for index, rung in enumerate(rungs if isinstance(rungs, list) else ()):
        path = ("proposer", "rungs", index)
        if not isinstance(rung, dict) or "kind" not in rung:
            checker.add_fault(path, 'must be a table with a kind, as in [[proposer.rungs]] kind = "tpe"')
            continue
        if rung["kind"] == "ladder":
            checker.add_fault(path, "is a ladder inside a ladder: list its rungs here instead")
            continue
        checker.read_value(int, rung.get("patience", 1), (*path, "patience"), {"minimum": 1})
        proposer = {name: value for name, value in rung.items() if name != "patience"}
        choice = _parse_plugin("proposer", proposer, has_space, checker, path)
        if _needs_space("proposer", choice.kind) and not has_space:
            checker.add_fault((*path, "kind"), f"is {choice.kind}, which needs parameters: add [parameters.NAME]")


def _check_selector(choice: Any, path: KeyPath, checker: Checker) -> None:
    """Check a selector, named by its kind, or by a table with its kind and its options."""
    kind = choice.get("kind") if isinstance(choice, dict) else choice
    if (selector := find_selector(kind)) is None:
        checker.add_fault(path, f"must be one of {', '.join(SELECTORS)}, not {kind!r}")
    elif isinstance(choice, dict):
        options = {name: value for name, value in choice.items() if name != "kind"}
        checker.read_table(selector.load_options(), options, path, ("kind",))


def _needs_space(role: str, kind: str) -> bool:
    plugin = find_plugin(role, PLUGIN_TABLES[role], kind)
    return plugin is not None and plugin.needs_space


def _check_sandbox(sandbox: Any, checker: Checker) -> None:
    kinds = ("auto", *BACK_ENDS)
    if sandbox is not WRONG and sandbox.kind not in kinds:
        checker.add_fault(("sandbox", "kind"), f"must be one of {', '.join(kinds)}, not {sandbox.kind!r}")


def _check_consistency(
    objective: Any, chosen: Mapping[str, PluginChoice], has_space: bool, checker: Checker
) -> None:
    for role in ("proposer", "control"):
        if _needs_space(role, chosen[role].kind) and not has_space:
            checker.add_fault(
                (role, "kind"), f"is {chosen[role].kind}, which needs parameters: add [parameters.NAME]"
            )
    if objective is WRONG:
        return
    weighted = sum(metric.weight is not None for metric in objective.metrics)
    if 0 < weighted < len(objective.metrics):
        checker.add_fault(
            ("objective", "metrics"), "has weights on only some metrics: give all of them one, or none"
        )
