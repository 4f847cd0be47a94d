"""Recognise a change that was tried before, or almost: without comments and white space, by runs of four
characters.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import mul
from typing import Any

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Edits, Objection
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.proposers.code.reply_edits import ProposalFault
from loopty.proposers.code.source_files import Origin, TextCache, origin_of
from loopty.proposers.mutation.languages import language_of
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_NODES_READ = 128
"""Nodes that a process reads when it resumes a run; it knows every node added later."""
_MAX_SIBLINGS = 64
_MAX_CACHED = 512
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*")

ContentKey = tuple[str, str, frozenset[tuple[str, str]]]
"""A node's content in normal form: the base commit, the parameters, and the digests of the files that differ."""


class _LineChange(Record):
    """The removed and the added lines, file by file, and the numbers in them."""

    removed: str
    added: str
    numbers: Counter[str]


class Novelty:
    """Knows the content of the nodes of each pool; reads each node once."""

    def __init__(self, texts: TextCache, max_similarity: float) -> None:
        self._texts = texts
        self._max_similarity = max_similarity
        self._digests: dict[tuple[str, str], str] = {}
        self._node_by_key: dict[tuple[int, Pool, ContentKey], NodeId] = {}
        self._nodes_seen: dict[tuple[int, Pool], int] = {}
        self._changes: dict[NodeId, _LineChange] = {}

    def check(self, ask: Ask, parent: Node, edits: Edits) -> None:
        """Raise ProposalFault when the parent with these edits equals, or almost equals, an existing node."""
        self._check_new(ask, parent, edits)
        if self._max_similarity < 1:
            self._compare(ask, parent, self._change(origin_of(ask.history, parent), _texts(edits)))

    def _check_new(self, ask: Ask, parent: Node, edits: Edits) -> None:
        """Raise ProposalFault when the parent with these edits equals an existing node."""
        self._add_new_nodes(ask)
        origin = origin_of(ask.history, parent)
        digests = {
            path: _digest(text, path) if edits[path] is not None else "" for path, text in _texts(edits).items()
        }
        key = self._key(origin, parent, {**self._digests_of(origin), **digests})
        if key == self._key(origin, parent, self._digests_of(origin)):
            raise _duplicate(f"it would change only comments or white space of {parent.name}")
        if twin := self._node_by_key.get((ask.run, ask.pool, key)):
            raise _duplicate(f"apart from comments and white space it is the same as {ask.history.name(twin)}")

    def _compare(self, ask: Ask, parent: Node, change: _LineChange) -> None:
        """Raise ProposalFault when the change is too similar to another change to the same parent.

        Failed changes do not count: they may be tried again with a small difference.
        """
        others = {
            node.id: (other.removed, other.added)
            for node in _siblings(ask, parent)
            # A change with another number is another experiment, even when the texts are almost equal.
            if (other := self._change_of(ask.history, node)).numbers == change.numbers
        }
        own = (change.removed, change.added)
        figures = {node: similarity(own, other) for node, other in others.items()}
        closest = max(figures, key=lambda node: (figures[node], node), default=None)
        if closest and (figure := figures[closest]) > self._max_similarity:
            name = ask.history.name(closest)
            raise _duplicate(f"it is almost the same as {name} (similarity {figure:.3f})")

    def _add_new_nodes(self, ask: Ask) -> None:
        """Read the nodes that are new since the last call."""
        ids = ask.history.nodes_of_pool(ask.run, ask.pool)
        seen = self._nodes_seen.get((ask.run, ask.pool))
        self._nodes_seen[ask.run, ask.pool] = len(ids)
        new = ids[max(len(ids) - _MAX_NODES_READ, 0) if seen is None else seen :]
        for node in (*((ask.root,) if seen is None else ()), *map(ask.history.__getitem__, new)):
            if not node.draft:
                origin = origin_of(ask.history, node)
                self._node_by_key.setdefault(
                    (ask.run, ask.pool, self._key(origin, node, self._digests_of(origin))), node.id
                )

    def _digests_of(self, origin: Origin) -> dict[str, str]:
        return {path: self._digest(commit, path) for path, commit in origin.changed.items()}

    def _key(self, origin: Origin, node: Node, changed: Mapping[str, str]) -> ContentKey:
        different = (
            (path, digest) for path, digest in changed.items() if digest != self._digest(origin.base, path)
        )
        return origin.base, codec.text(dict(sorted(node.params.items()))), frozenset(different)

    def _digest(self, commit: str, path: str) -> str:
        """Return the digest of a file of a commit; empty when the file does not exist."""
        if (commit, path) not in self._digests:
            text = self._texts.text(commit, path)
            self._digests[commit, path] = "" if text is None else _digest(text, path)
        return self._digests[commit, path]

    def _change(self, origin: Origin, texts: Mapping[str, str]) -> _LineChange:
        removed: list[str] = []
        added: list[str] = []
        for path, text in sorted(texts.items()):
            before = Counter(normalise(self._texts.text(origin.commit(path), path) or "", path).split("\n"))
            after = Counter(normalise(text, path).split("\n"))
            removed += [path, *(before - after).elements()]
            added += [path, *(after - before).elements()]
        # Separate: every rewrite of a file removes the same lines, and they would outweigh the added ones.
        numbers = Counter(_NUMBER.findall("\n".join((*removed, *added))))
        return _LineChange("\n".join(removed), "\n".join(added), numbers)

    def _change_of(self, history: History, node: Node) -> _LineChange:
        if node.id not in self._changes:
            assert node.id.parent
            origin = origin_of(history, history[node.id.parent])
            texts: dict[str, str] = {path: self._texts.text(node.commit, path) or "" for path in node.edits}
            self._changes[node.id] = self._change(origin, texts)
            _trim(self._changes)
        return self._changes[node.id]


def _siblings(ask: Ask, parent: Node) -> Iterator[Node]:
    """Yield the newest changes to the parent's code that had not failed when the question was asked.

    Whether a trial ends while the model answers must make no difference.
    """
    newest = ask.history[parent.id].children
    for number in range(newest, max(newest - _MAX_SIBLINGS, 0), -1):
        node = ask.history[parent.id.child(number)]
        failed = node.outcome is not None and not node.outcome.is_finished and node.id not in ask.running
        if node.pool is ask.pool and node.edits and node.params == parent.params and not failed:
            yield node


def _texts(edits: Edits) -> dict[str, str]:
    return {path: text if isinstance(text, str) else "" for path, text in edits.items()}


def _duplicate(reason: str) -> ProposalFault:
    return ProposalFault(Objection.DUPLICATE, reason, "Try something else.")


@functools.lru_cache(64)  # the text of a proposal is read again when it is a node
def _digest(text: str, path: str) -> str:
    return hashlib.sha256(normalise(text, path).encode(errors="replace")).hexdigest()[:20]


def _trim(cache: dict[NodeId, Any]) -> None:
    while len(cache) > _MAX_CACHED:
        del cache[next(iter(cache))]


_UNKNOWN = language_of("")
_DIRECTIVE = re.compile(r"[#/!*;%\-()|]++ *+(?:[^\w\s]|[\w.-]+:|pragma\b|EVOLVE)")
"""Comments that compilers and tools obey: `!$omp`, `# cython: …`, `//go:build`. Better too many than too few."""


def normalise(text: str, path: str) -> str:
    """Return the text in normal form: equal for two files that differ only in comments and white space."""
    text = text.replace("\r\n", "\n")
    language = language_of(path)
    if language is _UNKNOWN:
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    slashes = language.hidden.match("//") is not None
    # Where # begins a comment, indentation may be syntax.
    strip = str.strip if slashes else str.rstrip
    bare = language.hidden.sub(lambda hidden: " " if _is_comment(hidden, slashes) else hidden[0], text)
    return "\n".join(stripped for line in bare.split("\n") if (stripped := strip(line)))


def _is_comment(hidden: re.Match[str], slashes: bool) -> bool:
    # Where // begins a comment, # begins a preprocessor directive or a private name.
    if hidden.lastindex is None or (slashes and not hidden[0].startswith(("//", "/*"))):
        return False
    return not _DIRECTIVE.match(hidden[0])


_MAX_CACHED_COUNTS = 1024
_RUN_LENGTH = 4
_BUCKETS = 512
_MAX_CHARACTERS = 100_000

Vector = Sequence[float]

ChangeTexts = Sequence[str]
"""The texts of a change."""


def similarity(one: ChangeTexts, other: ChangeTexts) -> float:
    """Return the similarity of the two changes' least similar pair of texts; 1 means equal."""
    pairs = zip(one, other, strict=True)
    return min(1.0 if a == b else cosine(ngram_vector(a), ngram_vector(b)) for a, b in pairs)


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of the angle between two vectors: 1 means the same direction."""
    lengths = math.sqrt(sum(map(mul, one, one)) * sum(map(mul, other, other)))
    return sum(map(mul, one, other)) / lengths if lengths else 0.0


@functools.lru_cache(_MAX_CACHED_COUNTS)  # each change to a node is compared with all earlier ones
def ngram_vector(text: str) -> Vector:
    """Return how often each run of four characters occurs, as a vector of length 1; ignores white space.

    The runs are hashed into a fixed number of buckets.
    """
    plain = "".join(text.split())[:_MAX_CHARACTERS]
    runs = Counter(plain[at : at + _RUN_LENGTH] for at in range(max(len(plain) - _RUN_LENGTH + 1, 1)))
    vector = [0.0] * _BUCKETS
    for run, count in runs.items():
        # The root, so that one line repeated often does not outweigh the others. crc32: the same in every process.
        hashed = zlib.crc32(run.encode(errors="replace"))
        # With either sign: otherwise any two long texts would look similar.
        vector[hashed % _BUCKETS] += math.sqrt(count) * (1 if hashed & 0x8000_0000 else -1)
    length = math.sqrt(sum(map(mul, vector, vector)))
    return array("d", [value / length for value in vector] if length else vector)
