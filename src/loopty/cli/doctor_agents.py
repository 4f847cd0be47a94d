"""The findings of `doctor` about coding agents: installed, logged in, and, only when asked, whether it answers."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from loopty.agents.agent_driver import AgentDriver
from loopty.agents.agent_table import load_driver
from loopty.agents.agent_work import AgentChoice
from loopty.campaign.agent_login import AgentLogin
from loopty.campaign.host_installation import HostInstallation
from loopty.cli.findings import Finding
from loopty.domain.errors import Misuse
from loopty.hosts.host_table import HOSTS
from loopty.kit.fence import one_line
from loopty.kit.temporary_top import temporary_top
from loopty.version import __version__

_VERSION_SECONDS = 60.0
_TRIAL_SECONDS = 180.0
_LONGEST = 200
_PROMPT = "Reply with the single word ready. Use no tool, and change no file."


def agent_findings(name: str, is_tried: bool) -> Iterator[Finding]:
    """What is known about one agent here; `is_tried`: also its answer to a one-line prompt, which costs tokens."""
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
        yield _try_prompt(driver, login)


def host_finding(installation: HostInstallation) -> Finding:
    """Whether a coding agent in this host can drive this version of loopty."""
    host = installation.host
    name = f"tools and skills in {host.title}"
    remedy = f"`loopty install {host.name}`"
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
    """Whether it runs, and what it says about itself. It is the user's own, so it runs as the user starts it."""
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


def _try_prompt(driver: AgentDriver, login: AgentLogin) -> Finding:
    """Ask the agent for one word, in the sandbox that its sessions have."""
    from loopty.agents.agent_driver import AgentOrder
    from loopty.agents.agent_stream import AgentEnd
    from loopty.campaign.agent_factory import choose_agent_sandbox
    from loopty.campaign.agent_launcher import HOME, PROMPT_FILE, TREE, AgentJob, AgentLauncher
    from loopty.domain.errors import LooptyError
    from loopty.domain.launch import Mount
    from loopty.domain.task import SandboxSpec
    from loopty.kit.safe_folder import SafeFolder

    choice = AgentChoice(driver.name, timeout_seconds=_TRIAL_SECONDS)
    with tempfile.TemporaryDirectory(prefix="loopty-agent-", dir=temporary_top()) as temporary:
        folder = SafeFolder(Path(temporary).resolve())
        tree = folder.below("tree").make().path_for_programs()
        try:
            sandbox, owner = choose_agent_sandbox(SandboxSpec(), unsafe=False)
            home = folder.below("home").written_by(owner[0] if owner else None).make()
            login.copy_into(home)
            before = login.credentials()
            command = driver.make_command(AgentOrder(_PROMPT, PROMPT_FILE, HOME))
            job = AgentJob(command, _PROMPT, (Mount(tree, TREE),), home, folder, 1, login.variables)
            run = asyncio.run(AgentLauncher(driver, choice, sandbox, owner).run(job))
            login.copy_back(home, before)
        except LooptyError as error:
            return Finding(f"prompt to {driver.name}", False, str(error).splitlines()[0], needed=False)
    is_clean = run.end.end is AgentEnd.CLEAN
    said = one_line(run.stream.text, _LONGEST) or "nothing"
    detail = (
        f"it answered {said!r}, {run.stream.usage.tokens} tokens"
        if is_clean
        else f"{run.end.end}: {run.end.reason}"
    )
    return Finding(f"prompt to {driver.name}", is_clean, detail, needed=False)
