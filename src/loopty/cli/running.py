"""`loopty pause`, `resume`, `stop`, `agent abort`: what holds or ends the work of a run."""

from __future__ import annotations

import click

from loopty.cli.output import echo, here, json_option, print_json, run_option, say, trust_option, unsafe_option
from loopty.cli.run import drive


@click.command("pause")
@click.option("--why", default="", metavar="TEXT", help="The reason; it stays in the record.")
@run_option
@json_option
def pause_verb(why: str, run: int | None, as_json: bool) -> None:
    """Stop starting trials; let running ones finish.

    The pause lasts until `loopty resume`, even if the session is killed and started again. Its time does not count
    against the time limit.
    """
    campaign = here()
    number = campaign.newest_run(run)
    campaign.pause(why, number)
    if as_json:
        print_json({"run": number, "paused": True})
    else:
        say(f"run {number} is paused: running trials will finish; continue with `loopty resume`")


@click.command("resume")
@run_option
@json_option
@trust_option
@unsafe_option
def resume_verb(run: int | None, as_json: bool, trust: bool, unsafe: bool) -> None:
    """Continue a run after a pause or Ctrl-C. If no session is running, this starts one, as `loopty run` does."""
    campaign = here()
    number = campaign.newest_run(run)
    has_session = campaign.resume(number)
    if not has_session and number == campaign.newest_run():
        drive(as_json=as_json, trust=trust, unsafe=unsafe)
    elif as_json:
        print_json({"run": number, "paused": False, "is_driven": has_session})
    else:
        say(
            f"run {number} continues" if has_session else f"run {number} is not paused any more; a newer one began"
        )


@click.command("stop")
@click.option("--why", default="", metavar="TEXT", help="The reason; it stays in the record.")
@run_option
@json_option
def stop_verb(why: str, run: int | None, as_json: bool) -> None:
    """Ask `loopty run` to cancel its trials and to end, wherever it runs; it does so within a second or two.

    Cancelled trials cost no attempt, and `loopty run` resumes the run. `loopty pause` lets trials end.
    """
    campaign = here()
    number = campaign.newest_run(run)
    campaign.stop(why, number)
    if as_json:
        print_json({"run": number, "stopping": True})
    else:
        say(f"run {number} ends now; `loopty run` resumes it")


@click.command("abort")
@click.argument("name", metavar="TICKET|NODE")
@click.option("--why", default="", metavar="TEXT", help="The reason.")
@json_option
def abort_verb(name: str, why: str, as_json: bool) -> None:
    """End a ticket of an agent, or the ticket of a node; a draft is given up.

    What runs for it is stopped. The node keeps its files and can be submitted again.
    """
    done = here().abort(name, why)
    if as_json:
        print_json({"done": done})
    else:
        echo(done)
