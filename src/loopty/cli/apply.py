"""`loopty apply`: the winner on the user's own branch."""

from __future__ import annotations

import click

from loopty.cli.output import NodeArgument, best_node, here, json_option, print_json, say
from loopty.domain.ids import NodeId
from loopty.record.history import History
from loopty.record.node_record import Node


@click.command("apply")
@click.argument("node", type=NodeArgument(), required=False)
@click.option("--branch", metavar="NAME", help="The branch to make. Default: loopty-best-ID.")
@click.option("--patch", is_flag=True, help="Apply the change to your working tree instead.")
@click.option("--force", is_flag=True, help="Move the branch when there is one of that name.")
@json_option
def command(node: NodeId | None, branch: str | None, patch: bool, force: bool, as_json: bool) -> None:
    """Bring a node's change to your own branch: as a new branch, or as a patch to your working tree.

    The branch holds the whole change against the run's baseline as one commit on top of your HEAD; where HEAD
    has other versions of the changed files, on top of the baseline. Your working tree, index and HEAD stay as
    they are; only --patch writes to the working tree, and only if all of it applies.
    """
    from loopty.campaign.saved_state import found_state, read_history
    from loopty.domain.errors import Misuse
    from loopty.workspaces.git_session import GitError
    from loopty.workspaces.repository import Repository

    history = read_history(here())
    node = node or best_node()
    found = history[node]
    root = history[history.runs[node.run].root]
    repository = Repository.open(found_state(here()).top)
    if found.draft:
        raise Misuse(f"node {node} is a draft: `loopty run {node}` first")
    if found.verdict is None or not found.outcome or not found.outcome.is_finished:
        say(f"warning: node {node} never gave a result")
    if found.params != root.params:
        say(f"its parameters are not part of the code: {dict(found.params)}")
    if found.commit == root.commit:
        raise Misuse(f"node {node} changes no file; its parameters are in `loopty show {node}`")
    if patch:
        text = repository.patch(root.commit, found.commit)
        try:
            repository.apply(text, dry_run=True)
            repository.apply(text)
        except GitError as error:
            raise Misuse(
                f"the change does not apply to your working tree ({error.message.splitlines()[0]}): "
                f"`loopty apply {node}` makes a branch instead"
            ) from None
        _told(as_json, {"node": node, "applied": "working tree"}, f"{node} applied to the working tree")
        return
    name = branch or f"loopty-best-{node.name}"
    if repository.tip(name) and not force:
        raise Misuse(f"there is a branch {name}: name another with --branch, or move it with --force")
    commit, onto = repository.transplant(root.commit, found.commit, _message(history, found, root))
    try:
        repository.make_branch(name, commit, move=force)
    except Misuse as error:
        raise Misuse(f"{error}; name another with --branch") from None
    _told(as_json, {"node": node, "branch": name, "commit": commit}, f"branch {name} holds {node}")
    if not as_json:
        say(f"look: git diff {onto[:12]} {name}   take: git merge {name}")


def _message(history: History, found: Node, root: Node) -> str:
    """A title that says what was won."""
    metrics = history.metrics(found)
    was, now = history.score(root), history.score(found)
    won = (
        f"{metrics[0].name} from {was:g} to {now:g}"
        if metrics and was is not None and now is not None
        else "files"
    )
    return f"Improve {won}\n\nFrom loopty node {found.id}; last step: {found.summary}\n"


def _told(as_json: bool, data: dict[str, str], text: str) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo(text)
