"""`loopty gate`: conditions that a node and its descendants must meet."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from loopty.cli.optimize import UNSAFE
from loopty.cli.output import NodeArgument, beside, here, history, json_option, newest_run, print_json, say
from loopty.domain.gate_spec import Gate, When
from loopty.domain.ids import NodeId
from loopty.record.node_gates import NodeGates

_UNMEASURED = "not measured yet"


@click.group("gate")
def command() -> None:
    """Add, list and check gates: what fails one is rejected, whatever its score.

    Gates of the whole task stand in loopty.toml under [[gates]]; those added here hold for a node and all that
    descends from it.
    """


@command.command("add")
@click.argument("node", type=NodeArgument())
@click.option("--name", required=True, help="What it is called in verdicts.")
@click.option("--command", "line", default="", metavar="LINE", help="Passes with exit code 0.")
@click.option("--after", is_flag=True, help="Run the command after the benchmark, not before it.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True)
@click.option("--metric", default="", help="A reported metric that must lie within bounds.")
@click.option("--minimum", type=float, help="The least that the metric may be.")
@click.option("--maximum", type=float, help="The most that the metric may be.")
@json_option
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
) -> None:
    """Add a gate to a node and all that descends from it.

    It holds for every node whose first trial starts from now on; verdicts that are there stay.
    """
    from loopty.campaign.campaign import Campaign
    from loopty.domain.errors import Misuse
    from loopty.engine import decisions
    from loopty.kit import codec

    gate = Gate(name, line, When.AFTER if after else When.BEFORE, timeout, metric, minimum, maximum)
    if fault := gate.fault():
        raise Misuse(f"the gate {fault}: --command LINE, or --metric NAME with --minimum or --maximum")
    campaign = Campaign.open(here())
    if any(gate.name == other.name for other in campaign.task.gates):
        raise Misuse(f"loopty.toml has a gate {name} already: give this one another name")
    campaign.recorder.record(lambda found: decisions.add_gate(found, node, gate))
    if as_json:
        print_json({"node": node, "gate": codec.plain(gate)})
    else:
        say(f"from now on {node} and what descends from it must pass {name}; try it: loopty gate check {node}")


@command.command("list")
@click.argument("node", type=NodeArgument(), required=False)
@json_option
def listed(node: NodeId | None, as_json: bool) -> None:
    """List the gates of the task and of nodes; with NODE those that this node must pass."""
    from loopty.kit import codec
    from loopty.taskfile.read import load
    from loopty.workspaces.repository import Repository

    found = history()
    run = found.runs[newest_run(found, node.run if node else None)]
    if node:
        node = found[node].id
    rows: list[tuple[str, Gate]] = [("task", gate) for gate in load(Repository.open(here()).top).gates]
    for where, gates in NodeGates.of(run).by_node.items():
        if node is None or node.is_within(where):
            rows += [(where, gate) for gate in gates]
    if as_json:
        print_json([{"at": where, **codec.plain(gate)} for where, gate in rows])
        return
    from loopty.report.columns import short_id

    if not rows:
        say("no gates: add one with `loopty gate add NODE`, or under [[gates]] in loopty.toml")
    for where, gate in rows:
        beside(f"{short_id(where)}  ", f"{gate.name}: {_said(gate)}")


@command.command("check")
@click.argument("node", type=NodeArgument())
@json_option
@UNSAFE
def check(node: NodeId, as_json: bool, unsafe: bool) -> None:
    """Run the gates of a node alone, and change no state. Exits with 1 when one fails.

    A bound on a metric is held against what the node gave; there is nothing to hold it against before its trial.
    """
    from loopty.campaign import by_hand
    from loopty.campaign.campaign import Campaign

    campaign = Campaign.open(here())
    passages = by_hand.gated(campaign, by_hand.as_it_is(campaign, campaign.history[node]), unsafe)
    gates = campaign.gates(node)
    said = {passage.gate.name: passage.refusal or "" for passage in passages}
    if as_json:
        print_json(
            [
                {"gate": gate.name, "ok": _passed(said, gate), "reason": said.get(gate.name, _UNMEASURED)}
                for gate in gates
            ]
        )
    else:
        for gate in gates:
            if gate.name not in said:
                beside(f"{'-':8}", f"{gate.name}: {_UNMEASURED}")
            else:
                beside(f"{'FAILED' if said[gate.name] else 'ok':8}", said[gate.name] or gate.name)
        if not gates:
            say(f"{node} has no gates")
    sys.exit(1 if any(said.values()) else 0)


def _passed(said: Mapping[str, str], gate: Gate) -> bool | None:
    return not said[gate.name] if gate.name in said else None


def _said(gate: Gate) -> str:
    if gate.metric:
        low = "" if gate.minimum is None else f"at least {gate.minimum:g}"
        high = "" if gate.maximum is None else f"at most {gate.maximum:g}"
        return f"{gate.metric} {' and '.join(filter(None, (low, high)))}"
    line = gate.command if isinstance(gate.command, str) else " ".join(gate.command)
    return f"{gate.when} the benchmark: {line}"
