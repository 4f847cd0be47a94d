"""Seeded random edits of the writable code: the control for every code search. Needs no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.proposal import Proposal
from loopty.engine.protocols import Ask, Selector
from loopty.kit.dataclass import dataclass
from loopty.kit.option import option

if TYPE_CHECKING:
    from loopty.proposers.services import Services


_PARENTS = (
    "Which node is changed next: `best`, `tournament` (the best of a few drawn at random) or `root` (always "
    'the baseline). A table sets options: `{ kind = "tournament", size = 8 }`.'
)


@dataclass(frozen=True, slots=True)
class MutateOptions:
    parents: str | Mapping[str, Any] = option(_PARENTS, "best")


@dataclass(frozen=True, slots=True)
class MutateControlOptions:
    """As a control it has no memory, unless the task says so: it is what a search is compared with."""

    parents: str | Mapping[str, Any] = option(_PARENTS, "root")


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

    async def propose(self, ask: Ask) -> Proposal | None:
        from loopty.proposers.mutation import mutate  # commands that only check the options do not load it

        selection = self._selector.select(ask)
        parent = selection.node
        paths = self._writable(parent.commit)
        for path in ask.rng.sample(paths, len(paths)):
            before = None if path in ask.busy else self._text(parent.commit, path)
            if before is None:
                continue
            try:
                mutation = mutate(before, path, ask.rng)
            except ValueError as error:
                raise Misuse(f"{path}, {error}: fix the markers") from None
            if mutation is not None:
                operator, summary = f"{self.name}:{mutation.operator}", f"{path}: {mutation.summary}"
                return Proposal(
                    operator, parent.id, summary, edits={path: mutation.text}, parent_reason=selection.reason
                )
        if ask.busy:
            return None
        raise Exhausted("mutate found nothing to change in the writable files: allow more under access.write")


def make_proposer(options: MutateOptions | MutateControlOptions, services: Services) -> MutateProposer:
    files = services.files
    return MutateProposer(services.make_selector(options.parents), files.writable_files, files.text)
