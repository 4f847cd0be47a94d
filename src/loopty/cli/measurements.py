"""`loopty measure replay`, `audit`, `rebaseline`, `ab`: measure again, on held-out data, elsewhere, as arms."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from loopty.campaign.campaign import Campaign
from loopty.cli.output import (
    NO_SANDBOX,
    NodeArgument,
    columns,
    echo,
    here,
    here_with_trust,
    json_option,
    print_beside,
    print_json,
    run_option,
    say,
    terminal,
    trust_option,
    unsafe_option,
)
from loopty.domain.ids import NodeId
from loopty.kit import codec
from loopty.kit.records import as_dict
from loopty.show.arms import arms_text
from loopty.show.audits import audits_text
from loopty.show.comparisons import percent_of
from loopty.show.figures import figure, node_name, signed_percent

if TYPE_CHECKING:
    from loopty.features.sharing.artifacts import Replay
    from loopty.show.reproduction import MetricComparison


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
def replay_verb(
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
        from loopty.features.sharing.artifacts import replay_artifact

        replay = replay_artifact(what, keep, trust, repeats, unsafe, say)
    if replay.was_cancelled:
        raise click.Abort  # there is nothing to compare
    if as_json:
        _print_as_json(replay, handle)
    else:
        _print_as_text(replay, handle)
    sys.exit(0 if replay.is_same else 1)


def _print_as_json(replay: Replay, handle: int) -> None:
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
    then, now = metric.then, metric.now
    percent = percent_of(median(now) - median(then), median(then), noise) if then and now else None
    change = f" ({signed_percent(percent)})" if percent else ""
    return f"{_values_text(then)} then, {_values_text(now)} now{change}"


def _values_text(values: tuple[float, ...]) -> str:
    if not values:
        return "–"

    low, high, count = min(values), max(values), len(values)
    if low < high:
        return f"{figure(median(values))} ({figure(low)} to {figure(high)} in {count})"
    return figure(low) + (f" ({count} times)" if count > 1 else "")


@click.command("audit")
@click.argument("nodes", type=NodeArgument(), nargs=-1)
@click.option("--list", "only_list", is_flag=True, help="List past audits without running one.")
@run_option
@json_option
@trust_option
@unsafe_option
def audit_verb(
    nodes: tuple[NodeId, ...], only_list: bool, run: int | None, as_json: bool, trust: bool, unsafe: bool
) -> None:
    """Score nodes on the held-out split of [audit], which the search never sees. Default: the best node.

    If the baseline has no score on the split yet, it is scored first. Every look at the split is counted. Exits
    with 1 when a node gives no score or is flagged, for example for overfitting.
    """
    campaign = here() if only_list else here_with_trust(trust)
    if only_list:
        rows, raises_doubt = campaign.audits(nodes[0].run if nodes else run), False
    else:
        if unsafe:
            say(NO_SANDBOX)
        report = campaign.audit(nodes, run, unsafe)
        rows, raises_doubt = report.rows, report.raises_doubt
    if as_json:
        print_json([{**codec.plain(row), "gap": row.gap, "flags": codec.plain(row.flags)} for row in rows])
    else:
        echo(audits_text(rows, columns(), terminal()))
    sys.exit(1 if raises_doubt else 0)


@click.command("rebaseline")
@run_option
@json_option
@trust_option
@unsafe_option
def rebaseline_verb(run: int | None, as_json: bool, trust: bool, unsafe: bool) -> None:
    """Measure the baseline and the best node on this machine, so that the run can continue here.

    Results from different machines are never ranked together: from now on, nodes are compared with these
    measurements. Earlier results stay, as a separate cohort. If it is stopped, running it again continues.
    """
    moved = here_with_trust(trust).rebaseline(run, unsafe)
    if moved is None:
        say("stopped; `loopty measure rebaseline` continues from here")
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
    echo(f"{moved.incumbent} {moved.score!r}")
    say(f"run {moved.run} continues here, with {moved.incumbent} as the node to beat: loopty run")


@click.command("ab")
@click.option(
    "--arm",
    "arms",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="FILE",
    help="A TOML file that is laid over loopty.toml; give two or more, the first is the one to beat.",
)
@click.option(
    "--task",
    "tasks",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A repository with a loopty.toml; several may be given. Default: this one.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Searches of each arm on each task.",
)
@click.option(
    "--budget",
    default="40 attempts",
    show_default=True,
    metavar="AMOUNT",
    help="For each search: `40 attempts`, `600 seconds`, `200k tokens` or `2.50 usd`.",
)
@click.option("--show", "only_show", is_flag=True, help="Show how far it has come, and run nothing.")
@trust_option
@unsafe_option
@json_option
def ab_verb(
    arms: tuple[Path, ...],
    tasks: tuple[Path, ...],
    seeds: int,
    budget: str,
    only_show: bool,
    trust: bool,
    unsafe: bool,
    as_json: bool,
) -> None:
    """Compare task files as arms: the same repositories, seeds and budget, in turns.

    Each search has its own copy of the repository, as it was committed last. Differences are paired by task and
    seed. Ctrl-C stops it; the same command goes on, also with more seeds.
    """
    from loopty.campaign.arms import parse_budget

    runs = Campaign().ab(arms, seeds, parse_budget(budget), tasks)
    if not only_show:
        runs.run(say, trust, unsafe)
    found = runs.report()
    if as_json:
        print_json(as_dict(found))
        return

    state = "" if found.is_complete else ", not complete"
    head = f"{found.searches} searches of {found.budget.amount:g} {found.budget.unit} each{state}"
    click.echo(arms_text(head, found.rows, columns(), terminal()))
