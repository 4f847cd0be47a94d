"""Replies that real models gave to the prompts, before and after they were rewritten: the reader reads them."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from loopty.proposers.code.new_files import apply_changes
from loopty.proposers.code.replies import parse_changes, parse_items
from loopty.proposers.code.reply_edits import ProposalFault

_BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
sys.path.insert(0, str(_BENCHMARKS))

from prompt_programs import PROGRAMS, Program  # noqa: E402

_PROGRAMS = {program.name: program for program in PROGRAMS}


def _changes(program: Program, text: str, is_whole: bool) -> bool:
    known = {program.path, "evaluate.py", *(path for path, _ in program.others)}
    try:
        item, *_ = parse_items(text, is_whole, 1) or [None]
        changes = parse_changes(item, known, program.path) if item else []
        edits = apply_changes(changes, {program.path: program.text}.get, frozenset())
    except ProposalFault:
        return False
    return set(edits) == {program.path} and edits[program.path] not in ("", program.text)


def _share(model: str, prompts: str, form: str) -> float:
    with gzip.open(_BENCHMARKS / "recorded" / f"qwen2.5-coder-{model}-{prompts}.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["variant"] == form]
    assert len(rows) == 48
    return sum(_changes(_PROGRAMS[row["program"]], row["text"], row["whole"]) for row in rows) / len(rows)


@pytest.mark.parametrize(
    ("model", "form", "fewest"), [("1.5b", "search", 0.7), ("1.5b", "whole", 0.75), ("0.5b", "whole", 0.6)]
)
def test_many_more_replies_change_the_program_than_before(model: str, form: str, fewest: float) -> None:
    now = _share(model, "after", form)
    assert now >= fewest
    assert now >= 1.7 * _share(model, "before", form)
