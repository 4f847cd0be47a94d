"""Turn an item of a reply into edits that are worth a trial."""

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
    """Checks items against the node that they change."""

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

    def edits(self, ask: Ask, operator: Operator, parent: Node, item: code_replies.ReplyItem) -> Edits:
        """The item's edits of the parent's files. Raises ProposalFault with what is wrong with the item."""
        files = self._file_views.of(ask.history, parent)
        changes = code_replies.parse_changes(item, files.known, files.only_writable)
        origin = origin_of(ask.history, parent)

        def read(path: str) -> str | None:
            return self._texts.text(origin.commit(path), path) if path in files.known else None

        self._check_writable(parent, files, {change.path for change in changes}, read)
        edits = apply_changes(changes, read, frozenset() if operator is Operator.DRAFT else files.not_fully_shown)
        self._check_access(parent, edits)
        self._novelty.check(ask, parent, edits)
        return edits

    def _check_writable(
        self, parent: Node, files: FileView, paths: Iterable[str], read: Callable[[str], str | None]
    ) -> None:
        """Refuse files that may not be changed, before any other fault of them is reported."""
        self._check_access(parent, {path: read(path) or "" for path in paths if path not in files.writable})

    def _check_access(self, parent: Node, edits: Edits) -> None:
        if edits:
            proposal = Proposal("", parent.id, "", edits=edits)
            # Not in a thread: git answers through an open pipe, which is faster than starting a thread.
            if reason := self._refusal(parent, proposal):
                raise ProposalFault(Objection.FORBIDDEN, reason)
