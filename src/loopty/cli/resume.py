"""`loopty resume`: end the pause of a run."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import here, json_option, print_json, run_option, say


@declare.command("resume")
@run_option
@json_option
def command(run: int | None, as_json: bool) -> None:
    """End the pause of a run. Where no process drives it any more, `loopty optimize` does."""
    campaign = here()
    number = campaign.newest_run(run)
    has_driver = campaign.resume(number)
    if as_json:
        print_json({"run": number, "paused": False, "is_driven": has_driver})
    else:
        say(f"run {number} goes on" if has_driver else f"run {number} may go on: start it with `loopty optimize`")
