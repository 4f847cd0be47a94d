"""The context of a prompt: the task, the state of the search, and the history of the node to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from loopty.domain.access import Access
from loopty.domain.ids import NodeId
from loopty.domain.leftovers import Leftovers
from loopty.domain.pool import Pool
from loopty.engine.protocols import Ask
from loopty.kit.dataclass import dataclass, replace
from loopty.kit.fence import one_line
from loopty.kit.option import option
from loopty.kit.token_budget import cut_to, fence_to_budget
from loopty.kit.token_count import tokens
from loopty.proposers.context.experiments import ExperimentDigest
from loopty.proposers.context.goal import objective_text, rules_text
from loopty.proposers.context.lineage import child_lines, path_lines
from loopty.proposers.context.node_line import NodeLines
from loopty.proposers.context.node_results import inspiration_texts, leftover_texts, results_text
from loopty.record.cohorts import Cohorts
from loopty.record.directives import Directive
from loopty.record.node_record import Node
from loopty.record.notes import Notes

_MAX_INSPIRATIONS = 8
_LONGEST_NOTE = 400
_HEADING_TOKENS = 48
"""Tokens of the longest heading and its fence."""


@dataclass(frozen=True, slots=True)
class PromptContextOptions:
    """How much context a prompt has."""

    tokens: int = option("Maximum length of the context, in tokens.", 12_000, minimum=2_000)
    digest_tokens: int = option(
        "How many of these tokens the digest of all experiments may use; 0 leaves the digest out.",
        2_000,
        minimum=0,
    )
    lineage: int = option(
        "Number of nodes shown on the path from the baseline to the node: the first one and the last ones.",
        12,
        minimum=2,
    )
    artifacts: bool = option(
        "Whether the context includes the results, traces and logs of the node to change.", True
    )

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
    ) -> None:
        """`access` is the access of the search, which hides the held-out split; None when no file may be changed.

        `read_leftovers` reads what the trial of a node left behind.
        """
        self._statement = statement
        self._access = access
        self._read_leftovers = read_leftovers
        self._options = options or PromptContextOptions()
        self._last_leftovers: tuple[tuple[NodeId, int], Leftovers] | None = None
        self._node_lines = NodeLines()
        self._digests: dict[tuple[int, Pool, str], ExperimentDigest] = {}

    def text(self, ask: Ask, parent: Node, inspirations: Sequence[Node] = ()) -> str:
        """The whole prompt except the operator's instruction and the files, within the options' token budget."""
        limit, directive = self._options.tokens, self._directive_sections(ask)
        sections = self._task_sections(ask)
        sections += self._node_sections(ask, parent, limit - _tokens_of((*sections, *directive)))
        remaining = limit - _tokens_of((*sections, *directive))
        search = self._search_sections(ask, inspirations[:_MAX_INSPIRATIONS], remaining)
        if self._options.artifacts:
            remaining -= _tokens_of(search) + _HEADING_TOKENS
            texts = leftover_texts(parent, self._leftovers_of(parent), remaining)
            sections += _section(f"# What the trial of node {parent.id.name} left", texts)
        return "\n\n".join((*sections, *search, *directive)) + "\n"

    def _leftovers_of(self, node: Node) -> Leftovers:
        """The leftovers of the node, read once for many changes to it: a judged node leaves nothing more."""
        key = node.id, node.judged
        if self._last_leftovers is None or self._last_leftovers[0] != key or not node.judged:
            self._last_leftovers = key, self._read_leftovers(node)
        return self._last_leftovers[1]

    def _task_sections(self, ask: Ask) -> list[str]:
        """The task, in at most half of the tokens."""
        share = self._options.tokens // 8
        return [
            cut_to(f"# Task\n\n{self._statement.strip() or 'Improve the objective.'}", 2 * share),
            cut_to(objective_text(ask), share),
            *([cut_to(rules_text(self._access), share)] if self._access else []),
        ]

    def _directive_sections(self, ask: Ask) -> list[str]:
        """The user's directive, as the last section, where models notice it best."""
        directive = Directive.of(ask.history.runs[ask.run]).text
        return (
            [cut_to(f"# What the user wants now\n\n{directive}", self._options.tokens // 8)] if directive else []
        )

    def _node_sections(self, ask: Ask, parent: Node, limit_tokens: int) -> list[str]:
        """The node's path, the changes tried on it, and its results: a quarter of the budget each."""
        name = parent.id.name
        path = "\n".join(path_lines(ask.history, parent, self._options.lineage, self._node_lines))
        tried = "\n".join(child_lines(ask, parent, self._node_lines))
        results = results_text(parent) if self._options.artifacts else ""
        sections = (
            (f"# The path to node {name}", "nodes from the baseline on, a line each", path),
            (f"# Changes to node {name} that were already tried", "nodes, the newest first", tried),
            (f"# What node {name} gave", "its results", results),
        )
        return [
            section
            for heading, label, text in sections
            for section in _section(heading, [fence_to_budget(label, text, limit_tokens // 4, clean=True)])
        ]

    def _search_sections(self, ask: Ask, inspirations: Sequence[Node], limit_tokens: int) -> list[str]:
        lines = self._digest_lines(ask, min(self._options.digest_tokens, limit_tokens // 2) - _HEADING_TOKENS)
        digest = fence_to_budget("experiments, a line each", "\n".join(lines), limit_tokens // 2, clean=True)
        others = inspiration_texts(
            ask.history, inspirations, self._read_leftovers, limit_tokens // 3, self._node_lines
        )
        return [
            *_section("# All experiments", [digest]),
            *_section("# Notes of other agents", [_notes_text(ask, limit_tokens // 6)]),
            *_section("# Other nodes, for inspiration", others),
        ]

    def _digest_lines(self, ask: Ask, limit_tokens: int) -> list[str]:
        if limit_tokens <= 0:
            return []
        # Results under different fingerprints cannot be compared: on another machine the lists start anew.
        key = (ask.run, ask.pool, Cohorts.of(ask.history.runs[ask.run]).fingerprint)
        if key not in self._digests:
            self._digests[key] = ExperimentDigest(ask.run, ask.pool, self._node_lines)
        digest = self._digests[key]
        digest.update(ask.history)
        return digest.lines(ask.history, limit_tokens)


def _section(heading: str, texts: Iterable[str]) -> list[str]:
    """One section of the texts that are not empty, under their heading; no section when all are empty."""
    shown = [text for text in texts if text]
    return ["\n\n".join((heading, *shown))] if shown else []


def _notes_text(ask: Ask, limit_tokens: int) -> str:
    """What agents and other clients wrote down for each other, the newest first: data, as all that is fenced."""
    newest = reversed(Notes.of(ask.history.runs[ask.run]).newest)
    lines = [
        f"{note.client}{f' about {note.node}' if note.node else ''}: {one_line(note.text, _LONGEST_NOTE)}"
        for note in newest
    ]
    return fence_to_budget("notes, a line each, the newest first", "\n".join(lines), limit_tokens)


def _tokens_of(sections: Iterable[str]) -> int:
    return sum(tokens(section) + 1 for section in sections)
