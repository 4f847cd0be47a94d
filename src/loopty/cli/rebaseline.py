"""`loopty rebaseline`: continue a run on another machine."""

from __future__ import annotations

import sys

from loopty.cli import declare
from loopty.cli.output import (
    here_with_trust,
    json_option,
    print_json,
    run_option,
    say,
    trust_option,
    unsafe_option,
)


@declare.command("rebaseline")
@run_option
@json_option
@trust_option
@unsafe_option
def command(run: int | None, as_json: bool, trust: bool, unsafe: bool) -> None:
    """Measure the baseline and the best node on this machine, so that the run can continue here.

    Results from different machines are never ranked together: from now on, nodes are compared with these
    measurements. Earlier results stay, as a separate cohort. If it is stopped, running it again continues.
    """
    moved = here_with_trust(trust).rebaseline(run, unsafe)
    if moved is None:
        say("stopped; `loopty rebaseline` continues from here")
        sys.exit(1)
    if as_json:
        print_json(
            {
                "run": moved.run,
                "fingerprint": moved.fingerprint,
                "machine": dict(moved.machine),
                "incumbent": moved.incumbent,
                "score": moved.score,
            }
        )
        return
    declare.echo(f"{moved.incumbent} {moved.score!r}")
    say(f"run {moved.run} continues here, with {moved.incumbent} as the node to beat: loopty optimize")
