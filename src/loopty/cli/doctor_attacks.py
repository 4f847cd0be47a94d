"""`loopty doctor --attack`: run the attacks on the sandbox, print each result, and count them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from loopty.cli.output import print_beside, print_json
from loopty.domain.errors import Misuse
from loopty.domain.task import SandboxSpec
from loopty.features.attacks.runner import AttackResult, AttackStanding, ignore_result, run_attacks
from loopty.sandboxes.choice import choose_sandbox

_FAILED = (AttackStanding.BROKEN, AttackStanding.GAP, AttackStanding.UNTRIED)
_NEXT = {
    AttackStanding.BROKEN: (
        "BROKEN: a hostile candidate could do this to your machine. Try another back end with `loopty doctor "
        "--attack --sandbox KIND`, name the one that holds as `kind` under [sandbox] in loopty.toml, and run "
        "nothing that you do not trust until then."
    ),
    AttackStanding.GAP: (
        "gap: nothing was promised here, and results name it as unenforced. If candidates may be hostile, add "
        "{protections} to `require` under [sandbox] in loopty.toml: then no trial starts without it."
    ),
    AttackStanding.UNTRIED: (
        "UNTRIED: the attack never began, which proves nothing. Try again when the machine is less busy; "
        "`loopty doctor` says what is missing here."
    ),
}


def attack_sandbox(spec: SandboxSpec, failed: bool, as_json: bool) -> bool:
    """Run all attacks on the sandbox that trials would run in; whether it keeps what it promises."""
    if sys.platform != "linux":
        raise Misuse("the attacks are written for Linux: run them where trials run")
    sandbox = choose_sandbox(spec)
    shown = _FAILED if failed else tuple(AttackStanding)

    def print_result(result: AttackResult) -> None:
        if result.standing in shown:
            print_beside(f"{result.standing:16}", f"{result.attack.name}: {result.detail}")

    results = asyncio.run(run_attacks(sandbox, on_result=ignore_result if as_json else print_result))
    if as_json:
        print_json([_row(result) for result in results if result.standing in shown])
    else:
        print_beside("", _count(sandbox.name, results))
        for words in _next_steps(results):
            print_beside("", words)
    return not any(result.is_alarming for result in results)


def _count(name: str, results: Sequence[AttackResult]) -> str:
    tally = Counter(result.standing for result in results)
    tried = len(results) - tally[AttackStanding.INAPPLICABLE]
    words = {
        AttackStanding.BROKEN: "got through",
        AttackStanding.GAP: "got through where the sandbox says that it does not protect",
        AttackStanding.UNTRIED: "could not be tried",
        AttackStanding.INAPPLICABLE: "do not apply here"
        if tally[AttackStanding.INAPPLICABLE] > 1
        else "does not apply here",
    }
    rest = "".join(f", {tally[standing]} {said}" for standing, said in words.items() if tally[standing])
    return f"{name}: {tally[AttackStanding.HELD]} of {tried} attacks held{rest}"


def _next_steps(results: Sequence[AttackResult]) -> Iterator[str]:
    """Tell what it means that something got through, and what to do."""
    for standing in _FAILED:
        if found := [result.attack for result in results if result.standing is standing]:
            named = dict.fromkeys(f"'{attack.protection}'" for attack in found if attack.protection)
            yield _NEXT[standing].format(protections=", ".join(named))


def _row(result: AttackResult) -> dict[str, object]:
    attack = result.attack
    return {
        "attack": attack.name,
        "threat": attack.threat,
        "protection": attack.protection,
        "standing": result.standing,
        "detail": result.detail,
        "seconds": round(result.seconds, 3),
    }
