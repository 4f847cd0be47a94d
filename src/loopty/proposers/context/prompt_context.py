"""The context of a prompt: what a change must respect, and after it the goal, what was tried, and what the node to
change gave.

The fixed sentences are never cut: in a small window there is less about the search instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from loopty.domain.access import Access
from loopty.domain.benchmark import Gate
from loopty.domain.ids import NodeId
from loopty.domain.proposal import MARK, MOST_DECLARED
from loopty.domain.task import Pools, Task
from loopty.domain.trial import Leftovers, Pool
from loopty.engine.protocols import Ask
from loopty.kit.foreign_text import one_line
from loopty.kit.model_text import fence_to_budget, tokens
from loopty.kit.records import Record, replace
from loopty.kit.tables import Table, option
from loopty.proposers.context.nodes import (
    NodeLines,
    leftover_texts,
    path_lines,
    path_nodes,
    results_text,
    tried_children,
)
from loopty.proposers.context.search import ExperimentDigest, goal_text
from loopty.record.calls import Spend
from loopty.record.directives import Directive, Notes
from loopty.record.node_record import Node
from loopty.record.search_learning import GivenDirections
from loopty.record.trials import Cohorts, TrialCounts

_LONGEST_NOTE = 400
_HEADING_TOKENS = 48
"""Tokens of the longest heading and its fence."""


class PromptContextOptions(Table):
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
        """Return the same options, cut to a token budget."""
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
        """Return the prompt except the operator's instruction and the files, within the options' token budget."""
        limit = self._options.tokens
        directive = Directive.of(ask.history.runs[ask.run]).words(ask.history.name)
        sections = [
            goal_text(ask, self._statement, directive, limit // 2),
            limits_text(ask, self._access, self._limits),
        ]
        if self._access:
            sections += self._tried_sections(ask, parent, (limit - _tokens_of(sections)) // 2)
        if words := GivenDirections.in_force(ask.history.runs[ask.run], ask.pool):
            shown = fence_to_budget("directions of a reviewer", words, (limit - _tokens_of(sections)) // 6)
            sections += _section("# Where to look, after a long time without progress", [shown])
        notes = _notes_text(ask, (limit - _tokens_of(sections)) // 6)
        sections += _section("# Notes of other agents", [notes])
        sections += self._result_sections(ask, parent, limit - _tokens_of(sections))
        return "\n\n".join(filter(None, sections)) + "\n"

    def _leftovers_of(self, node: Node) -> Leftovers:
        """Return the node's leftovers, read once for many changes to it: a judged node leaves nothing more."""
        key = node.id, node.judged
        if self._last_leftovers is None or self._last_leftovers[0] != key or not node.judged:
            self._last_leftovers = key, self._read_leftovers(node)
        return self._last_leftovers[1]

    def _tried_sections(self, ask: Ask, parent: Node, limit_tokens: int) -> list[str]:
        """List what was tried, each node once: in this program, on this program, elsewhere."""
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
            ("being tried now: no result yet", self._in_flight_lines(ask, known)),
            ("other experiments", self._digest_lines(ask, digest, known)),
        )
        texts = [fence_to_budget(label, "\n".join(lines), share, clean=True) for label, lines in parts]
        return _section("# What was tried", texts)

    def _in_flight_lines(self, ask: Ask, known: Collection[NodeId]) -> list[str]:
        """List the changes whose trials run elsewhere, and those that are being written."""
        history = ask.history
        running = [history[node] for node in sorted(ask.running) if node not in known]
        calls = [call for call in Spend.of(history.runs[ask.run]).reservations.values() if call.pool is ask.pool]
        return [
            *(self._node_lines.with_change(history, node) for node in running if node.pool is ask.pool),
            *(f"a {call.operator} of {history.name(call.node)} is being written" for call in calls if call.node),
        ]

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
    """Make one section of the texts that are not empty, under their heading; none if all are empty."""
    shown = [text for text in texts if text]
    return ["\n\n".join((heading, *shown))] if shown else []


def _notes_text(ask: Ask, limit_tokens: int) -> str:
    """Return the notes of agents and other clients for each other, newest first: data, as all that is fenced."""
    lines = []
    for note in reversed(Notes.of(ask.history.runs[ask.run]).newest):
        about = f" about {ask.history.name(note.node)}" if note.node else ""
        lines.append(f"{note.client}{about}: {one_line(note.text, _LONGEST_NOTE)}")
    return fence_to_budget("notes, a line each, the newest first", "\n".join(lines), limit_tokens)


def _tokens_of(sections: Iterable[str]) -> int:
    return sum(tokens(section) + 1 for section in sections)


_MAX_PATTERNS = 12
_MAX_GATES = 8
_LONGEST = 120


class PromptLimits(Record):
    """The limits of a trial and of the run, as far as a proposer should know them."""

    seconds: float
    memory_mb: int
    processes: int
    network: bool
    pools: Pools
    gates: tuple[Gate, ...] = ()
    tune_trials: int | None = None
    """Short runs that tune the parameters of a proposal; None where there is no slice to run."""

    @classmethod
    def of(cls, task: Task) -> PromptLimits:
        benchmark, limits = task.benchmark, task.limits
        tune_trials = task.tune.trials if task.tune else None
        bounds = benchmark.timeout_seconds, limits.memory_mb, limits.processes
        return cls(*bounds, benchmark.network, task.pools, task.gates, tune_trials)


def limits_text(ask: Ask, access: Access | None, limits: PromptLimits | None) -> str:
    """Return the section about limits; empty if there is nothing to say."""
    lines = [
        *(_access_lines(access) if access else ()),
        *(_trial_lines(limits, bool(access)) if limits else ()),
        *(map(_gate_line, limits.gates[:_MAX_GATES]) if limits else ()),
        *(declaration_lines(limits.tune_trials) if access and limits and limits.tune_trials else ()),
        *(_budget_lines(ask, limits.pools) if limits else ()),
    ]
    return "\n".join(("# Limits", "", *(f"- {line}" for line in lines))) if lines else ""


def _access_lines(access: Access) -> Iterator[str]:
    yield f"Change only {_pattern_list(access.write)}. Any other change is refused without a trial."
    if access.read != ("**",):
        yield f"You may read {_pattern_list(access.read)}."
    yield "Where a file has EVOLVE-BLOCK-START and EVOLVE-BLOCK-END lines, change only what is between them."
    yield (
        "A change that games the benchmark is rejected, whatever its score: one that knows the inputs or "
        "remembers results, touches the clock or a check, or uses what the goal forbids."
    )


def _trial_lines(limits: PromptLimits, changes_code: bool) -> Iterator[str]:
    # `memory_mb` bounds the whole process tree.
    yield (
        f"One trial may take {limits.seconds:g} seconds, {limits.memory_mb:,} MB of memory and {limits.processes} "
        "processes and threads."
    )
    if changes_code:
        network = "" if limits.network else "It has no network. "
        yield f"{network}Nothing can be installed: use the standard library and what the files import already."


def _gate_line(gate: Gate) -> str:
    """Say what a change must meet, whatever its score."""
    if gate.command:
        line = gate.command if isinstance(gate.command, str) else " ".join(gate.command)
        return f"It must pass `{one_line(line, _LONGEST)}` (gate {one_line(gate.name, _LONGEST)})."
    least = f" at least {gate.minimum:g}" if gate.minimum is not None else ""
    most = f" at most {gate.maximum:g}" if gate.maximum is not None else ""
    return f"`{one_line(gate.metric, _LONGEST)}` must be{' and'.join(filter(None, (least, most)))}."


def _budget_lines(ask: Ask, pools: Pools) -> Iterator[str]:
    run = ask.history.runs[ask.run]
    if limit := pools.limit(ask.pool):
        remaining = max(limit - TrialCounts.of(run, ask.pool).started, 0)
        yield f"{remaining} of {limit} attempts are left."
    if pools.target is not None:
        yield f"The search ends when the first metric reaches {pools.target:g}."
    if pools.tokens:
        yield f"{max(pools.tokens - Spend.of(run).total_tokens, 0):,} of {pools.tokens:,} tokens are left."


def _pattern_list(patterns: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{one_line(pattern, _LONGEST)}`" for pattern in patterns[:_MAX_PATTERNS])
    more = f" and {len(patterns) - _MAX_PATTERNS} more patterns" if len(patterns) > _MAX_PATTERNS else ""
    return f"{shown}{more}" if shown else "nothing"


# Only where proposals are tuned.


EXAMPLE = f'# {MARK} step = {{ type = "float", low = 0.01, high = 10.0, log = true, default = 1.0 }}'
"""It reads like a line of a program: models copy it."""


def declaration_lines(trials: int) -> Iterator[str]:
    """Yield what a proposer must know to leave values open; `trials` short runs tune them."""
    yield (
        "You need not guess numbers and choices of your program: you may leave them open. Declare each in a "
        f"comment line of its own, in a file that may be changed, as in `{EXAMPLE}`. The types are `float` and "
        '`int`, with low and high, and `categorical`, with choices, as in `choices = ["a", "b"]`.'
    )
    yield (
        "The program reads the values from the JSON object in the file that the environment variable "
        'LOOPTY_PARAMS names; in Python: `json.load(open(os.environ["LOOPTY_PARAMS"]))["step"]`. Up to '
        f"{trials} short runs find good values before the change is scored. Declare only what matters, and at "
        f"most {MOST_DECLARED}; keep lines that are there as long as the program reads their values."
    )
