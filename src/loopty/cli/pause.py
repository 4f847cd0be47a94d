"""`loopty pause`: let nothing new start in a run."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import here, json_option, print_json, run_option, say


@declare.command("pause")
@declare.option("--why", default="", metavar="TEXT", help="The reason; it stays in the record.")
@run_option
@json_option
def command(why: str, run: int | None, as_json: bool) -> None:
    """Let nothing new start in a run, from its next second on. Running trials go on to their end.

    The pause stays until `loopty resume`, also when the process that drives the run is killed and started again.
    Its time does not count against the time limit.
    """
    campaign = here()
    number = campaign.newest_run(run)
    campaign.pause(why, number)
    if as_json:
        print_json({"run": number, "paused": True})
    else:
        say(f"run {number} is paused: running trials go on to their end; `loopty resume` goes on")
