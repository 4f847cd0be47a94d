"""`loopty gate`: conditions that a node and its descendants must meet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from loopty.cli.output import (
    NodeArgument,
    here,
    here_with_trust,
    json_option,
    print_beside,
    print_json,
    print_verdict_change,
    say,
    trust_option,
    unsafe_option,
)
from loopty.domain.benchmark import Gate, When
from loopty.domain.ids import NodeId
from loopty.kit import codec

if TYPE_CHECKING:
    from loopty.evaluators.steps import GateResult

_UNMEASURED = "not measured yet"


@click.group("gate")
def gate_verb() -> None:
    """Add, list and check gates. A node that fails one is rejected, whatever its score.

    Gates of the whole task are in loopty.toml under [[gates]]; gates added here apply to one node and all its
    descendants.
    """


@gate_verb.command("add")
@click.argument("node", type=NodeArgument())
@click.option("--name", required=True, help="The gate's name in verdicts.")
@click.option("--command", "line", default="", metavar="LINE", help="A command that must exit with 0.")
@click.option("--after", is_flag=True, help="Run the command after the benchmark, not before it.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of the command.",
)
@click.option("--metric", default="", help="A reported metric that must lie within the bounds.")
@click.option("--minimum", type=float, help="Smallest allowed value of the metric.")
@click.option("--maximum", type=float, help="Largest allowed value of the metric.")
@json_option
@unsafe_option
def add(
    node: NodeId,
    name: str,
    line: str,
    after: bool,
    timeout: float,
    metric: str,
    minimum: float | None,
    maximum: float | None,
    as_json: bool,
    unsafe: bool,
) -> None:
    """Add a gate to a node and all its descendants.

    Nodes among them that are kept, or still being judged, must pass it now: those that fail are rejected, as by
    `loopty node reject`, but without their descendants. Trials that start from now on must pass it, too.
    """
    gate = Gate(
        name=name,
        command=line,
        when=When.AFTER if after else When.BEFORE,
        timeout_seconds=timeout,
        metric=metric,
        minimum=minimum,
        maximum=maximum,
    )
    campaign = here()
    change = campaign.add_gate(node, gate, unsafe)
    if as_json:
        print_json({"node": node, "gate": codec.plain(gate), **codec.plain(change)})
    else:
        if change.withdrawn:
            print_verdict_change(campaign, change, as_json)
        at = campaign.history.name(node)
        say(f"from now on {at} and its descendants must pass {name}; try it: loopty gate check {at}")


@gate_verb.command("list")
@click.argument("node", type=NodeArgument(), required=False)
@json_option
def list_gates(node: NodeId | None, as_json: bool) -> None:
    """List the gates of the task and of nodes.

    With NODE: only the gates that this node must pass.
    """
    campaign = here()
    rows = campaign.gates(node)
    if as_json:
        print_json([{"at": where, **codec.plain(gate)} for where, gate in rows])
        return
    if not rows:
        say("no gates: add one with `loopty gate add NODE`, or under [[gates]] in loopty.toml")
    for where, gate in rows:
        at = campaign.history.name(where) if where[0].isdigit() else where
        print_beside(f"{at}  ", f"{gate.name}: {_condition(gate)}")


@gate_verb.command("check")
@click.argument("node", type=NodeArgument())
@json_option
@trust_option
@unsafe_option
def check(node: NodeId, as_json: bool, trust: bool, unsafe: bool) -> None:
    """Run only the gates of a node, and change no state. Exits with 1 when one fails.

    A bound on a metric is compared with the node's result, so it is checked only after the node's trial.
    """
    campaign = here_with_trust(trust)
    results = campaign.check_gates(node, unsafe)
    if as_json:
        print_json([_as_json(gate, result) for gate, result in results.items()])
    else:
        for gate, result in results.items():
            if result is None:
                print_beside(f"{'-':8}", f"{gate.name}: {_UNMEASURED}")
            else:
                print_beside(f"{'FAILED' if result.refusal else 'ok':8}", result.refusal or gate.name)
        if not results:
            say(f"{campaign.history.name(node)} has no gates")
    sys.exit(1 if any(result and result.refusal for result in results.values()) else 0)


def _as_json(gate: Gate, result: GateResult | None) -> dict[str, object]:
    if result is None:
        return {"gate": gate.name, "ok": None, "reason": _UNMEASURED}
    return {"gate": gate.name, "ok": not result.refusal, "reason": result.refusal or ""}


def _condition(gate: Gate) -> str:
    if gate.metric:
        low = "" if gate.minimum is None else f"at least {gate.minimum:g}"
        high = "" if gate.maximum is None else f"at most {gate.maximum:g}"
        return f"{gate.metric} {' and '.join(filter(None, (low, high)))}"
    line = gate.command if isinstance(gate.command, str) else " ".join(gate.command)
    return f"{gate.when} the benchmark: {line}"
