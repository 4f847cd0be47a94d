"""`loopty draft new`, `try`, `run`, `merge`, `drop`: nodes made by hand, from the folder to their verdict."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from loopty.cli.output import (
    NodeArgument,
    echo,
    here,
    here_with_trust,
    json_option,
    print_explanation,
    print_integrity,
    print_json,
    say,
    trust_option,
    unsafe_option,
)
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId, handle_name
from loopty.domain.trial import Ending
from loopty.kit import codec
from loopty.show.terminal import printable_line
from loopty.taskfile.model_tables import idle_roles

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign


@click.command("new")
@click.option("--parent", type=NodeArgument(), help="The node to change. Default: the best node.")
@click.option("-m", "--message", default="by hand", show_default=True, help="The change, in words.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Set a parameter; repeatable.")
@click.option("--sparse", is_flag=True, help="Only the files that you may change: fast in a large repository.")
@json_option
def new_verb(parent: NodeId | None, message: str, params: tuple[str, ...], sparse: bool, as_json: bool) -> None:
    """Make a node by hand: a folder with its files to edit.

    Prints the node's name and the folder: a whole tree, read-only where no change is allowed, in which tests, a
    profiler and an editor work. Edit it, try it with `loopty draft try NODE -- COMMAND`, then run `loopty run NODE`, or
    give it up with `loopty draft drop NODE`.
    """
    text = message.encode(errors="surrogateescape").decode(errors="replace")  # a shell may pass any bytes
    draft = here().new(parent, text, dict(map(_name_and_value, params)), sparse)
    if as_json:
        workspace = {"workspace": str(draft.folder), "files": draft.files}
        print_json({"node": draft.node, "handle": draft.handle, **workspace})
        return
    count, name = len(draft.files), handle_name(draft.handle)
    echo(f"{name} {draft.folder}")
    say(f"{name} is a draft: edit {count} file{'s' * (count != 1)} there, then run: loopty run {name}")


def _name_and_value(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise Misuse(f"--param {pair}: write NAME=VALUE")
    return name, value


_STOPPED = 124
"""As `timeout` does."""


@click.command("try", context_settings={"ignore_unknown_options": True})
@click.argument("node", type=NodeArgument())
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop it then.")
@trust_option
@unsafe_option
def try_verb(node: NodeId, words: tuple[str, ...], timeout: float | None, trust: bool, unsafe: bool) -> None:
    """Run any command on the files of a node or draft, where its trial would run them, and record nothing.

    The output passes through. Exits as the command does, or with 124 when it reached a limit of the trials.
    Default of --timeout: the benchmark's own.
    """
    end = here_with_trust(trust).try_command(node, words, sys.stdout.write, sys.stderr.write, timeout, unsafe)
    if end.stopped:
        say(f"stopped: {end.stopped}")
    sys.exit(_STOPPED if end.stopped else end.code)


@click.command("run")
@click.argument("node", type=NodeArgument())
@click.option(
    "--check",
    is_flag=True,
    help="Only try the benchmark on the node, and change no state. For a baseline: on your files as they are now.",
)
@json_option
@trust_option
@unsafe_option
def run_verb(node: NodeId, check: bool, as_json: bool, trust: bool, unsafe: bool) -> None:
    """Run a node: commit its files, score them in the sandbox, keep or discard it.

    Exits with 1 when the trial gave no result.
    """
    campaign = here_with_trust(trust)
    if check:
        _check(campaign, node, as_json, unsafe)
        return
    judged = campaign.run(node, unsafe)
    if as_json:
        found = campaign.explanation(judged.id)
        print_json({**codec.plain(judged), **({"explanation": found.plain()} if found else {})})
    else:
        reason = printable_line(judged.reason) or "continue with `loopty run`"
        echo(f"{judged.name} {judged.verdict or 'stopped'}: {reason}")
        print_integrity(judged.outcome)
        print_explanation(campaign.explanation(judged.id))
    sys.exit(0 if judged.outcome and judged.outcome.is_finished else 1)


def _check(campaign: Campaign, node: NodeId, as_json: bool, unsafe: bool) -> None:
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
        echo(", ".join(f"{name} {value:g}" for name, value in outcome.metrics.items()))
    sys.exit(1 if problem else 0)


@click.command("merge")
@click.argument("first", type=NodeArgument())
@click.argument("second", type=NodeArgument())
@click.option("-m", "--message", default="", help="The change, in words. Default: merge FIRST and SECOND.")
@json_option
def merge_verb(first: NodeId, second: NodeId, message: str, as_json: bool) -> None:
    """Bring the changes of two nodes onto their common ancestor, as a draft to look at and run.

    It is a child of the better one. Files that both changed are merged line by line; conflicts are marked in them,
    and the draft runs only as you leave it.
    """
    text = message.encode(errors="surrogateescape").decode(errors="replace")  # a shell may pass any bytes
    merged = here().merge(first, second, text)
    draft = merged.draft
    if as_json:
        named = {"node": draft.node, "handle": draft.handle, "workspace": str(draft.folder)}
        parents = {"parents": [merged.parent, merged.other], "ancestor": merged.ancestor}
        print_json({**named, **parents, "conflicts": list(merged.conflicts)})
        return
    name = handle_name(draft.handle)
    echo(f"{name} {draft.folder}")
    for conflict in merged.conflicts:
        say(f"conflict: {conflict}")
    say(f"{'resolve them' if merged.conflicts else 'look at it'}, then run: loopty run {name}")


@click.command("drop")
@click.argument("node", type=NodeArgument())
@json_option
def drop_verb(node: NodeId, as_json: bool) -> None:
    """Give up a draft: its folder is removed, and it never runs. Its id stays in the tree."""
    campaign = here()
    campaign.drop(node)
    handle = campaign.history.handle(node)
    if as_json:
        print_json({"node": node, "handle": handle, "dropped": True})
        return
    echo(f"dropped {campaign.history.name(node)}")
