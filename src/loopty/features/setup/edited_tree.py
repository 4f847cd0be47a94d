"""Runs the benchmark on edited copies of the files as they are, and records nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from loopty.domain.access import ObjectName
from loopty.domain.benchmark import Gate
from loopty.domain.ids import NodeId
from loopty.domain.proposal import complete_params
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.engine.protocols import Trial
from loopty.kit import paths
from loopty.kit.records import replace
from loopty.record.node_record import Node
from loopty.session.by_hand import CheckResult, check_trial_result
from loopty.session.context import CampaignContext
from loopty.session.runs import BASELINE
from loopty.session.stoppable import never_prune, run_until_stopped


class EditedTree:
    """The files of the repository as they are now, and the task that stands beside them."""

    def __init__(self, context: CampaignContext, unsafe: bool) -> None:
        self._context = context
        self._unsafe = unsafe
        snapshot = context.repository.working_tree.snapshot("a check of the task")
        base = context.files.with_declarations(snapshot)
        self._params = complete_params(base.declared, context.task.space.baseline())
        self._base = base.commit
        self._root = self._node("1", base.commit, base.tree)
        self.writable = context.files.writable_files(base.commit)

    @property
    def gates(self) -> tuple[Gate, ...]:
        return self._context.task.gates

    def text(self, path: str) -> str | None:
        """Return what a file has now; None if it is no text."""
        return self._context.files.text(self._base, path)

    def run(self, edits: Mapping[str, str | bytes], gates: Sequence[Gate] = ()) -> CheckResult:
        """Run the benchmark once on the tree with these edits."""
        repository = self._context.repository
        entries = repository.entries(self._base, [*edits])
        edited = repository.commit(self._base, dict(edits), entries, "a check of the task\n")
        trial = self._trial(self._node("1.1", edited.commit, edited.tree), gates)
        result = check_trial_result(self._context, trial, self._unsafe)
        return replace(result, outcome=unless_stopped(result.outcome))

    def runs(self, times: int) -> list[Outcome]:
        """Run the files as they are, one run after the other, all of one executor."""
        executor = self._context.executor(self._unsafe)

        async def run_all(cancel: asyncio.Event) -> list[Outcome]:
            return [await executor.execute(self._trial(self._root), never_prune, cancel) for _ in range(times)]

        return [*map(unless_stopped, run_until_stopped(run_all))]

    def runs_together(self, times: int) -> list[Outcome]:
        """Run the files as they are so many times at once."""
        wide = replace(self._context, task=replace(self._context.task, width=times))
        executor = wide.executor(self._unsafe)

        async def run_all(cancel: asyncio.Event) -> list[Outcome]:
            runs = (executor.execute(self._trial(self._root), never_prune, cancel) for _ in range(times))
            return list(await asyncio.gather(*runs))

        return [*map(unless_stopped, run_until_stopped(run_all))]

    def _trial(self, node: Node, gates: Sequence[Gate] = ()) -> Trial:
        return Trial(node, self._root, 0, Pool.CHECK, self._context.task.seed, tuple(gates))

    def _node(self, name: str, commit: ObjectName, tree: ObjectName) -> Node:
        return Node(
            id=NodeId(name),
            pool=Pool.CHECK,
            operator=BASELINE,
            summary="",
            commit=commit,
            tree=tree,
            added_at=0.0,
            order=1,
            position=0,
            params=self._params,
        )


def unless_stopped(outcome: Outcome) -> Outcome:
    """Return the outcome. Raises KeyboardInterrupt where the user stopped it: half a proof proves nothing."""
    if outcome.ending is Ending.CANCELLED:
        raise KeyboardInterrupt
    return outcome


_NONSENSE = b"}{ )( loopty writes this to learn whether the benchmark loads this file ]['\n"
"""No program in any language that is tried here, nor JSON or TOML."""
_LONGEST_SECONDS = 20.0
"""Of a benchmark that takes longer, nothing is found out."""
_MOST_PATTERNS = 4
_ALIKE = 2.0
"""A score that changes by less than this factor is the same: times vary that much on a busy machine."""


def unloaded_patterns(tree: EditedTree, patterns: Sequence[str], proven: Outcome) -> list[str]:
    """List the patterns of writable files without which the benchmark gives the same score as with them.

    That needs no trace of the program and no knowledge of its language, and one more run for each pattern.
    """
    score = next(iter(proven.metrics.values()), 0.0)
    if proven.seconds > _LONGEST_SECONDS or not score or len(patterns) > _MOST_PATTERNS:
        return []

    def is_unloaded(pattern: str) -> bool:
        files = [path for path in tree.writable if paths.matches(path, (pattern,))]
        if not files:
            return False
        outcome = tree.run(dict.fromkeys(files, _NONSENSE)).outcome
        now = next(iter(outcome.metrics.values()), 0.0) if outcome.is_finished else 0.0
        return 1 / _ALIKE < now / score < _ALIKE

    return [pattern for pattern in patterns if is_unloaded(pattern)]
