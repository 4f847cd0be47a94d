"""The attacks of `loopty doctor --attack`, told one by one and counted."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence

import click

from loopty.attacks.run import Result, Standing, run_attacks, untold
from loopty.cli.output import print_json
from loopty.core.errors import Misuse
from loopty.core.task import Sandboxing
from loopty.sandboxes.choice import chosen


def attacked(wanted: Sandboxing, as_json: bool) -> bool:
    """Try all attacks on the sandbox that trials would run in; whether it holds what it says it holds."""
    if sys.platform != "linux":
        raise Misuse("the attacks are written for Linux: run them where trials run")
    sandbox = chosen(wanted)
    results = asyncio.run(run_attacks(sandbox, tell=untold if as_json else _line))
    if as_json:
        print_json([_row(result) for result in results])
    else:
        click.echo(_count(sandbox.name, results))
    return not any(result.alarming for result in results)


def _line(result: Result) -> None:
    click.echo(f"{result.standing:16}{result.attack.name}: {result.detail}")


def _count(name: str, results: Sequence[Result]) -> str:
    tally = Counter(result.standing for result in results)
    tried = len(results) - tally[Standing.INAPPLICABLE]
    words = {
        Standing.BROKEN: "got through",
        Standing.GAP: "got through where the sandbox says that it does not protect",
        Standing.UNTRIED: "could not be tried",
        Standing.INAPPLICABLE: "do not apply here",
    }
    rest = "".join(f", {tally[standing]} {said}" for standing, said in words.items() if tally[standing])
    return f"{name}: {tally[Standing.HELD]} of {tried} attacks held{rest}"


def _row(result: Result) -> dict[str, object]:
    attack = result.attack
    return {
        "attack": attack.name,
        "threat": attack.threat,
        "protection": attack.protection,
        "standing": result.standing,
        "detail": result.detail,
        "seconds": round(result.seconds, 3),
    }
