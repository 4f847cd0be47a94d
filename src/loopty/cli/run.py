"""`loopty run`: the trials of a node made by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from loopty.cli import declare
from loopty.cli.output import (
    NodeArgument,
    here_with_trust,
    json_option,
    print_explanation,
    print_integrity,
    print_json,
    say,
    trust_option,
    unsafe_option,
)
from loopty.domain.ids import NodeId

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign


@declare.command("run")
@declare.argument("node", type=NodeArgument())
@declare.option(
    "--check",
    is_flag=True,
    help="Only try the benchmark on the node, and change no state. For a baseline: on your files as they are now.",
)
@json_option
@trust_option
@unsafe_option
def command(node: NodeId, check: bool, as_json: bool, trust: bool, unsafe: bool) -> None:
    """Run a node: commit its files, score them in the sandbox, keep or discard it.

    Exits with 1 when the trial gave no result.
    """
    campaign = here_with_trust(trust)
    if check:
        _check(campaign, node, as_json, unsafe)
        return
    judged = campaign.run(node, unsafe)
    if as_json:
        from loopty.kit import codec

        found = campaign.explanation(judged.id)
        print_json({**codec.plain(judged), **({"explanation": found.plain()} if found else {})})
    else:
        from loopty.report.columns import printable_line

        reason = printable_line(judged.reason) or "continue with `loopty run`"
        declare.echo(f"{judged.name} {judged.verdict or 'stopped'}: {reason}")
        print_integrity(judged.outcome)
        print_explanation(campaign.explanation(judged.id))
    sys.exit(0 if judged.outcome and judged.outcome.is_finished else 1)


def _check(campaign: Campaign, node: NodeId, as_json: bool, unsafe: bool) -> None:
    from loopty.domain.outcome import Ending
    from loopty.kit import codec
    from loopty.taskfile.unused_roles import idle_roles

    for warning in idle_roles(campaign.context.task).values():
        say(warning)
    result = campaign.check(node, unsafe)
    outcome, problem = result.outcome, result.problem
    if as_json:
        more = {"explanation": result.explanation.plain()} if result.explanation else {}
        print_json({"node": node, "ok": problem is None, "reason": problem or "", **codec.plain(outcome), **more})
    elif problem:
        say(f"check failed: {problem}")
        print_explanation(result.explanation)
        if outcome.ending is Ending.CANCELLED:
            say(f"try again: loopty run {campaign.history.name(node)} --check")
    else:
        say(f"check passed in {outcome.seconds:.2f} s")
        declare.echo(", ".join(f"{name} {value:g}" for name, value in outcome.metrics.items()))
    sys.exit(1 if problem else 0)
