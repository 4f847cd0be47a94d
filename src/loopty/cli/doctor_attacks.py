"""`loopty doctor --attack` and `--attack-benchmark`: attack the sandbox or the benchmark, and say what held."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from loopty.cli.output import here, print_beside, print_json
from loopty.domain.errors import Misuse
from loopty.domain.task import SandboxSpec
from loopty.features.attacks.runner import AttackResult, AttackStanding, ignore_result, run_attacks
from loopty.kit import codec
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


HOLES = "holes"
"""The folder below .loopty with the candidates that found one."""


def attack_task(as_json: bool) -> bool:
    """Try the known tricks on this task's benchmark; whether none found a hole."""
    from loopty.features.setup.benchmark_tricks import Standing, TrickResult, attack_benchmark
    from loopty.features.setup.edited_tree import EditedTree

    context = here().context
    results: list[TrickResult] = []

    def take(result: TrickResult) -> None:
        results.append(result)
        if not as_json:
            print_beside(f"{result.standing:10}", f"{result.trick}: {result.detail}")
        if result.patch:
            name = f"{result.trick.replace(' ', '_')}.patch"
            context.state.work_folder.below(HOLES).file(name).write(result.patch.encode())
            if not as_json:
                print_beside("", f"mend: {result.mend} (the candidate: .loopty/{HOLES}/{name})")

    attack_benchmark(EditedTree(context, unsafe=False), context.task.objective, take)
    holes = sum(result.standing is Standing.HOLE for result in results)
    tried = sum(result.standing is not Standing.UNTRIED for result in results)
    if as_json:
        print_json([codec.plain(result) for result in results])
    else:
        print_beside("", f"{holes} of {tried} tricks found a hole")
    return not holes
