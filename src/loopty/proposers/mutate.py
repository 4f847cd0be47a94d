"""Changes to code without a model: seeded random edits, the control for every code search, and past versions one
after the other.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.proposal import Edits, Proposal
from loopty.engine.protocols import Ask, Selector
from loopty.kit.records import Record, replace
from loopty.kit.tables import Table, option
from loopty.proposers.shared_pool import PARENTS
from loopty.record.node_record import Node

if TYPE_CHECKING:
    from loopty.proposers.services import Services


class MutateOptions(Table):
    parents: str | Mapping[str, Any] = option(PARENTS, "best")


class MutateControlOptions(Table):
    """As a control it has no memory, unless the task says so: it is what a search is compared with."""

    parents: str | Mapping[str, Any] = option(PARENTS, "root")


class MutateProposer:
    """Changes one writable file of the selected node."""

    name = "mutate"

    def __init__(
        self,
        selector: Selector,
        writable: Callable[[str], Sequence[str]],
        text: Callable[[str, str], str | None],
    ) -> None:
        self._selector = selector
        self._writable = writable
        self._text = text

    async def propose(self, ask: Ask) -> Proposal:
        selection = self._selector.select(ask)
        proposal = mutate_node(selection.node, ask.rng, self._writable, self._text)
        if proposal is None:
            raise Exhausted("mutate found nothing to change in the writable files: allow more under access.write")
        return replace(proposal, parent_reason=selection.reason)


def mutate_node(
    parent: Node,
    rng: random.Random,
    writable: Callable[[str], Sequence[str]],
    text: Callable[[str, str], str | None],
) -> Proposal | None:
    """Make a random edit of a writable file of the node; None if nothing can change."""
    from loopty.proposers.mutation import mutate  # commands that only check the options do not load it

    paths = writable(parent.commit)
    for path in rng.sample(paths, len(paths)):
        before = text(parent.commit, path)
        if before is None:
            continue
        try:
            mutation = mutate(before, path, rng)
        except ValueError as error:
            raise Misuse(f"{path}, {error}: fix the markers") from None
        if mutation is not None:
            summary = f"{path}: {mutation.summary}"
            return Proposal(mutation_name(mutation.operator), parent.id, summary, edits={path: mutation.text})
    return None


def mutation_name(kind: str) -> str:
    """Return the operator of a mutation: its kind is a tag."""
    return f"mutate:{kind}"


def make_proposer(options: MutateOptions | MutateControlOptions, services: Services) -> MutateProposer:
    files = services.files
    return MutateProposer(services.make_selector(options.parents), files.writable_files, files.text)


OPERATOR = "version"


class PastVersion(Record):
    """The files of a past version, as a change of the baseline."""

    summary: str
    """Its name and its commit: a name that moves is another version."""
    edits: Edits


class VersionsProposer:
    """Proposes each version once: what is refused, because a node has the same files, is not proposed again."""

    name = "versions"

    def __init__(self, versions: Iterable[PastVersion]) -> None:
        self._left = deque(versions)

    async def propose(self, ask: Ask) -> Proposal:
        if not self._left:
            raise Exhausted("all past versions are measured")
        version = self._left.popleft()
        reason = "a past version stands beside the baseline"
        return Proposal(OPERATOR, ask.root.id, version.summary, edits=version.edits, parent_reason=reason)
