"""`loopty trust`: allow what a task file asks for beyond the default."""

from __future__ import annotations

import sys

from loopty.cli import declare
from loopty.cli.output import confirm_requests, here, json_option, print_json, say
from loopty.domain.errors import Misuse


@declare.command("trust")
@declare.option("--yes", is_flag=True, help="Allow it without a question.")
@declare.option("--list", "only_list", is_flag=True, help="List what you have allowed, in all repositories.")
@declare.option("--revoke", is_flag=True, help="Forget what you have allowed in this repository.")
@json_option
def command(yes: bool, only_list: bool, revoke: bool, as_json: bool) -> None:
    """Show what this task asks for beyond the default, and allow it.

    A task file may come from anybody. If it asks for the network, for files outside the repository, for a sandbox
    that protects less, for a container image, for GPUs, for another package's proposer or for a model, nothing of
    it runs until you allow that, here or with --trust. The same goes for filters and for the server of a partial
    clone in the repository's own git configuration (.git/config). Your yes is saved in your own state
    ($XDG_STATE_HOME/loopty/trusted) for this repository and these requests: a further request asks again, other
    edits do not.

    Exits with 1 when what the task asks for is not allowed.
    """
    if yes + only_list + revoke > 1:
        raise Misuse("--yes, --list and --revoke exclude each other: use one at a time")
    if only_list:
        _list(as_json)
    elif revoke:
        _revoke(as_json)
    else:
        _allow(yes, as_json)


def _allow(yes: bool, as_json: bool) -> None:
    campaign = here()
    requests, is_trusted = campaign.requests(), campaign.is_trusted()
    if not is_trusted and (yes or (not as_json and confirm_requests(requests))):
        campaign.trust()
        is_trusted = True
    if as_json:
        rows = [{"key": request.key, "asks_for": request.words} for request in requests]
        print_json({"trusted": is_trusted, "requests": rows})
    elif not requests:
        say("this task asks for nothing beyond the default: there is nothing to allow")
    elif is_trusted:
        declare.echo("\n".join(f"allowed: {request}" for request in requests))
    else:
        declare.echo("\n".join(f"not allowed: {request}" for request in requests))
        say("if it may have that: loopty trust --yes")
    sys.exit(0 if is_trusted else 1)


def _list(as_json: bool) -> None:
    from loopty.campaign.task_trust import permissions
    from loopty.report.figures import moment

    found = permissions()
    if as_json:
        rows = [
            {"repository": one.top, "at": one.at, "requests": [str(request) for request in one.requests]}
            for one in found
        ]
        print_json(rows)
        return
    if not found:
        say("nothing is allowed beyond the default, in any repository")
    for permission in found:
        declare.echo(f"{permission.top}, {moment(permission.at)}")
        for request in permission.requests:
            declare.echo(f"  {request}")


def _revoke(as_json: bool) -> None:
    count = here().revoke_trust()
    if as_json:
        print_json({"revoked": count})
    else:
        say("revoked: nothing is allowed here any more" if count else "nothing was allowed here")
