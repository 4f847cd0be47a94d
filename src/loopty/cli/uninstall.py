"""`loopty uninstall`: removes from a host what `loopty install` added."""

from __future__ import annotations

import os

import click

from loopty.campaign.host_installation import HostInstallation
from loopty.cli.output import json_option, print_json, say
from loopty.domain.errors import Misuse
from loopty.hosts.host_table import HOSTS


@click.command("uninstall")
@click.argument("hosts", nargs=-1, type=click.Choice(list(HOSTS)))
@json_option
def command(hosts: tuple[str, ...], as_json: bool) -> None:
    """Remove loopty's tools and skills from these hosts. Skills that another host shares stay for it."""
    if not hosts:
        raise Misuse("name a host: `loopty install` lists them")
    installations = [HostInstallation(HOSTS[name], os.environ) for name in dict.fromkeys(hosts)]
    rows = [(found, found.uninstall()) for found in installations]
    if as_json:
        print_json([{"host": found.host.name, "changed": [*map(str, paths)]} for found, paths in rows])
        return
    for found, paths in rows:
        say(f"{found.host.title}: {'removed' if paths else 'there was nothing to remove'}")
        for path in paths:
            say(f"  {path}")
