"""What a task asks for beyond the default: everything that reaches outside its repository and the sandbox.

A task file may come from anybody, so the user has to allow each of these once. The other keys need no permission:
they choose among the files of the repository, or among limits, and what they start runs in the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loopty.domain.model import ModelSpec, Role
from loopty.domain.task import SandboxSpec, Task
from loopty.git.folders import WORK_FOLDER
from loopty.kit.records import Record, replace
from loopty.taskfile.model_tables import agent_tables, proposer_kinds, proposer_tables
from loopty.taskfile.plugins import CONTROLS, PROPOSERS, SELECTORS

_GIT_KEY = "git config "
_NO_PROTECTION = "a sandbox that need not protect '{}'"
_OWN_FOLDERS = (".git", WORK_FOLDER)
"""Folders of the repository that trials do not see by default."""


class TaskRequest(Record, order=True):
    """One thing that a task asks for beyond the default."""

    key: str
    """The key of the task file that asks for it."""
    words: str

    def __str__(self) -> str:
        return f"{self.words} ({self.key})"

    @property
    def is_of_git(self) -> bool:
        """Say whether git's configuration of the repository asks, and not the task file."""
        return self.key.startswith(_GIT_KEY)


def task_requests(task: Task, top: Path, user_models: Mapping[str, ModelSpec]) -> tuple[TaskRequest, ...]:
    """Everything that the task asks for, in a fixed order. Models that the user defined need no permission."""
    requests = {*_benchmark_requests(task, top), *_sandbox_requests(task.sandbox), *_right_requests(task)}
    requests |= {*_executor_requests(task)}
    for proposer in filter(None, (task.proposer, task.combiner)):
        stage = replace(task, proposer=proposer)
        requests |= {*_plugin_requests(stage), *_agent_requests(stage), *model_requests(stage, top, user_models)}
    return tuple(sorted(requests))


def git_requests(settings: Mapping[str, str]) -> tuple[TaskRequest, ...]:
    """List what the repository's own git configuration asks for: programs for its files, servers to fetch from."""
    return tuple(sorted(TaskRequest(_GIT_KEY + key, f"git to use {value!r}") for key, value in settings.items()))


def model_requests(task: Task, top: Path, user_models: Mapping[str, ModelSpec]) -> Iterator[TaskRequest]:
    """Yield what the models that the task defines or names ask for."""
    for name, spec in task.models.items():
        if user_models.get(name) != spec and (words := _model_words(name, spec, top)):
            yield TaskRequest(f"models.{name}", words)
    named = [(f"roles.{role}.model", name) for role in Role for name in task.roles.of(role).names]
    for key, name in named:
        provider, colon, model = name.partition(":")
        if colon and name not in task.models and (words := _model_words(name, ModelSpec(provider, model), top)):
            yield TaskRequest(key, words)


def _model_words(name: str, spec: ModelSpec, top: Path) -> str | None:
    """Say what a model asks for; None if it only reads files of the repository."""
    if spec.provider in ("scripted", "recorded"):
        path = _path_outside(top, spec.file)
        return f"replies from {path!r}" if path else None
    # Most tasks name no model and no agent, and every verb reads the task.
    from loopty.models.keys import is_private, key_location

    key = (
        "no key"
        if is_private(spec.url) and not (spec.key_env or spec.keyring)
        else f"the key in {key_location(spec)}"
    )
    return f"calls to {spec.display_name(name)} at {spec.url or spec.provider}, with {key}"


def _benchmark_requests(task: Task, top: Path) -> Iterator[TaskRequest]:
    if task.benchmark.network:
        yield TaskRequest("benchmark.network", "the network, and the services of this machine")
    for device in task.benchmark.devices:
        yield TaskRequest("benchmark.devices", f"the device {device!r} of this machine")
    paths = {
        "benchmark.mounts": task.benchmark.mounts,
        "benchmark.data": task.benchmark.data,
        "audit.data": task.audit.data,
    }
    for key, named in paths.items():
        yield from (TaskRequest(key, f"to read {path!r}") for path in _paths_outside(top, named))


def _sandbox_requests(sandbox: SandboxSpec) -> Iterator[TaskRequest]:
    for protection in SandboxSpec().require:
        if protection not in sandbox.require:
            yield TaskRequest("sandbox.require", _NO_PROTECTION.format(protection))
    if sandbox.image:
        yield TaskRequest("sandbox.image", f"the programs of the container image {sandbox.image!r}")
    if sandbox.gpus:
        yield TaskRequest("sandbox.gpus", "the GPUs of this machine")


def _plugin_requests(task: Task) -> Iterator[TaskRequest]:
    for path, kind in proposer_kinds(task.proposer):
        if kind not in PROPOSERS.kinds:
            yield TaskRequest(".".join(map(str, path)), f"the proposer {kind!r} of another package")
    if task.control.kind not in CONTROLS.kinds:
        yield TaskRequest("control.kind", f"the control {task.control.kind!r} of another package")
    control = (("control",), task.control.options)
    for path, options in (*proposer_tables(task.proposer), control):
        choice = options.get("parents", "best")
        kind = choice.get("kind") if isinstance(choice, Mapping) else choice
        if kind not in SELECTORS:
            yield TaskRequest(".".join(map(str, (*path, "parents"))), f"the selector {kind!r} of another package")


def _right_requests(task: Task) -> Iterator[TaskRequest]:
    if task.agents.may:
        yield TaskRequest("agents.may", f"coding agents to {', '.join(sorted(task.agents.may))} what others made")


def _executor_requests(task: Task) -> Iterator[TaskRequest]:
    for host in task.executor.hosts:
        yield TaskRequest("executor.hosts", f"to start workers at {host!r}")
    if command := task.executor.start:
        # The number, too: what the command rents is paid for each.
        times = f"{task.executor.workers} times " if task.executor.workers > 1 else ""
        yield TaskRequest("executor.start", f"your full permissions, to run {command!r} {times}without a sandbox")
    if task.executor.listen:
        yield TaskRequest("executor.listen", f"to let workers join at {task.executor.listen!r}")


def _agent_requests(task: Task) -> Iterator[TaskRequest]:
    """Yield what coding agents ask for: with a model of the evolver's, neither a login nor the network."""
    if task.roles.evolver.model:
        return
    for path, options in agent_tables(task.proposer):
        from loopty.proposers.agent.driver import BY_COMMAND

        name, key = str(options.get("agent")), ".".join(map(str, path))
        what = f"the command {options.get('command')!r}" if name in BY_COMMAND else f"your login of {name}"
        yield TaskRequest(
            f"{key}.agent", f"a coding agent with {what}, the network and the services of this machine"
        )
        yield from (
            TaskRequest(f"{key}.login", f"to give it {file!r} of your home") for file in _texts(options, "login")
        )
        for variable in _texts(options, "variables"):
            yield TaskRequest(f"{key}.variables", f"to give it your variable {variable}")
        if args := _texts(options, "args"):
            yield TaskRequest(f"{key}.args", f"to start it with {' '.join(args)!r}")


def _texts(options: Mapping[str, Any], name: str) -> list[str]:
    found = options.get(name, ())
    return [str(item) for item in found] if isinstance(found, list | tuple) else []


def _paths_outside(top: Path, paths: Iterable[str]) -> Iterator[str]:
    return filter(None, (_path_outside(top, path) for path in paths))


def _path_outside(top: Path, path: str) -> str | None:
    """Return the real path if it lies outside the repository or in a folder not for trials; else None."""
    real, real_top = Path(os.path.realpath(top / Path(path).expanduser())), Path(os.path.realpath(top))
    if not real.is_relative_to(real_top):
        return str(real)
    own = [real_top / name for name in _OWN_FOLDERS]
    return str(real) if any(real.is_relative_to(folder) or folder.is_relative_to(real) for folder in own) else None
