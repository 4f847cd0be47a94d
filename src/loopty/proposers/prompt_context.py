"""The context of a prompt: the goal, the limits, what was tried, and what the node to change gave.

The fixed sentences are never cut: in a small window there is less about the search instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from loopty.domain.access import Access
from loopty.domain.ids import NodeId
from loopty.domain.leftovers import Leftovers
from loopty.domain.pool import Pool
from loopty.engine.protocols import Ask
from loopty.kit.fence import one_line
from loopty.kit.option import option
from loopty.kit.records import replace
from loopty.kit.token_budget import fence_to_budget
from loopty.kit.token_count import tokens
from loopty.proposers.context.experiments import ExperimentDigest
from loopty.proposers.context.goal import goal_text
from loopty.proposers.context.limits import PromptLimits, limits_text
from loopty.proposers.context.lineage import path_lines, path_nodes, tried_children
from loopty.proposers.context.node_line import NodeLines
from loopty.proposers.context.node_results import leftover_texts, results_text
from loopty.record.cohorts import Cohorts
from loopty.record.directives import Directive
from loopty.record.node_record import Node
from loopty.record.notes import Notes

_LONGEST_NOTE = 400
_HEADING_TOKENS = 48
"""Tokens of the longest heading and its fence."""


@dataclass(frozen=True, slots=True)
class PromptContextOptions:
    """How much context a prompt has."""

    tokens: int = option("Maximum length of the context, in tokens.", 12_000, minimum=2_000)
    digest_tokens: int = option(
        "Tokens for the digest of all experiments; 0 leaves it out.",
        2_000,
        minimum=0,
    )
    lineage: int = option(
        "Nodes shown on the path from the baseline: the last ones.",
        12,
        minimum=2,
    )
    artifacts: bool = option("Show the results, traces and logs of the node to change.", True)

    def within(self, limit_tokens: int) -> PromptContextOptions:
        """The same options, cut to a token budget."""
        return replace(
            self, tokens=min(self.tokens, limit_tokens), digest_tokens=min(self.digest_tokens, limit_tokens // 3)
        )


class PromptContext:
    """Writes the context of the prompts of one task. The same history gives the same text."""

    def __init__(
        self,
        statement: str,
        access: Access | None,
        read_leftovers: Callable[[Node], Leftovers],
        options: PromptContextOptions | None = None,
        limits: PromptLimits | None = None,
        read_diff: Callable[[Node], str] | None = None,
    ) -> None:
        """`access` is the access of the search, which hides the held-out split; None when no file may be changed.

        `read_leftovers` reads what the trial of a node left behind, `read_diff` only its change to its parent.
        """
        self._statement = statement
        self._access = access
        self._read_leftovers = read_leftovers
        self._options = options or PromptContextOptions()
        self._limits = limits
        self._last_leftovers: tuple[tuple[NodeId, int], Leftovers] | None = None
        self._node_lines = NodeLines(read_diff or (lambda node: read_leftovers(node).diff))
        self._digests: dict[tuple[int, Pool, str], ExperimentDigest] = {}

    def text(self, ask: Ask, parent: Node) -> str:
        """The whole prompt except the operator's instruction and the files, within the options' token budget."""
        limit = self._options.tokens
        directive = Directive.of(ask.history.runs[ask.run]).words(ask.history.name)
        sections = [
            goal_text(ask, self._statement, directive, limit // 2),
            limits_text(ask, self._access, self._limits),
        ]
        if self._access:
            sections += self._tried_sections(ask, parent, (limit - _tokens_of(sections)) // 2)
        notes = _notes_text(ask, (limit - _tokens_of(sections)) // 6)
        sections += _section("# Notes of other agents", [notes])
        sections += self._result_sections(ask, parent, limit - _tokens_of(sections))
        return "\n\n".join(filter(None, sections)) + "\n"

    def _leftovers_of(self, node: Node) -> Leftovers:
        """The leftovers of the node, read once for many changes to it: a judged node leaves nothing more."""
        key = node.id, node.judged
        if self._last_leftovers is None or self._last_leftovers[0] != key or not node.judged:
            self._last_leftovers = key, self._read_leftovers(node)
        return self._last_leftovers[1]

    def _tried_sections(self, ask: Ask, parent: Node, limit_tokens: int) -> list[str]:
        """What was tried, each node once: in this program, on this program, elsewhere."""
        path = path_nodes(parent, self._options.lineage)
        tried = list(tried_children(ask, parent))
        known = {ask.root.id, *path, *(node.id for node in tried)}
        share, name = limit_tokens // 3, parent.name
        digest = min(self._options.digest_tokens, share) - _HEADING_TOKENS
        parts = (
            (f"changes that are in node {name}", path_lines(ask.history, path, self._node_lines)),
            (
                f"changes to node {name} that were tried, the newest first",
                [self._node_lines.with_change(ask.history, node) for node in tried],
            ),
            ("other experiments", self._digest_lines(ask, digest, known)),
        )
        texts = [fence_to_budget(label, "\n".join(lines), share, clean=True) for label, lines in parts]
        return _section("# What was tried", texts)

    def _result_sections(self, ask: Ask, parent: Node, limit_tokens: int) -> list[str]:
        remaining = limit_tokens - _HEADING_TOKENS
        label = f"the trial of node {parent.name}"
        results = fence_to_budget(label, results_text(ask.history, parent), remaining // 4, clean=True)
        remaining -= _tokens_of([results])
        texts: Iterable[str] = ()
        if self._options.artifacts:
            texts = leftover_texts(parent, self._leftovers_of(parent), remaining)
        return _section(f"# What node {parent.name} gave", [results, *texts])

    def _digest_lines(self, ask: Ask, limit_tokens: int, known: Collection[NodeId]) -> list[str]:
        if limit_tokens <= 0:
            return []
        # Results under different fingerprints cannot be compared: on another machine the lists start anew.
        key = (ask.run, ask.pool, Cohorts.of(ask.history.runs[ask.run]).fingerprint)
        if key not in self._digests:
            self._digests[key] = ExperimentDigest(ask.run, ask.pool, self._node_lines)
        digest = self._digests[key]
        digest.update(ask.history)
        return digest.lines(ask.history, limit_tokens, known)


def _section(heading: str, texts: Iterable[str]) -> list[str]:
    """One section of the texts that are not empty, under their heading; no section when all are empty."""
    shown = [text for text in texts if text]
    return ["\n\n".join((heading, *shown))] if shown else []


def _notes_text(ask: Ask, limit_tokens: int) -> str:
    """What agents and other clients wrote down for each other, the newest first: data, as all that is fenced."""
    lines = []
    for note in reversed(Notes.of(ask.history.runs[ask.run]).newest):
        about = f" about {ask.history.name(note.node)}" if note.node else ""
        lines.append(f"{note.client}{about}: {one_line(note.text, _LONGEST_NOTE)}")
    return fence_to_budget("notes, a line each, the newest first", "\n".join(lines), limit_tokens)


def _tokens_of(sections: Iterable[str]) -> int:
    return sum(tokens(section) + 1 for section in sections)
