"""`loopty install`: loopty's tools and skills for a coding agent's host."""

from __future__ import annotations

import os
import shutil

import click

from loopty.campaign.host_installation import HostInstallation
from loopty.cli.output import json_option, print_beside, print_json, say
from loopty.hosts.host_table import HOSTS


@click.command("install")
@click.argument("hosts", nargs=-1, type=click.Choice(list(HOSTS)))
@click.option("--dry-run", is_flag=True, help="Only show what would be added, and where.")
@json_option
def command(hosts: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Let coding agents in these hosts drive loopty: adds its tools to your settings of the host, and its skills.

    Your own settings are changed, not the repository's, because hosts without a terminal refuse tools that only a
    repository approves. Everything else in them stays. `loopty uninstall HOST` removes it again, and `loopty
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
    say("`loopty install HOST` lets a coding agent there drive loopty")


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
    from loopty.hosts.shipped_skills import shipped_skills

    return [*shipped_skills()]
