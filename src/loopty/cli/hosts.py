"""`loopty agent install`, `uninstall`, `mode`, `hook`: loopty in a coding agent's host."""

from __future__ import annotations

import json
import os
import shutil
import sys

import click

from loopty.cli.output import echo, here, json_option, print_beside, print_json, say
from loopty.domain.errors import LooptyError, Misuse
from loopty.domain.task_tables import AgentMode, ModeSource
from loopty.features.agents.hosts.hook_call import LARGEST_BYTES, MOMENTS, HookCall
from loopty.features.agents.hosts.installation import HostInstallation, shipped_skills
from loopty.features.agents.hosts.table import HOSTS


@click.command("install")
@click.argument("hosts", nargs=-1, type=click.Choice(list(HOSTS)))
@click.option("--dry-run", is_flag=True, help="Only show what would be added, and where.")
@json_option
def install_verb(hosts: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Let coding agents in these hosts drive loopty: adds its tools to your settings of the host, and its skills.

    Your own settings are changed, not the repository's, because hosts without a terminal refuse tools that only a
    repository approves. Everything else in them stays. `loopty agent uninstall HOST` removes it again, and `loopty
    doctor` says whether it fits this version. Without a host: lists the hosts.
    """
    installations = [HostInstallation(HOSTS[name], os.environ) for name in dict.fromkeys(hosts or HOSTS)]
    if not hosts:
        _list(installations, as_json)
    elif dry_run:
        _show(installations, as_json)
    else:
        _install(installations, as_json)


def _list(installations: list[HostInstallation], as_json: bool) -> None:
    rows = [
        {
            "host": found.host.name,
            "title": found.host.title,
            "on_path": bool(found.host.program and shutil.which(found.host.program)),
            "installed": found.is_installed,
        }
        for found in installations
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = "installed" if row["installed"] else "on your PATH" if row["on_path"] else "-"
        print_beside(f"{row['host']:10}", f"{state:14}{row['title']}")
    say("`loopty agent install HOST` lets a coding agent there drive loopty")


def _show(installations: list[HostInstallation], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "host": found.host.name,
                    "settings": [{"path": str(entry.path), "adds": entry.snippet()} for entry in found.entries],
                    "skills": str(found.skills_folder),
                }
                for found in installations
            ]
        )
        return
    for found in installations:
        for entry in found.entries:
            click.echo(f"{entry.path}:\n{entry.snippet()}\n")
        click.echo(f"{found.skills_folder}: the skills {', '.join(_skill_names())}")


def _install(installations: list[HostInstallation], as_json: bool) -> None:
    rows = [(found, found.is_installed, found.install()) for found in installations]
    if as_json:
        print_json([{"host": found.host.name, "changed": [*map(str, paths)]} for found, _, paths in rows])
        return
    for found, was_installed, paths in rows:
        say(f"{found.host.title}: {'nothing to change' if was_installed and not paths else 'installed'}")
        for path in paths:
            say(f"  {path}")
        if found.host.hint:
            say(f"  {found.host.hint}")
    say("start a new session of the agent, and ask it to optimize this repository with loopty")


def _skill_names() -> list[str]:
    return [*shipped_skills()]


@click.command("uninstall")
@click.argument("hosts", nargs=-1, type=click.Choice(list(HOSTS)))
@json_option
def uninstall_verb(hosts: tuple[str, ...], as_json: bool) -> None:
    """Remove loopty's tools and skills from these hosts. Skills that another host shares stay for it."""
    if not hosts:
        raise Misuse("name a host: `loopty agent install` lists them")
    installations = [HostInstallation(HOSTS[name], os.environ) for name in dict.fromkeys(hosts)]
    rows = [(found, found.uninstall()) for found in installations]
    if as_json:
        print_json([{"host": found.host.name, "changed": [*map(str, paths)]} for found, paths in rows])
        return
    for found, paths in rows:
        say(f"{found.host.title}: {'removed' if paths else 'there was nothing to remove'}")
        for path in paths:
            say(f"  {path}")


@click.command("mode")
@click.argument("mode", required=False, type=click.Choice([mode.value for mode in AgentMode]))
@click.argument("value", required=False, type=click.Choice(["on", "off", "inherit"]))
@click.option("--user", is_flag=True, help="Your default for all repositories, not only this one.")
@json_option
def mode_verb(mode: str | None, value: str | None, user: bool, as_json: bool) -> None:
    """Show or set how a coding agent in its own host works here.

    autonomous: it goes on until the budget is spent. subagents-only: it leaves edits to subagents. Both are on
    unless you say otherwise: with LOOPTY_AUTONOMOUS or LOOPTY_SUBAGENTS_ONLY for one session, here for a
    repository, or with --user. `inherit` takes a setting back.
    """
    settings = here().mode_settings()
    if value is not None:
        assert mode
        chosen = {"on": True, "off": False, "inherit": None}[value]
        settings.save(AgentMode(mode), chosen, ModeSource.USER if user else ModeSource.WORKSPACE)
    elif user:
        raise Misuse("--user goes with a mode and on, off or inherit")
    shown = [settings.setting(found) for found in AgentMode if mode is None or found == mode]
    if as_json:
        print_json([{"mode": found.mode, "on": found.is_on, "source": found.source} for found in shown])
    else:
        for found in shown:
            echo(str(found))


@click.command("hook", hidden=True)
@click.argument("event", type=click.Choice(list(MOMENTS)))
def hook_verb(event: str) -> None:
    """Answer a hook of a coding agent's host; `loopty agent install` registers this.

    Reads the host's JSON from stdin and prints the reply. It never fails: whatever is wrong, the host goes on.
    """
    from loopty.features.agents.hosts.hooks import answer_hook

    call = HookCall.parse(event, sys.stdin.read(LARGEST_BYTES))
    try:
        reply = answer_hook(call) if call else {}
    except (LooptyError, OSError):
        reply = {}
    click.echo(json.dumps(reply))
