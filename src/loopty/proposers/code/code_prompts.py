"""The prompts that ask a model for a change to the code, with the form of its reply."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Speaker
from loopty.kit.fence import FENCED_IS_DATA, fence_text
from loopty.proposers.code.code_options import Operator
from loopty.proposers.code.plan import Plan
from loopty.proposers.code.reply_faults import ProposalFault
from loopty.proposers.code.source_files import FileView, ShownFile
from loopty.record.node_record import Node

_MAX_NAMES = 200
_LONGEST_ERROR = 4_000
_LONGEST_ANSWER = 40_000

_SYSTEM = f"You improve programs by experiments. {FENCED_IS_DATA}"

_SEARCH_FORM = """\
path/of/the/file
<<<<<<< SEARCH
lines of the file, exactly as they are, enough of them to be found once
=======
the lines in their place
>>>>>>> REPLACE

Any number of such blocks, for one or several files. An empty SEARCH makes a new file."""

_WHOLE_FORM = """\
path/of/the/file
```
all lines of the file
```

Any number of such files, new ones too. Where a file holds ``` itself, use a longer fence around it."""

_RULES = """\
A line `<<<<<<< DELETE path/of/the/file` deletes a file. Change only files that may be changed. In a file with \
EVOLVE-BLOCK-START and EVOLVE-BLOCK-END change only what is between them, and keep those lines."""

_TASKS = {
    Operator.DIFF: "Change the program so that it does better.",
    Operator.REWRITE: "Rewrite the program, or the files of it that matter, so that it does better.",
    Operator.CROSSOVER: "Two programs are shown. Change the first so that it has the strengths of both.",
    Operator.FIX: "This program failed. Find out why, and fix it; keep the idea of its last change.",
    Operator.DRAFT: "Solve the task anew, in a way that differs from this program and from all that was tried.",
}


def first_prompt(
    plan: Plan, context: str, files: FileView, other_files: Sequence[ShownFile], batch: int
) -> Prompt:
    """The prompt for this plan.

    The files come first: a node is changed again and again, and providers charge less for a beginning that stays
    the same from call to call. The form of the reply comes last, where models remember it best.
    """
    parts = [_files_text(plan.parent.id, files), context]
    if plan.operator is Operator.FIX:
        error = fence_text("error", _error_text(plan.parent), _LONGEST_ERROR)
        parts.append(f"# How {plan.parent.id.name} failed\n\n{error}")
    for node in plan.inspirations:
        shown = "\n\n".join(map(_file_text, other_files))
        parts.append(f"# The other program: where node {node.id.name} differs\n\n{shown}")
    parts.append(
        f"# What to do\n\n{_TASKS[plan.operator]}{_batch_request(batch)} {_reply_form(plan.operator, batch)}"
    )
    return Prompt(_SYSTEM, (Message(Speaker.ASKER, "\n\n".join(parts)),))


def retry_prompt(prompt: Prompt, reply: str, fault: ProposalFault, batch: int, limit_chars: int) -> Prompt:
    """The conversation with the reply, cut to `limit_chars`, and what is wrong with it."""
    objection = f"That cannot be used: {fault.reason}."
    if fault.advice:
        objection += f"\n{fence_text('details', fault.advice, _LONGEST_ERROR, exact=True)}"
    wanted = "a proposal" if batch == 1 else f"{batch} proposals"
    return prompt.with_reply(
        reply[: min(limit_chars, _LONGEST_ANSWER)],
        f"{objection}\nReply once more, in the same form, with {wanted}.",
    )


def _reply_form(operator: Operator, batch: int) -> str:
    whole = operator in (Operator.REWRITE, Operator.DRAFT)
    numbers = "" if batch == 1 else f", and so on up to {batch}"
    return (
        f"Reply in this form:\n\n=== PROPOSAL 1: one line that says what changes and why{numbers} ===\n\n"
        f"{_WHOLE_FORM if whole else _SEARCH_FORM}\n\n=== END ===\n\n{_RULES}"
    )


def _batch_request(batch: int) -> str:
    if batch == 1:
        return ""
    return (
        f" Give {batch} proposals that differ in their idea, not in details. "
        "Each is applied to the program as it is shown, without the others."
    )


@functools.lru_cache(16)
def _files_text(node: NodeId, files: FileView) -> str:
    parts = [f"# The files of node {node.name}", *map(_file_text, files.shown)]
    if names := files.not_shown:
        more = f"\nand {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
        text = "\n".join(names[:_MAX_NAMES]) + more
        parts += ["Files that are not shown:", fence_text("names of files", text, len(text))]
    return "\n\n".join(parts)


def _file_text(file: ShownFile) -> str:
    notes = ["may be changed" if file.writable else "may only be read"]
    notes += ["only between the EVOLVE-BLOCK lines"] * file.marked
    notes += [f"shown in part: {file.line_range}"] * bool(file.line_range)
    return fence_text(f"{file.path} ({', '.join(notes)})", file.text, len(file.text), exact=True)


def _error_text(node: Node) -> str:
    lines = [node.outcome.ending, node.outcome.reason] if node.outcome else []
    return "\n".join(dict.fromkeys(filter(None, (*lines, node.reason))))
