"""From an item of a reply to edits that are worth a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loopty.domain.proposal import Edits, Objection, Proposal
from loopty.engine.protocols import Ask
from loopty.proposers.code import code_replies
from loopty.proposers.code.code_options import Operator
from loopty.proposers.code.new_files import apply_changes
from loopty.proposers.code.node_texts import TextCache, origin_of
from loopty.proposers.code.novelty import Novelty
from loopty.proposers.code.reply_faults import ProposalFault
from loopty.proposers.code.source_files import FileView, FileViews
from loopty.record.node_record import Node


class ProposalChecks:
    """Reads items against the node that they were asked for."""

    def __init__(
        self,
        file_views: FileViews,
        texts: TextCache,
        refusal: Callable[[Node, Proposal], str | None],
        novelty: Novelty,
    ) -> None:
        self._file_views = file_views
        self._texts = texts
        self._refusal = refusal
        self._novelty = novelty

    async def edits(self, ask: Ask, operator: Operator, parent: Node, item: code_replies.ReplyItem) -> Edits:
        """What the item makes of the parent's files; raises Unfit with what is wrong with it."""
        shelf = self._file_views.of(ask.history, parent)
        changes = code_replies.parse_changes(item, shelf.known, shelf.only_writable)
        whence = origin_of(ask.history, parent)

        def read(path: str) -> str | None:
            return self._texts.text(whence.commit(path), path) if path in shelf.known else None

        self._check_writable(parent, shelf, {change.path for change in changes}, read)
        edits = apply_changes(changes, read, frozenset() if operator is Operator.DRAFT else shelf.not_fully_shown)
        self._check_access(parent, edits)
        await self._novelty.check(ask, parent, edits)
        return edits

    def _check_writable(
        self, parent: Node, files: FileView, paths: Iterable[str], read: Callable[[str], str | None]
    ) -> None:
        """Before anything else is said of a file that may not be changed: it may not be changed."""
        self._check_access(parent, {path: read(path) or "" for path in paths if path not in files.writable})

    def _check_access(self, parent: Node, edits: Edits) -> None:
        if edits:
            proposal = Proposal("", parent.id, "", edits=edits)
            # Not in a thread: git is asked through an open pipe, which is faster than the way there.
            if reason := self._refusal(parent, proposal):
                raise ProposalFault(Objection.FORBIDDEN, reason)
