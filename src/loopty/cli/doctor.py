"""`loopty doctor`: what this machine can do."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

from loopty.cli.output import here, json_option, print_json


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. What is only missing for an option is no failure."""

    name: str
    ok: bool
    detail: str
    needed: bool = True


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Check what this machine can do, by trying it, and say how to mend what it cannot.

    Exits with 1 when something that loopty needs is missing.
    """
    findings = [_python(), _git(), _sandbox(), _sqlite(), *_extras(), _task()]
    if as_json:
        from loopty.kit import codec

        print_json([{"ok": finding.ok, **codec.plain(finding)} for finding in findings])
    else:
        for finding in findings:
            mark = "ok" if finding.ok else "MISSING" if finding.needed else "-"
            click.echo(f"{mark:8}{finding.name}: {finding.detail}")
    sys.exit(1 if any(finding.needed and not finding.ok for finding in findings) else 0)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), f"{version} ({sys.executable})")


def _git() -> Finding:
    import subprocess

    try:
        said = subprocess.run(["git", "--version"], capture_output=True, text=True).stdout.strip()
    except OSError:
        return Finding("git", False, "not installed: install it with the system's package manager")
    return Finding("git", True, said)


def _sandbox() -> Finding:
    import asyncio

    if sys.platform != "linux":
        detail = f"none for {sys.platform} yet: only --unsafe-no-sandbox runs here, or use a Linux machine"
        return Finding("sandbox", False, detail)
    from loopty.sandboxes.bubblewrap import Bubblewrap
    from loopty.sandboxes.probe import probe

    found = asyncio.run(probe(Bubblewrap()))
    weak = f"; not enforced: {', '.join(found.unenforced)}" if found.unenforced else ""
    return Finding("sandbox", found.ok, found.problem or f"{found.name} works{weak}")


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
        Finding(name, name not in missing, f"pip install 'loopty[{extra}]'" if name in missing else "there", False)
        for name, extra in extras.items()
    ]


def _task() -> Finding:
    from loopty.core.errors import Misuse
    from loopty.taskfile.read import load
    from loopty.workspaces.repository import Repository

    try:
        task = load(Repository.around(here()).top)
    except Misuse as error:
        return Finding("task", False, str(error).splitlines()[0], needed=False)
    return Finding("task", True, f"{task.proposer.kind}, {task.pools.attempts} attempts")
