"""`loopty export`: a node as an artifact."""

from __future__ import annotations

from pathlib import Path

import click

from loopty.cli.output import NodeArgument, here, json_option, print_json
from loopty.domain.ids import NodeId


@click.command("export")
@click.argument("node", type=NodeArgument())
@click.option("--to", type=click.Path(path_type=Path), help="Where to write it. Default: .git/loopty/artifacts.")
@click.option("--force", is_flag=True, help="Replace an artifact that is already there.")
@json_option
def command(node: NodeId, to: Path | None, force: bool, as_json: bool) -> None:
    """Pack a node as an artifact: a tarball if --to ends in .tar.gz, else a folder.

    The artifact holds the whole change as a patch, the parameters, the metrics with their samples, the machine,
    the digests of benchmark and data, the task file, and a git bundle of the baseline and the node, without your
    history. `loopty replay` measures it again on any machine. Exporting the same node twice gives the same bytes.
    """
    campaign = here()
    artifact = campaign.export(node, to, force)
    if as_json:
        handle = campaign.history.handle(node)
        print_json({"node": node, "handle": handle, "path": str(artifact.path), "digest": artifact.digest})
    else:
        click.echo(f"{artifact.path} holds {node}, digest {artifact.digest[:12]}")
