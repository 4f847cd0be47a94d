"""Lets a coding agent work once in a folder, outside of any run: nothing is in a ledger, and its login pays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import loopty_sdk
from loopty.domain.access import is_named_like_a_key
from loopty.domain.errors import Misuse
from loopty.domain.launch import Mount
from loopty.domain.task import SandboxSpec
from loopty.features.agents.launcher import HOME, PROMPT_FILE, TREE, AgentJob, AgentLauncher, AgentRun
from loopty.features.agents.sessions import choose_agent_sandbox
from loopty.features.agents.start import AgentLogin
from loopty.kit import untrusted_files
from loopty.kit.process import trial_owner
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import temporary_folder
from loopty.kit.untrusted_files import Unreadable
from loopty.proposers.agent.driver import AGENTS, ANY_COMMAND, BY_COMMAND, AgentOrder, load_driver
from loopty.proposers.agent.stalls import StallOptions
from loopty.proposers.agent.work import AgentChoice

_SDK = "/loopty/sdk"
_LARGEST_COPIED = 64 << 20
_LARGEST_WRITTEN = 1 << 20


def agent_choice(name: str, seconds: float) -> AgentChoice:
    """Choose an agent by its name; anything else is a command that reads the file `$LOOPTY_PROMPT_FILE`."""
    if name in AGENTS and name not in BY_COMMAND:
        return AgentChoice(name, timeout_seconds=seconds)
    return AgentChoice(ANY_COMMAND, command=name, timeout_seconds=seconds, stalls=StallOptions(watch=False))


def run_once(
    choice: AgentChoice,
    prompt: str,
    folder: SafeFolder,
    *,
    shown_at: Sequence[str] = (TREE,),
    may_write: bool = False,
    environments: tuple[Path, ...] = (),
    unsafe: bool = False,
) -> AgentRun:
    """Run the agent to its end in the folder `tree` of this one. Raises LooptyError where it cannot start."""
    driver = load_driver(choice.agent, choice.stream)
    login = AgentLogin(driver, choice, os.environ)
    if not login.is_there:
        raise Misuse(f"{driver.name} has no login here: {driver.login}")
    sandbox, owner = choose_agent_sandbox(SandboxSpec(), unsafe)
    launcher = AgentLauncher(driver, choice, sandbox, owner, None, environments)
    tree = folder.below("tree").make()
    if may_write and owner:
        with tree.handle() as top:
            for _, _, names, inner in os.fwalk(".", dir_fd=top):
                os.fchown(inner, *owner)
                for name in names:
                    os.chown(name, *owner, dir_fd=inner, follow_symlinks=False)
    written = tree.written_by(owner[0] if owner else None).path_for_programs()
    home = folder.below("home").written_by(owner[0] if owner else None).make()
    login.copy_into(home)
    before = login.credentials()
    order = AgentOrder(prompt, PROMPT_FILE, HOME, command=choice.argv if not driver.program else ())
    command = driver.make_command(order)
    # For what it writes; the programs that start some agents mount it themselves.
    sdk = () if command.sdk_program else (Mount(Path(loopty_sdk.__file__).resolve().parent, f"{_SDK}/loopty_sdk"),)
    job = AgentJob(
        command=command,
        prompt=prompt,
        tree=(*sdk, *(Mount(written, place, writable=may_write) for place in shown_at)),
        home=home,
        folder=folder,
        part=1,
        variables={**login.variables, "PYTHONPATH": _SDK},
    )
    try:
        return asyncio.run(launcher.run(job))
    finally:
        login.copy_back(home, before)


def let_agent_write(
    choice: AgentChoice,
    prompt: str,
    top: Path,
    files: Sequence[str],
    begun: tuple[str, str],
    *,
    environments: tuple[Path, ...] = (),
    unsafe: bool = False,
) -> str:
    """Let an agent fill in one file, `begun` as path and text, in a copy of these files. Returns its text.

    Nothing else that it does is taken. Raises Misuse where it leaves no such file.
    """
    path, text = begun
    with temporary_folder("agent") as temporary:
        folder = SafeFolder(temporary.resolve())
        tree = folder.below("tree").make()
        _copy_files(top, files, tree.path_for_programs())
        tree.file_at(path).write(text.encode())
        # Also where the repository is: an environment that was installed from it looks for it there.
        places = (TREE, str(top))
        run = run_once(
            choice, prompt, folder, shown_at=places, may_write=True, environments=environments, unsafe=unsafe
        )
        try:
            *above, name = PurePosixPath(path).parts
            owner = None if unsafe else trial_owner()
            with tree.written_by(owner[0] if owner else None).below(*above).handle() as inner:
                content = untrusted_files.content(Path(name), _LARGEST_WRITTEN, inner)
        except Unreadable as error:
            raise Misuse(f"the agent left a {path} that {error}") from None
    written = (content or b"").decode(errors="replace")
    if not run.end.has_work or written in ("", text):
        why = run.end.reason or f"it left {path} as it was"
        raise Misuse(f"the agent wrote no benchmark: {why}")
    return written


def _copy_files(top: Path, files: Sequence[str], target: Path) -> None:
    for file in files:
        source, copy = top / file, target / file
        if source.is_symlink() or not source.is_file() or source.stat().st_size > _LARGEST_COPIED:
            continue
        if is_named_like_a_key(file):  # an agent has a shell, and the network
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):
            shutil.copy(source, copy)
