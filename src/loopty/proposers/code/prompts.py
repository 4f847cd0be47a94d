"""The prompts that ask a model for a change to the code.

First the goal, the limits and what was tried, then the program, then what to do and the form of the answer, which
models remember best where it comes last.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from loopty.domain.model import Message, Prompt, Speaker
from loopty.kit.foreign_text import FENCED_IS_DATA, fence_text
from loopty.proposers.code.answer_forms import Form, form_text
from loopty.proposers.code.options import Operator
from loopty.proposers.code.plan import Plan
from loopty.proposers.code.reply_edits import ProposalFault
from loopty.proposers.code.source_files import FileView, ShownFile
from loopty.record.node_record import Node

_MAX_NAMES = 60
_LONGEST_ERROR = 4_000
_LONGEST_ANSWER = 40_000

_SYSTEM = (
    "You improve a program step by step. Each change that you give is run and scored, and the next step knows its "
    f"result. {FENCED_IS_DATA}"
)
_TASKS = {
    Operator.DIFF: "Change the program so that it gets a better result.",
    Operator.REWRITE: "Rewrite the program, or the parts of it that matter, so that it gets a better result.",
    Operator.CROSSOVER: "Change the program so that it has the strengths of both programs.",
    Operator.MERGE: (
        "Both programs come from the same one, and git could not merge them, because they change the same lines. "
        "Change the program so that it has the changes of both."
    ),
    Operator.FIX: "Find out why the program failed, and fix it. Keep the idea of its last change.",
    Operator.DRAFT: "Solve the task anew, by another approach than this program and those that were tried.",
}
_LONG_WITHOUT_GAIN = 10
_STALLED = (
    "The last {count} changes improved nothing: change the approach, not a detail. If you are certain that "
    "nothing better is possible under these limits, answer with the line `NO CHANGE:` and why, and nothing else."
)
_REVIEWER = (
    "You review a search for a better program that makes no progress any more. You do not write code: you say "
    f"where others should look. {FENCED_IS_DATA}"
)
_DIRECTIONS = (
    "# What to do\n\nSay in one sentence what limits the result, and what the changes that were tried have in "
    "common. Then give three directions that differ from them and from each other, the most promising first: "
    "one sentence each, with the reason and how one could tell early that it fails. At most 200 words, no code."
)
_REASONS = (
    "Begin with two lines: `LIMIT:` and what limits the result now, then `IDEA:` and the one change that you "
    "choose and why it should help. Build on what worked; do not repeat what was tried."
)


def first_prompt(
    plan: Plan,
    context: str,
    files: FileView,
    other_files: Sequence[ShownFile],
    form: Form,
    attempts_without_gain: int = 0,
) -> Prompt:
    """Make the prompt for this plan."""
    parts = [_program_text(plan.parent, context, files)]
    for node in plan.inspirations:
        shown = "\n\n".join(map(_file_text, other_files))
        which = "The best program so far" if plan.shows_best else "The other program"
        parts.append(f"# {which}: the files in which node {node.name} differs\n\n{shown}")
    task = [_TASKS[plan.operator]]
    if attempts_without_gain >= _LONG_WITHOUT_GAIN:
        task.append(_STALLED.format(count=attempts_without_gain))
    task.append(_request(plan.batch, form, files))
    parts.append(f"# What to do\n\n{' '.join(task)}")
    return Prompt(_SYSTEM, (Message(Speaker.ASKER, "\n\n".join(parts)),), form=form.value)


def directions_prompt(best: Node, context: str, files: FileView) -> Prompt:
    """Make the prompt that asks a reviewer what to try next, in words."""
    return Prompt(_REVIEWER, (Message(Speaker.ASKER, f"{_program_text(best, context, files)}\n\n{_DIRECTIONS}"),))


def _program_text(node: Node, context: str, files: FileView) -> str:
    """Return the context and the files of a node, as every prompt shows them."""
    return f"{context.rstrip(chr(10))}\n\n{_files_text(node.name, files)}"


def retry_prompt(prompt: Prompt, reply: str, fault: ProposalFault, batch: int, limit_chars: int) -> Prompt:
    """Return the conversation with the reply, cut to `limit_chars`, and what is wrong with it."""
    objection = f"That cannot be used: {fault.reason}."
    if fault.advice:
        objection += f" {fault.advice}"
    if fault.quotation:
        objection += f"\n{fence_text('lines of the file', fault.quotation, _LONGEST_ERROR, exact=True)}"
    wanted = "a proposal" if batch == 1 else f"{batch} proposals"
    return prompt.with_reply(
        reply[: min(limit_chars, _LONGEST_ANSWER)] or "(nothing)",
        f"{objection}\nReply once more, in the form that was described, with {wanted}.",
    )


def _request(batch: int, form: Form, files: FileView) -> str:
    words = form_text(form, files)
    if batch == 1:
        return f"{_REASONS} Then {words} Write nothing after it."
    return (
        f"Give {batch} proposals that differ in their idea, not in details, and from the changes that were tried. "
        "Each is applied to the program as it is shown, without the others. Begin the first with the line "
        "`=== PROPOSAL 1 ===`, the second with `=== PROPOSAL 2 ===` and so on, and end the last with the line "
        "`=== END ===`. Each has a line `LIMIT:` with what limits the result now, and a line `IDEA:` with the "
        f"change that you choose; then {words}"
    )


@functools.lru_cache(16)
def _files_text(node: str, files: FileView) -> str:
    parts = [f"# The program: node {node}", *map(_file_text, files.shown)]
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
