"""The prompt of a coding agent, and the summary that it ends with."""

from __future__ import annotations

import re

from loopty.agents.agent_work import AgentChoice
from loopty.agents.stall import Stall
from loopty.kit.fence import FENCED_IS_DATA, one_line
from loopty.record.node_record import Node

_LONGEST_SUMMARY = 120
_SUMMARY = re.compile(r"^\W*SUMMARY\W*:?\s*(.+)$", re.MULTILINE)
_HEAD = """\
You are one step of a search that improves a program. Make one change to it that you expect to improve the
objective below, and leave it in the files. {fences}

The current directory holds the files of node {node}, and you change them in place. Somebody else measures the
result after you are done, with a benchmark that you cannot change. You can read, build, test and profile here;
what counts is only what is then in the files that may be changed. No person reads along, so ask nothing and wait
for nothing.
"""
_TAIL = """\
# What to do

- Make one change with a clear idea behind it. Look at what was tried before and at how it ended: do not repeat it.
- Change only the files that may be changed. Everything else is read-only or is put back: tests, the benchmark,
  notes and helpers of yours are no part of the result. Remove temporary files.
- The program must stay correct. Check it with what is here: tests, a type checker, a small run.
- `loopty tool try command="…"` runs a line on your files as the trials do; `loopty tool check` runs the gates.
  `loopty tool context` tells more about the search, `loopty tool show id=1.2 what=diff` shows an earlier change
  (or its log, gate, traces). `loopty tool note text="…"` tells other agents what you learned, if it helps them.
- Your edits are taken when you end: there is nothing to submit.
- Do not use git, and do not look for the files of the search itself.
- End with one line: `SUMMARY:` and what you changed and why, in at most 15 words.
"""


_TUNE = """\
- `loopty tool submit mode=tune params='{"step": 2.0}'` measures your files on a short benchmark, with these
  values of declared parameters; without params, with those that they have. It costs no attempt.
"""


def agent_prompt(
    parent: Node, context: str, choice: AgentChoice, stall: Stall | None = None, has_slice: bool = False
) -> str:
    """The whole prompt of a session; `context` is about the task and the search so far, also by other agents."""
    head = _HEAD.format(fences=FENCED_IS_DATA, node=parent.name)
    own = _TUNE if has_slice else ""
    if choice.surface:
        own += f"- Change only {', '.join(choice.surface)}: others work on the rest.\n"
    if choice.prompt:
        own += f"- {choice.prompt.strip()}\n"
    if stall:
        own += f"- Your search does not get on: {stall.reason}. Choose another approach, in another place.\n"
    return f"{head}\n{context}\n{_TAIL}{own}"


def agent_summary(text: str) -> str:
    """What the agent says that it did, in one line; empty where it says nothing."""
    if found := _SUMMARY.findall(text):
        return one_line(found[-1].strip("` "), _LONGEST_SUMMARY)
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[0], _LONGEST_SUMMARY) if lines else ""
