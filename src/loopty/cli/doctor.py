"""`loopty doctor`: what this machine can do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopty.agents.agent_table import AGENTS, BY_COMMAND, installed_agents
from loopty.cli.doctor_reach import reach_findings
from loopty.cli.findings import Finding
from loopty.cli.output import here, json_option, print_beside, print_json
from loopty.kit.own_installation import extra_command
from loopty.sandboxes.back_ends import BACK_ENDS

if TYPE_CHECKING:
    from loopty.domain.task import SandboxSpec, Task
    from loopty.taskfile.task_requests import TaskRequest

_AGENTS = [name for name in AGENTS if name not in BY_COMMAND]


@click.command("doctor")
@click.option("--attack", is_flag=True, help="Attack the sandbox that trials would run in; harmless otherwise.")
@click.option(
    "--sandbox",
    "kind",
    type=click.Choice(list(BACK_ENDS)),
    help="With --attack: the back end to attack. Default: the task's.",
)
@click.option(
    "--failed", is_flag=True, help="With --attack: show only attacks that got through or could not be tried."
)
@click.option("--agent", type=click.Choice(_AGENTS), help="Check this coding agent: its program and its login.")
@click.option("--ask", is_flag=True, help="With --agent: also send it a one-line prompt, which costs tokens.")
@json_option
def command(attack: bool, kind: str | None, failed: bool, agent: str | None, ask: bool, as_json: bool) -> None:
    """Check what works on this machine, by trying it, and say how to fix the rest.

    Exits with 1 when something that loopty needs is missing. With --attack: when an attack gets through although
    the sandbox promises protection from it, or when an attack could not be tried.
    """
    if (kind or failed) and not attack:
        raise click.UsageError(f"{'--sandbox' if kind else '--failed'} goes with --attack")
    if ask and not agent:
        raise click.UsageError("--ask goes with --agent")
    if attack and agent:
        raise click.UsageError("--attack and --agent exclude each other")
    if attack:
        from loopty.cli.doctor_attacks import attack_sandbox

        sys.exit(0 if attack_sandbox(_sandbox_spec(kind), failed, as_json) else 1)
    if agent:
        from loopty.cli.doctor_agents import agent_findings

        findings = list(agent_findings(agent, ask))
    else:
        findings = [
            _python(),
            _git(),
            *_sandboxes(),
            _sqlite(),
            *_extras(),
            *reach_findings(),
            _task(),
            *_trust(),
            *_models(),
        ]
        findings += [*_agents(), *_hosts()]
    if as_json:
        from loopty.kit import codec

        print_json([{"ok": finding.ok, **codec.plain(finding)} for finding in findings])
    else:
        for finding in findings:
            mark = "ok" if finding.ok else "MISSING" if finding.needed else "-"
            print_beside(f"{mark:8}", f"{finding.name}: {finding.detail}")
    sys.exit(1 if any(finding.needed and not finding.ok for finding in findings) else 0)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), f"{version} ({sys.executable})")


def _git() -> Finding:
    import subprocess

    try:
        version = subprocess.run(["git", "--version"], capture_output=True, text=True).stdout.strip()
    except OSError:
        return Finding("git", False, "not installed: install it with the system's package manager")
    return Finding("git", True, version)


def _sandboxes() -> Iterator[Finding]:
    """Each back end, really tried, and which of them trials run in."""
    from loopty.sandboxes.choice import back_ends

    spec = _sandbox_spec()
    chosen = ""
    for back_end in back_ends(spec):
        found = back_end.probe
        weak = f"; not enforced: {', '.join(gap.words for gap in found.gaps)}" if found.gaps else ""
        yield Finding(f"sandbox {found.name}", found.ok, found.problem or f"works{weak}", needed=False)
        if not chosen and not back_end.refusal(spec):
            chosen = found.name
    kind = f"kind = {spec.kind}" + (f" takes {chosen}" if chosen and spec.kind == "auto" else "")
    missing = f"{kind}: none gives what is required ({', '.join(spec.require)}); only --unsafe-no-sandbox runs"
    yield Finding("sandbox", bool(chosen), kind if chosen else missing)


def _sqlite() -> Finding:
    import apsw

    version = apsw.sqlite_lib_version()
    sound = tuple(map(int, version.split("."))) >= (3, 51, 3)
    return Finding("sqlite", sound, version if sound else f"{version} can corrupt the ledger: update apsw")


def _extras() -> list[Finding]:
    import importlib.util

    extras = {"optuna": "samplers", "cmaes": "samplers", "scipy": "samplers", "torch": "gp"}
    missing = {name: extra for name, extra in extras.items() if importlib.util.find_spec(name) is None}
    return [
        Finding(
            name, name not in missing, f"run {extra_command(extra)}" if name in missing else "installed", False
        )
        for name, extra in extras.items()
    ]


def _task() -> Finding:
    task = _load_task()
    if isinstance(task, str):
        return Finding("task", False, task, needed=False)
    return Finding("task", True, f"{task.proposer.kind}, {task.pools.attempts} attempts")


def _trust() -> Iterator[Finding]:
    """What the task asks for beyond the default, and whether the user has allowed it."""
    if requests := _requests():
        asked = "; ".join(map(str, requests))
        is_trusted = here().is_trusted()
        detail = (
            asked if is_trusted else f"nothing of the task runs before you allow, with `loopty trust`: {asked}"
        )
        yield Finding("trust", is_trusted, detail, needed=False)


def _hosts() -> Iterator[Finding]:
    """The hosts in which the user has installed loopty's tools and skills."""
    import os

    from loopty.campaign.host_installation import HostInstallation
    from loopty.cli.doctor_agents import host_finding
    from loopty.hosts.host_table import HOSTS

    for host in HOSTS.values():
        installation = HostInstallation(host, os.environ)
        if installation.is_installed:
            yield host_finding(installation)


def _agents() -> list[Finding]:
    """The coding agents on the search path."""
    return [
        Finding(f"agent {name}", True, f"on your PATH; `loopty doctor --agent {name}` says more", needed=False)
        for name in installed_agents()
    ]


def _models() -> list[Finding]:
    """The models of the task; without a task, those of the user's own configuration."""
    from loopty.cli.doctor_models import task_findings, user_findings
    from loopty.domain.errors import Misuse
    from loopty.workspaces.repository import Repository

    task = _load_task()
    try:
        if isinstance(task, str):
            return list(user_findings(Path.cwd()))
        return list(task_findings(task, Repository.open(Path.cwd()).top))
    except Misuse as error:
        return [Finding("models", False, str(error).splitlines()[0], needed=False)]


def _sandbox_spec(kind: str | None = None) -> SandboxSpec:
    """The sandbox that the task asks for; with a kind, that one, whatever it does not protect from.

    A task that asks for more than the user allows gets the default: its image, for example, is not tried.
    """
    from loopty.domain.task import SandboxSpec
    from loopty.kit.records import replace

    task = _load_task()
    is_refused = bool(_requests()) and not here().is_trusted()
    spec = SandboxSpec() if isinstance(task, str) or is_refused else task.sandbox
    return replace(spec, kind=kind, require=()) if kind else spec


def _requests() -> tuple[TaskRequest, ...]:
    """What the task asks for beyond the default; nothing without a task."""
    return () if isinstance(_load_task(), str) else here().requests()


def _load_task() -> Task | str:
    """The task of this repository, or why there is none."""
    from loopty.domain.errors import Misuse
    from loopty.taskfile.read import load
    from loopty.workspaces.repository import Repository

    try:
        return load(Repository.open(Path.cwd()).top)
    except Misuse as error:
        return str(error).splitlines()[0]
