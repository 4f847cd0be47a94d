"""`loopty gc`: remove the files of discarded nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from loopty.cli.output import here, json_option, print_json, say
from loopty.cli.time_span import TimeSpan

if TYPE_CHECKING:
    from loopty.campaign.garbage import Garbage

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Size(click.ParamType[int]):
    """A number of bytes, with a unit: 500M, 2G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", str(value), re.IGNORECASE)
        if not found:
            self.fail(f"{value!r} is no size: write 500M or 2G", param, ctx)
        return int(float(found[1]) * _SIZES[found[2].upper()])


@click.command("gc")
@click.option("--older-than", type=TimeSpan(), metavar="AGE", help="Only what is older than this: 12h, 14d, 8w.")
@click.option("--max-size", type=Size(), metavar="SIZE", help="The oldest first, until the rest fits: 500M, 2G.")
@click.option("--yes", is_flag=True, help="Remove it. Without this, it is only shown.")
@json_option
def command(older_than: float | None, max_size: int | None, yes: bool, as_json: bool) -> None:
    """Remove the files of discarded nodes: folders, logs and git objects; and old exports and build caches.

    Older than 14 days by default.

    What was measured stays in the record. Never removed: what the best node, kept or undecided nodes, drafts,
    your branches or a running process need. Branches that an earlier version made for nodes move to refs/loopty.
    """
    found = here().collect_garbage(older_than, max_size, remove=yes)
    if as_json:
        from loopty.kit import codec

        print_json({"removed": yes, "bytes": found.total_bytes, **codec.plain(found)})
        return
    for line in _lines(found, yes):
        click.echo(line)
    if found.is_empty and older_than is None and max_size is None:
        say("only what is older than 14 days counts: --older-than 12h looks at younger files, too")
    if not (yes or found.is_empty):
        say("nothing is removed yet: add --yes")


def _lines(found: Garbage, removed: bool) -> Iterator[str]:
    from loopty.report.figures import byte_size, plural

    if found.is_empty:
        yield "nothing to remove"
        return
    word = "removed" if removed else "would remove"
    yield f"{word} {byte_size(found.total_bytes)}"
    if found.nodes:
        yield f"  files of {plural(len(found.nodes), 'discarded node')}  {byte_size(found.node_bytes)}"
    if found.objects:
        yield f"  {plural(found.objects, 'git object')}  {byte_size(found.object_bytes)}"
    if found.exports:
        yield f"  {plural(len(found.exports), 'export')}  {byte_size(found.export_bytes)}"
    if found.caches:
        yield f"  {plural(len(found.caches), 'build cache')}  {byte_size(found.cache_bytes)}"
    if found.stored:
        yield f"  {plural(found.stored, 'content')} of the shared store"
    if found.branches:
        move = "moved" if removed else "would move"
        yield f"{move} {_branches(len(found.branches))} of nodes to refs/loopty"


def _branches(count: int) -> str:
    return "1 branch" if count == 1 else f"{count:,} branches"
