"""`loopty stop`: end the session that drives a run."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import here, json_option, print_json, run_option, say


@declare.command("stop")
@declare.option("--why", default="", metavar="TEXT", help="The reason; it stays in the record.")
@run_option
@json_option
def command(why: str, run: int | None, as_json: bool) -> None:
    """Ask `loopty optimize` to cancel its trials and to end, wherever it runs; it does so within a second or two.

    Cancelled trials cost no attempt, and `loopty optimize` resumes the run. `loopty pause` lets trials end.
    """
    campaign = here()
    number = campaign.newest_run(run)
    campaign.stop(why, number)
    if as_json:
        print_json({"run": number, "stopping": True})
    else:
        say(f"run {number} ends now; `loopty optimize` resumes it")
