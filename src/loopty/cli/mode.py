"""`loopty mode`: how a coding agent is to work here."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import here, json_option, print_json
from loopty.domain.agent_mode import AgentMode, ModeSource
from loopty.domain.errors import Misuse


@declare.command("mode")
@declare.argument("mode", required=False, type=declare.kind_of_click("Choice", [mode.value for mode in AgentMode]))
@declare.argument("value", required=False, type=declare.kind_of_click("Choice", ["on", "off", "inherit"]))
@declare.option("--user", is_flag=True, help="Your default for all repositories, not only this one.")
@json_option
def command(mode: str | None, value: str | None, user: bool, as_json: bool) -> None:
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
            declare.echo(str(found))
