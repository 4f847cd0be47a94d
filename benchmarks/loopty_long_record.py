"""Lengthen a real record with copies of its first attempt, inside loopty's own environment.

Called as `python loopty_long_record.py chain|siblings COUNT` in a repository whose node 1.1 has been judged.
"""

import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.git.folders import GitFolders
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.fold import Event
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.workspaces.state_folder import StateFolder

_TEMPLATE = NodeId("1.1")
_NODES_PER_WRITE = 1000


def main(shape: str, count: int) -> None:
    recorder = Recorder(
        SqliteLedger(StateFolder.of(GitFolders.find(Path.cwd())).ledger.path_for_programs()), time.time
    )
    template = recorder.history[_TEMPLATE]
    more = {"chain": _chain, "siblings": _siblings}[shape](count - 1)
    while batch := list(itertools.islice(more, _NODES_PER_WRITE)):
        events = [event for node in batch for event in _events_of(node, template)]
        recorder.record(lambda _, events=events: events)  # type: ignore[misc]


def _chain(count: int) -> Iterator[NodeId]:
    node = _TEMPLATE
    for _ in range(count):
        node = node.child(1)
        yield node


def _siblings(count: int) -> Iterator[NodeId]:
    return (NodeId("1").child(number) for number in range(2, count + 2))


def _events_of(node: NodeId, template: Node) -> Sequence[Event]:
    """The events of a node that repeats the template's course."""
    assert template.outcome
    assert template.verdict
    # New parameters: loopty treats two nodes with the same experiment as one.
    params = dict.fromkeys(template.params, random.random())
    return (
        NodeAdded(
            node, template.pool, template.operator, template.summary, template.commit, template.tree, params
        ),
        TrialStarted(node, 1, template.pool, "bench"),
        TrialEnded(node, 1, template.outcome),
        NodeJudged(node, template.verdict, template.reason, template.against),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
