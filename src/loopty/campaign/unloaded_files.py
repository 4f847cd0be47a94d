"""Finds writable files that a benchmark never loads: it gives the same score when there is nonsense in them.

That needs no trace of the program and no knowledge of its language, and one more run for each pattern.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopty.campaign.by_hand import check_trial_result
from loopty.campaign.context import CampaignContext
from loopty.campaign.run_start import BASELINE
from loopty.domain.declared_parameters import complete_params
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Outcome
from loopty.domain.pool import Pool
from loopty.engine.protocols import Trial
from loopty.kit import globs
from loopty.record.node_record import Node

_NONSENSE = b"}{ )( loopty writes this to learn whether the benchmark loads this file ]['\n"
"""No program in any language that is tried here, nor JSON or TOML."""
_LONGEST_SECONDS = 20.0
"""Of a benchmark that takes longer, nothing is found out."""
_MOST_PATTERNS = 4
_ALIKE = 2.0
"""A score that changes by less than this factor is the same: times vary that much on a busy machine."""


def unloaded_patterns(
    context: CampaignContext, patterns: Sequence[str], proven: Outcome, unsafe: bool
) -> list[str]:
    """The patterns of writable files without which the benchmark gives the score that it gave with them."""
    score = next(iter(proven.metrics.values()), 0.0)
    if proven.seconds > _LONGEST_SECONDS or not score or len(patterns) > _MOST_PATTERNS:
        return []
    base = context.files.with_declarations(context.repository.working_tree.snapshot("a check of the task"))
    params = complete_params(base.declared, context.task.space.baseline())
    root = Node(NodeId("1"), Pool.CHECK, BASELINE, "", base.commit, base.tree, 0.0, 1, 0, params=params)
    writable = context.files.writable_files(base.commit)

    def is_unloaded(pattern: str) -> bool:
        files = [path for path in writable if globs.matches(path, (pattern,))]
        if not files:
            return False
        entries = context.repository.entries(base.commit, files)
        edits: dict[str, str | bytes | None] = dict.fromkeys(files, _NONSENSE)
        spoilt = context.repository.commit(base.commit, edits, entries, "a check of the task\n")
        node = Node(NodeId("1.1"), Pool.CHECK, BASELINE, "", spoilt.commit, spoilt.tree, 0.0, 1, 0, params=params)
        outcome = check_trial_result(
            context, Trial(node, root, 0, Pool.CHECK, context.task.seed, ()), unsafe
        ).outcome
        now = next(iter(outcome.metrics.values()), 0.0) if outcome.is_finished else 0.0
        return 1 / _ALIKE < now / score < _ALIKE

    return [pattern for pattern in patterns if is_unloaded(pattern)]
