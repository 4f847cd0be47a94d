"""`loopty doctor`: what this machine can do: sandboxes, the task, coding agents, models."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import click

from loopty.cli.output import here, json_option, print_beside, print_json
from loopty.domain.errors import LooptyError, Misuse
from loopty.domain.model import ModelSpec, Role, Roles
from loopty.domain.task import SandboxSpec, Task
from loopty.features.agents.hosts.installation import HostInstallation
from loopty.features.agents.hosts.table import HOSTS
from loopty.features.agents.start import AgentLogin
from loopty.git.folders import GitFolders
from loopty.git.repository import Repository
from loopty.kit import codec
from loopty.kit.foreign_text import one_line
from loopty.kit.installation import extra_command
from loopty.kit.records import Record, field, replace
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import temporary_folder
from loopty.models.catalogue import FILE_PROVIDERS, Catalogue, ModelEntry, client_problem, model_entries
from loopty.models.prices import FREE
from loopty.proposers.agent.driver import (
    AGENTS,
    BY_COMMAND,
    AgentDriver,
    installed_agents,
    load_driver,
)
from loopty.proposers.agent.stream import AgentEnd
from loopty.proposers.agent.work import AgentChoice
from loopty.sandboxes.back_ends import BACK_ENDS
from loopty.taskfile.model_tables import idle_roles, make_key_refusal, user_config_models
from loopty.taskfile.read import load
from loopty.version import __version__
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.domain.task import SandboxSpec
    from loopty.taskfile.task_requests import TaskRequest


class Finding(Record):
    """One thing that doctor looked at. A thing that only an option needs is no failure when it is missing."""

    name: str
    ok: bool
    detail: str
    needed: bool = True
    facts: Mapping[str, str] = field(default_factory=dict)
    """The detail's facts, for programs."""


# An agent's shell may be in a sandbox.


_OUTSIDE = "in a sandbox, call loopty's tools instead, by MCP or by files (docs/tools.md)"


def reach_findings() -> Iterator[Finding]:
    """Say whether the state can be written; nothing outside of a repository."""
    try:
        state = StateFolder.of(GitFolders.find(Path.cwd()))
    except Misuse:
        return
    folder = state.home.shown_path if state.home.exists() else state.home.root
    can_write = os.access(folder, os.W_OK)
    detail = str(folder) if can_write else f"{folder} is read-only: {_OUTSIDE}"
    yield Finding("state", can_write, detail, needed=False)


# Makes no request.


def task_findings(task: Task, top: Path) -> Iterator[Finding]:
    """Yield the models that the task can name, then its roles."""
    idle = idle_roles(task)
    yield from _findings(task.models, task.roles, top, idle)
    if any(task.roles.of(role).model for role in Role):
        for role in Role:
            model = ", ".join(task.roles.of(role).names) or "no model"
            yield Finding(f"role {role}", role not in idle, idle.get(role, model), needed=False)


def user_findings(start: Path) -> Iterator[Finding]:
    """Yield the models of the user's own configuration."""
    yield from _findings(user_config_models(os.environ), Roles(), start, ())


def _findings(
    specs: Mapping[str, ModelSpec],
    roles: Roles,
    top: Path,
    idle: Collection[Role],
) -> Iterator[Finding]:
    catalogue = Catalogue(specs, os.environ, top)
    for entry in model_entries(specs, roles, os.environ, top, make_key_refusal(os.environ)):
        spec = catalogue.spec(entry.name)
        client = client_problem(entry.name, spec, top)
        problem = "; ".join(filter(None, (client, entry.problem)))
        facts = {
            "provider": spec.provider,
            "file" if spec.provider in FILE_PROVIDERS else "client": "missing" if client else "there",
            **_facts(entry),
        }
        shown = ", ".join(f"{fact} {state}" for fact, state in facts.items() if fact != "provider")
        yield Finding(
            f"model {entry.name}",
            not problem,
            f"{entry.model}; {shown}" + (f"; {problem}" if problem else ""),
            needed=any(role not in idle for role in entry.roles),
            facts=facts,
        )


def _facts(entry: ModelEntry) -> dict[str, str]:
    price = "unknown" if entry.price is None else "free" if entry.price == FREE else "known"
    facts = {"key": entry.key, "address": entry.address, "price": price}
    return {fact: state for fact, state in facts.items() if state}


_VERSION_SECONDS = 60.0
_TRIAL_SECONDS = 180.0
_LONGEST = 200
_PROMPT = "Reply with the single word ready. Use no tool, and change no file."


def agent_findings(name: str, is_tried: bool) -> Iterator[Finding]:
    """Tell what is known of one agent here; `is_tried`: also its answer to a short prompt, which costs tokens."""
    driver = load_driver(name)
    program = shutil.which(driver.program)
    runs, answer = _ask_version(program) if program else (False, "")
    yield Finding(
        f"agent {name}",
        runs,
        (f"{answer} ({program})" if runs else f"{program} does not run: {answer}; {driver.install}")
        if program
        else f"not installed: {driver.install}",
        facts={"install": driver.install},
    )
    login = AgentLogin(driver, AgentChoice(name), os.environ)
    yield Finding(f"login of {name}", login.is_there, _login_words(driver, login), needed=False)
    if name in HOSTS:
        yield host_finding(HostInstallation(HOSTS[name], os.environ))
    if is_tried and runs:
        yield _try_prompt(name)


def host_finding(installation: HostInstallation) -> Finding:
    """Say whether a coding agent in this host can drive this version of loopty."""
    host = installation.host
    name = f"tools and skills in {host.title}"
    remedy = f"`loopty agent install {host.name}`"
    if not installation.is_installed:
        return Finding(name, False, f"not installed: {remedy} lets its agent drive loopty", needed=False)
    try:
        faults = installation.faults()
    except Misuse as error:
        return Finding(name, False, str(error), needed=False)
    if faults:
        return Finding(name, False, f"{faults[0]}: {remedy}, then a new session", needed=False)
    return Finding(name, True, f"installed for loopty {__version__}", needed=False)


def _login_words(driver: AgentDriver, login: AgentLogin) -> str:
    if not login.is_there:
        return f'none found: {driver.login}; or let loopty serve it a model: [roles.evolver] model = "…"'
    places = [*map(str, (login.files[name] for name in driver.credentials if name in login.files))]
    return f"found in {', '.join([*places, *(f'${variable}' for variable in login.variables)])}"


def _ask_version(program: str) -> tuple[bool, str]:
    """Say whether it runs, and its version. It is the user's own, so it runs as the user starts it."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, one_line(str(error), _LONGEST)
    lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return done.returncode == 0, one_line(lines[0], _LONGEST) if lines else f"exit code {done.returncode}"


def _try_prompt(name: str) -> Finding:
    """Ask the agent for one word, in the sandbox that its sessions have."""
    from loopty.features.agents.one_session import agent_choice, run_once

    with temporary_folder("agent") as temporary:
        try:
            run = run_once(agent_choice(name, _TRIAL_SECONDS), _PROMPT, SafeFolder(temporary.resolve()))
        except LooptyError as error:
            return Finding(f"prompt to {name}", False, str(error).splitlines()[0], needed=False)
    is_clean = run.end.end is AgentEnd.CLEAN
    said = one_line(run.stream.text, _LONGEST) or "nothing"
    detail = (
        f"it answered {said!r}, {run.stream.usage.tokens} tokens"
        if is_clean
        else f"{run.end.end}: {run.end.reason}"
    )
    return Finding(f"prompt to {name}", is_clean, detail, needed=False)


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
def doctor_verb(attack: bool, kind: str | None, failed: bool, agent: str | None, ask: bool, as_json: bool) -> None:
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
    try:
        version = subprocess.run(["git", "--version"], capture_output=True, text=True).stdout.strip()
    except OSError:
        return Finding("git", False, "not installed: install it with the system's package manager")
    return Finding("git", True, version)


def _sandboxes() -> Iterator[Finding]:
    """Yield each back end, really tried, and which of them trials run in."""
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
    version = apsw.sqlite_lib_version()
    sound = tuple(map(int, version.split("."))) >= (3, 51, 3)
    return Finding("sqlite", sound, version if sound else f"{version} can corrupt the ledger: update apsw")


def _extras() -> list[Finding]:
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
    """Tell what the task asks for beyond the default, and whether the user has allowed it."""
    if requests := _requests():
        asked = "; ".join(map(str, requests))
        is_trusted = here().is_trusted()
        detail = (
            asked
            if is_trusted
            else f"nothing of the task runs before you allow, with `loopty config trust`: {asked}"
        )
        yield Finding("trust", is_trusted, detail, needed=False)


def _hosts() -> Iterator[Finding]:
    """Yield the hosts in which the user has installed loopty's tools and skills."""
    for host in HOSTS.values():
        installation = HostInstallation(host, os.environ)
        if installation.is_installed:
            yield host_finding(installation)


def _agents() -> list[Finding]:
    """List the coding agents on the search path."""
    return [
        Finding(f"agent {name}", True, f"on your PATH; `loopty doctor --agent {name}` says more", needed=False)
        for name in installed_agents()
    ]


def _models() -> list[Finding]:
    """List the models of the task; without a task, those of the user's own configuration."""
    task = _load_task()
    try:
        if isinstance(task, str):
            return list(user_findings(Path.cwd()))
        return list(task_findings(task, Repository.open(Path.cwd()).top))
    except Misuse as error:
        return [Finding("models", False, str(error).splitlines()[0], needed=False)]


def _sandbox_spec(kind: str | None = None) -> SandboxSpec:
    """Return the sandbox that the task asks for; with a kind, that one, whatever it does not protect from."""
    task = _load_task()
    # A task that asks for more than the user allows gets the default: its image, for example, is not tried.
    is_refused = bool(_requests()) and not here().is_trusted()
    spec = SandboxSpec() if isinstance(task, str) or is_refused else task.sandbox
    return replace(spec, kind=kind, require=()) if kind else spec


def _requests() -> tuple[TaskRequest, ...]:
    """Return what the task asks for beyond the default; nothing without a task."""
    return () if isinstance(_load_task(), str) else here().requests()


def _load_task() -> Task | str:
    """Load the task of this repository, or say why there is none."""
    try:
        return load(Repository.open(Path.cwd()).top)
    except Misuse as error:
        return str(error).splitlines()[0]
