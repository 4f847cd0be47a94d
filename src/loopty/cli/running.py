"""`loopty pause`, `resume`, `stop`, `abort`: what holds or ends the work of a run."""

from __future__ import annotations

import click

from loopty.cli.output import echo, here, json_option, print_json, run_option, say


@click.command("pause")
@click.option("--why", default="", metavar="TEXT", help="The reason; it stays in the record.")
@run_option
@json_option
def pause_verb(why: str, run: int | None, as_json: bool) -> None:
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


@click.command("resume")
@run_option
@json_option
def resume_verb(run: int | None, as_json: bool) -> None:
    """End the pause of a run. Where no process drives it any more, `loopty run` does."""
    campaign = here()
    number = campaign.newest_run(run)
    has_driver = campaign.resume(number)
    if as_json:
        print_json({"run": number, "paused": False, "is_driven": has_driver})
    else:
        say(f"run {number} goes on" if has_driver else f"run {number} may go on: start it with `loopty run`")


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
