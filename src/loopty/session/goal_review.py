"""Asks the verifier which words of the goal the benchmark does not check, before anything runs."""

from __future__ import annotations

import asyncio

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage, Role
from loopty.proposers.verifiers.goal_review import Gap, review_goal
from loopty.session.context import CampaignContext

_MAX_FILES = 24
_COMMIT_NODE = NodeId("1")


def goal_gaps(context: CampaignContext) -> tuple[Gap, ...]:
    """Return the gaps between goal and benchmark. Raises Misuse where the verifier cannot be asked."""
    task, models = context.task, context.role_models(None)
    role_model, limit = models.of(Role.VERIFIER), models.prompt_tokens(Role.VERIFIER)
    commit = context.repository.head().commit
    writable = context.files.writable_files(commit)
    frozen = [path for path in context.files.readable_files(commit) if path not in set(writable)]
    named = set(task.benchmark.files)
    order = sorted(frozen, key=lambda path: (path not in named, path.count("/"), path))
    texts = ((path, context.files.text(commit, path)) for path in [*order[:_MAX_FILES], *writable[:_MAX_FILES]])
    files = {path: text for path, text in texts if text}
    try:
        return asyncio.run(
            review_goal(role_model, task.statement, task.verifier.rules, files, _COMMIT_NODE, limit)
        )
    except (Exhausted, Outage) as reason:
        raise Misuse(f"the verifier could not review the goal: {reason}") from None
