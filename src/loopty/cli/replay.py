"""`loopty replay`: measure a node or an artifact again."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from loopty.cli.optimize import UNSAFE
from loopty.cli.output import NodeArgument, beside, here, json_option, print_json, say
from loopty.domain.ids import NodeId
from loopty.record.cohorts import Cohorts

if TYPE_CHECKING:
    from loopty.campaign.replays import Record
    from loopty.domain.outcome import Outcome
    from loopty.views.reproduction import MetricComparison

_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{4,}\b")


class Replayable(click.ParamType[NodeId | Path]):
    """A node, or the path of an artifact; what looks like an id is one, so `./1` is a path."""

    name = "node or artifact"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NodeId | Path:
        text = str(value)
        is_id = text == "best" or re.fullmatch(r"[\d.…]+", text)
        is_path = "/" in text or text.endswith(".tar.gz") or Path(text).exists()
        return Path(text) if is_path and not is_id else NodeArgument().convert(value, param, ctx)


@click.command("replay")
@click.argument("what", type=Replayable(), metavar="NODE|ARTIFACT")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How often."
)
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Unpack an artifact here, to stay.")
@click.option("--trust", is_flag=True, help="Give an artifact's benchmark what it asks for of this machine.")
@json_option
@UNSAFE
def command(
    what: NodeId | Path, repeats: int, keep: Path | None, trust: bool, as_json: bool, unsafe: bool
) -> None:
    """Measure a node again from its commit, or an artifact from nothing, and compare with what was recorded.

    No proposer and no model is called. It is reproduced when every metric that counts is: when the medians now and
    then differ by no more than the tolerance or three times the noise of its run, or one of them lies within the
    spread of the other's samples, widened by its own width on both sides. Exits with 1 when it differs, and says
    in what: the score, the machine, the benchmark, its data; or when the benchmark's model cannot be had.
    """
    from loopty.campaign import replays
    from loopty.campaign.campaign import Campaign

    if isinstance(what, NodeId):
        same = _replayed(replays.of_node(Campaign.open(here()), what), repeats, as_json, unsafe)
    else:
        with replays.of_artifact(what, keep, trust) as record:
            same = _replayed(record, repeats, as_json, unsafe)
    sys.exit(0 if same else 1)


def _replayed(record: Record, repeats: int, as_json: bool, unsafe: bool) -> bool:
    from loopty.campaign import by_hand
    from loopty.domain.outcome import Ending
    from loopty.kit import codec
    from loopty.report.columns import short_id
    from loopty.views.reproduction import reproduction

    outcomes: list[Outcome] = []
    while len(outcomes) < repeats and all(outcome.is_finished for outcome in outcomes):
        outcomes.append(by_hand.replayed(record.campaign, record.campaign.history[record.node], unsafe))
    now = outcomes[-1]
    if now.ending is Ending.CANCELLED:
        raise click.Abort  # there is nothing to compare
    then = record.result(now)
    noise = Cohorts.of(record.campaign.history.runs[record.node.run]).noise.get(then.outcome.fingerprint, {})
    found = reproduction(then, outcomes, record.counting, noise)
    other_task, other_machine = record.other_task(), record.other_machine(now)
    same = found.is_same and not other_task
    if as_json:
        print_json(
            {
                "node": record.name,
                "same": same,
                "then": codec.plain(then.outcome),
                "now": codec.plain(now),
                "samples": [outcome.metrics for outcome in outcomes],
                "task": other_task,
                "machine": other_machine,
            }
        )
        return same
    beside(
        "",
        f"{short_id(record.name)} {'reproduced' if same else 'differs'}{found.failure and f': {found.failure}'}",
    )
    for line in (*other_task, *other_machine):
        beside("  ", _HASH.sub(r"\1", line))
    for metric in found.metrics:
        beside("  ", f"{metric.name}: {_compared(metric, noise.get(metric.name, 0.0))}")
    if now.is_finished and not found.is_same and repeats == 1:
        say("measured once; --repeats 5 says more")
    return same


def _compared(metric: MetricComparison, noise: float) -> str:
    from loopty.views.score_change import percent_of

    then, now = metric.then, metric.now
    percent = percent_of(median(now) - median(then), median(then), noise) if then and now else None
    return f"{_told(then)} then, {_told(now)} now" + (f" ({percent:+.2g} %)" if percent else "")


def _told(values: tuple[float, ...]) -> str:
    if not values:
        return "–"
    from loopty.report.figures import figure

    low, high, count = min(values), max(values), len(values)
    spread = (
        f" ({figure(low)} to {figure(high)} in {count})"
        if low < high
        else f" ({count} times)"
        if count > 1
        else ""
    )
    return f"{figure(median(values))}{spread}"
