"""`loopty replay`: measure a node or an artifact again."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from loopty.cli.output import (
    NodeArgument,
    here_with_trust,
    json_option,
    print_beside,
    print_json,
    say,
    unsafe_option,
)
from loopty.domain.ids import NodeId

if TYPE_CHECKING:
    from loopty.campaign.replays import Replay
    from loopty.views.reproduction import MetricComparison

_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{4,}\b")


class NodeOrArtifact(click.ParamType[NodeId | Path]):
    """A node, or the path of an artifact. What looks like an id is one, so `./1` is a path."""

    name = "node or artifact"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NodeId | Path:  # noqa: ARG002
        text = str(value)
        is_id = text == "best" or re.fullmatch(r"[#@]?[\d.]+", text)
        is_path = "/" in text or text.endswith(".tar.gz") or Path(text).exists()
        return Path(text) if is_path and not is_id else NodeArgument()(text)


@click.command("replay")
@click.argument("what", type=NodeOrArtifact(), metavar="NODE|ARTIFACT")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of measurements.",
)
@click.option(
    "--keep", type=click.Path(path_type=Path), metavar="DIR", help="Unpack the artifact here, and keep it."
)
@click.option(
    "--trust",
    is_flag=True,
    help="Allow what the task, or this artifact, asks for beyond the default: the network, your files, ….",
)
@json_option
@unsafe_option
def command(
    what: NodeId | Path, repeats: int, keep: Path | None, trust: bool, as_json: bool, unsafe: bool
) -> None:
    """Measure a node again from its commit, or an artifact in a new repository, and compare with the record.

    No proposer is called, and no model unless the benchmark or a judged metric needs one.

    A metric is reproduced when the old and the new median differ by at most its tolerance or three times the
    noise, or when one median lies within the spread of the other's samples, widened by its own width on both
    sides. The result is reproduced when every metric of the objective is, and with it the claim of strong
    integrity where the record has one.

    Exits with 1 when the result differs, and says in what (score, integrity, machine, benchmark, data), or when a
    model is unavailable.
    """
    handle = 0  # an artifact's node may be of any ledger
    if isinstance(what, NodeId):
        campaign = here_with_trust(trust)
        replay, handle = campaign.replay(what, repeats, unsafe), campaign.history.handle(what)
    else:
        from loopty.campaign.replays import replay_artifact

        replay = replay_artifact(what, keep, trust, repeats, unsafe, say)
    if replay.was_cancelled:
        raise click.Abort  # there is nothing to compare
    if as_json:
        _print_as_json(replay, handle)
    else:
        _print_as_text(replay, handle)
    sys.exit(0 if replay.is_same else 1)


def _print_as_json(replay: Replay, handle: int) -> None:
    from loopty.kit import codec

    print_json(
        {
            "node": replay.node,
            **({"handle": handle} if handle else {}),
            "same": replay.is_same,
            "then": codec.plain(replay.then.outcome),
            "now": codec.plain(replay.now),
            "samples": [outcome.metrics for outcome in replay.outcomes],
            "task": replay.task_differences,
            "machine": replay.machine_differences,
        }
    )


def _print_as_text(replay: Replay, handle: int) -> None:
    from loopty.report.node_name import node_name

    found = replay.reproduction
    failure = f": {found.failure}" if found.failure else ""
    print_beside("", f"{node_name(replay.node, handle)} {'reproduced' if replay.is_same else 'differs'}{failure}")
    for line in (*replay.task_differences, *replay.machine_differences):
        print_beside("  ", _HASH.sub(r"\1", line))
    if found.lost_integrity:
        print_beside("  ", "integrity: strong then, weak now")
    for metric in found.metrics:
        print_beside("  ", f"{metric.name}: {_comparison(metric, replay.noise.get(metric.name, 0.0))}")
    if replay.now.is_finished and not found.is_same and len(replay.outcomes) == 1:
        say("measured once; --repeats 5 tells more")


def _comparison(metric: MetricComparison, noise: float) -> str:
    from loopty.report.figures import signed_percent
    from loopty.views.score_change import percent_of

    then, now = metric.then, metric.now
    percent = percent_of(median(now) - median(then), median(then), noise) if then and now else None
    change = f" ({signed_percent(percent)})" if percent else ""
    return f"{_values_text(then)} then, {_values_text(now)} now{change}"


def _values_text(values: tuple[float, ...]) -> str:
    if not values:
        return "–"
    from loopty.report.figures import figure

    low, high, count = min(values), max(values), len(values)
    if low < high:
        return f"{figure(median(values))} ({figure(low)} to {figure(high)} in {count})"
    return figure(low) + (f" ({count} times)" if count > 1 else "")
