"""Recognise a change that was tried before, whatever else it changes that never runs."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import warnings
from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Edits, Objection
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.kit import codec
from loopty.proposers.code.reply_edits import ProposalFault
from loopty.proposers.code.source_files import Origin, TextCache, origin_of
from loopty.proposers.mutation.languages import language_of
from loopty.record.node_record import Node

_MAX_NODES_READ = 128
"""Nodes that a process reads when it resumes a run; it knows every node added later."""

ContentKey = tuple[str, str, frozenset[tuple[str, str]]]
"""A node's content in normal form: the base commit, the parameters, and the digests of the files that differ."""


class Novelty:
    """Knows the content of the nodes of each pool; reads each node once."""

    def __init__(self, texts: TextCache) -> None:
        self._texts = texts
        self._digests: dict[tuple[str, str], str] = {}
        self._node_by_key: dict[tuple[int, Pool, ContentKey], NodeId] = {}
        self._nodes_seen: dict[tuple[int, Pool], int] = {}

    def check(self, ask: Ask, parent: Node, edits: Edits) -> None:
        """Raise ProposalFault when the parent with these edits equals an existing node."""
        self._add_new_nodes(ask)
        origin = origin_of(ask.history, parent)
        digests = {
            path: _digest(text, path) if edits[path] is not None else "" for path, text in _texts(edits).items()
        }
        key = self._key(origin, parent, {**self._digests_of(origin), **digests})
        if key == self._key(origin, parent, self._digests_of(origin)):
            raise _duplicate(f"it would change nothing that runs in {parent.name}")
        if twin := self._node_by_key.get((ask.run, ask.pool, key)):
            raise _duplicate(f"in all that runs it is the same as {ask.history.name(twin)}")

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


def _texts(edits: Edits) -> dict[str, str]:
    return {path: text if isinstance(text, str) else "" for path, text in edits.items()}


def _duplicate(reason: str) -> ProposalFault:
    return ProposalFault(Objection.DUPLICATE, reason, "Try something else.")


@functools.lru_cache(64)  # the text of a proposal is read again when it is a node
def _digest(text: str, path: str) -> str:
    return hashlib.sha256(normalise(text, path).encode(errors="replace")).hexdigest()[:20]


_UNKNOWN = language_of("")
_LEAVE = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_DIRECTIVE = re.compile(r"[#/!*;%\-()|]++ *+(?:[^\w\s]|[\w.-]+:|pragma\b|EVOLVE)")
"""Comments that compilers and tools obey: `!$omp`, `# cython: …`, `//go:build`. Better too many than too few."""


def normalise(text: str, path: str) -> str:
    """Return the text in normal form: equal for two files that differ only in what never runs.

    In Python that is also docstrings and what stands behind a return; elsewhere comments and white space.
    """
    text = text.replace("\r\n", "\n")
    if path.endswith(".py") and (form := _python_form(text)):
        return form
    language = language_of(path)
    if language is _UNKNOWN:
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    slashes = language.hidden.match("//") is not None
    # Where # begins a comment, indentation may be syntax.
    strip = str.strip if slashes else str.rstrip
    bare = language.hidden.sub(lambda hidden: " " if _is_comment(hidden, slashes) else hidden[0], text)
    return "\n".join(stripped for line in bare.split("\n") if (stripped := strip(line)))


def _python_form(text: str) -> str:
    """Return what Python runs of a file, with the comments that tools obey; empty if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        for node in ast.walk(tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, _running(block, keeps_text="__doc__" in text))
        form = ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    comments = (hidden for hidden in language_of(".py").hidden.finditer(text) if hidden[0].startswith("#"))
    return "\n".join((form, *(hidden[0] for hidden in comments if _DIRECTIVE.match(hidden[0]))))


def _running(block: list[ast.stmt], keeps_text: bool) -> list[ast.stmt]:
    """Return the statements of a block up to the one that leaves it, without texts that nobody reads."""
    end = next((at for at, one in enumerate(block, 1) if isinstance(one, _LEAVE)), len(block))
    is_text = [isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in block[:end]]
    return [one for one, text in zip(block[:end], is_text, strict=True) if keeps_text or not text]


def _is_comment(hidden: re.Match[str], slashes: bool) -> bool:
    # Where // begins a comment, # begins a preprocessor directive or a private name.
    if hidden.lastindex is None or (slashes and not hidden[0].startswith(("//", "/*"))):
        return False
    return not _DIRECTIVE.match(hidden[0])
