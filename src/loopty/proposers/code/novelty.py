"""Whether a change was tried before, or all but: told before anything is paid for a trial."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.proposal import Edits, Objection
from loopty.engine.protocols import Ask
from loopty.kit import codec
from loopty.proposers.code.ngrams import Embed, ngram_vectors
from loopty.proposers.code.node_texts import Origin, TextCache, origin_of
from loopty.proposers.code.normal_form import normalise
from loopty.proposers.code.reply_faults import ProposalFault
from loopty.proposers.code.similarity import Similarity
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_NODES_READ = 128
"""Nodes that a process which resumes a run reads; those that are added later are all known."""
_MAX_SIBLINGS = 64
_MAX_CACHED = 512
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*")

ContentKey = tuple[str, str, frozenset[tuple[str, str]]]
"""A node's files, but for what makes no difference: what they are a change of, its parameters, what differs."""


@dataclass(frozen=True, slots=True)
class _LineChange:
    """The lines that go and those that come, file by file, and the numbers in them."""

    removed: str
    added: str
    numbers: Counter[str]


class Novelty:
    """Remembers what the nodes of each pool are, each read once."""

    def __init__(self, texts: TextCache, embed: Embed | None, max_similarity: float) -> None:
        self._texts = texts
        self._similarities = [Similarity(source) for source in (embed, ngram_vectors) if source]
        """The better first; n-grams can always be had."""
        self._max_similarity = max_similarity
        self._digests: dict[tuple[str, str], str] = {}
        self._node_by_key: dict[tuple[int, Pool, ContentKey], NodeId] = {}
        self._nodes_seen: dict[tuple[int, Pool], int] = {}
        self._changes: dict[NodeId, _LineChange] = {}

    async def check(self, ask: Ask, parent: Node, edits: Edits) -> None:
        """Raises Unfit when the parent with these edits is a node that is there already, or resembles one."""
        texts = {path: text if isinstance(text, str) else "" for path, text in edits.items()}
        self._add_new_nodes(ask)
        whence = origin_of(ask.history, parent)
        digests = {path: _digest(text, path) if edits[path] is not None else "" for path, text in texts.items()}
        key = self._key(whence, parent, {**self._digests_of(whence), **digests})
        if key == self._key(whence, parent, self._digests_of(whence)):
            raise _duplicate(f"only comments or white space of {parent.id.name} would change")
        if twin := self._node_by_key.get((ask.run, ask.pool, key)):
            raise _duplicate(f"but for comments and white space it is the same as {twin.name}")
        if self._max_similarity < 1:
            await self._compare(ask.history, ask.pool, parent, self._change(whence, texts))

    async def _compare(self, history: History, pool: Pool, parent: Node, change: _LineChange) -> None:
        """With the other changes of the same parent. What failed may be tried again with a small difference."""
        alike = {
            node.id: (other.removed, other.added)
            for node in _siblings(history, parent, pool)
            # Another number is another experiment, however alike the texts are.
            if (other := self._change_of(history, node)).numbers == change.numbers
        }
        if not alike:
            return
        for likeness in self._similarities:
            if closest := await likeness.closest((change.removed, change.added), alike):
                if closest.similarity > self._max_similarity:
                    said = f"it is all but the same as {closest.node.name} (similarity {closest.similarity:.3f})"
                    raise _duplicate(said)
                return

    def _add_new_nodes(self, ask: Ask) -> None:
        """Take note of the nodes that are new since the last look."""
        lane = ask.history.nodes_of_pool(ask.run, ask.pool)
        start = self._nodes_seen.get((ask.run, ask.pool), max(len(lane) - _MAX_NODES_READ, 0))
        self._nodes_seen[ask.run, ask.pool] = len(lane)
        for node in (ask.root, *map(ask.history.__getitem__, lane[start:])):
            if not node.draft:
                whence = origin_of(ask.history, node)
                self._node_by_key.setdefault(
                    (ask.run, ask.pool, self._key(whence, node, self._digests_of(whence))), node.id
                )

    def _digests_of(self, origin: Origin) -> dict[str, str]:
        return {path: self._digest(commit, path) for path, commit in origin.changed.items()}

    def _key(self, origin: Origin, node: Node, changed: Mapping[str, str]) -> ContentKey:
        different = (
            (path, digest) for path, digest in changed.items() if digest != self._digest(origin.base, path)
        )
        return origin.base, codec.text(dict(sorted(node.params.items()))), frozenset(different)

    def _digest(self, commit: str, path: str) -> str:
        """Of a file of a commit; empty when it is not there."""
        if (commit, path) not in self._digests:
            text = self._texts.text(commit, path)
            self._digests[commit, path] = "" if text is None else _digest(text, path)
        return self._digests[commit, path]

    def _change(self, origin: Origin, texts: Mapping[str, str]) -> _LineChange:
        goes: list[str] = []
        comes: list[str] = []
        for path, text in sorted(texts.items()):
            before = Counter(normalise(self._texts.text(origin.commit(path), path) or "", path).split("\n"))
            after = Counter(normalise(text, path).split("\n"))
            goes += [path, *(before - after).elements()]
            comes += [path, *(after - before).elements()]
        # Apart: what goes is the same in every rewrite of a file, and would drown what comes.
        return _LineChange("\n".join(goes), "\n".join(comes), Counter(_NUMBER.findall("\n".join((*goes, *comes)))))

    def _change_of(self, history: History, node: Node) -> _LineChange:
        if node.id not in self._changes:
            assert node.id.parent
            whence = origin_of(history, history[node.id.parent])
            texts = {path: self._texts.text(node.commit, path) or "" for path in node.edits}
            self._changes[node.id] = self._change(whence, texts)
            _trim(self._changes)
        return self._changes[node.id]


def _siblings(history: History, parent: Node, pool: Pool) -> Iterator[Node]:
    """The newest changes of the same node's code that have a result or may still get one."""
    newest = history[parent.id].children
    for number in range(newest, max(newest - _MAX_SIBLINGS, 0), -1):
        node = history[parent.id.child(number)]
        failed = node.outcome is not None and not node.outcome.is_finished
        if node.pool is pool and node.edits and node.params == parent.params and not failed:
            yield node


def _duplicate(reason: str) -> ProposalFault:
    return ProposalFault(Objection.DUPLICATE, reason, "Try something else.")


@functools.lru_cache(64)  # what is proposed is looked at again as a node
def _digest(text: str, path: str) -> str:
    return hashlib.sha256(normalise(text, path).encode(errors="replace")).hexdigest()[:20]


def _trim(cache: dict[NodeId, Any]) -> None:
    while len(cache) > _MAX_CACHED:
        del cache[next(iter(cache))]
