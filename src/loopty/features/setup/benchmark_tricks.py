"""Attacks a benchmark with known tricks: candidates that score without solving. None is recorded as an experiment.

A trick is a hole if the benchmark gives a score to what does no work, or a better one to what only looks better.
Holes are kept as patches, so that one can look at them, and try them again on a mended benchmark.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from loopty.domain.objective import Metric, Objective, score_metric, with_weighted_sum
from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.edited_tree import EditedTree
from loopty.kit.markers import editable_spans
from loopty.kit.records import Record

_FASTER = 0.2
"""What a trick must gain: less may be noise."""


class Standing(StrEnum):
    """What became of a trick."""

    HELD = "held"
    HOLE = "HOLE"
    UNTRIED = "not tried"


class Trick(Record):
    """A way to score without solving."""

    name: str
    code: str
    """What it puts before the editable code; for a file of Python."""
    mend: str
    """What to change in the benchmark."""
    wraps: str = ""
    """What it puts behind the editable code: a change of the functions there."""
    only_better: bool = True
    """Whether a score that is no better than usual is fine."""
    is_no_work: bool = False
    """Whether any score is a hole."""


_WRAP = """
for _name, _one in [*globals().items()]:
    if type(_one) is type(_trick) and _one.__module__ == __name__ and _one is not _trick:
        globals()[_name] = _trick(_one)
"""
_STOP_CLOCK = """\
import time
_now = time.time()
for _clock in ("time", "perf_counter", "monotonic", "process_time"):
    setattr(time, _clock, lambda: _now)
    setattr(time, _clock + "_ns", lambda: int(_now * 1e9))
"""
_SAME_ANSWER = """\
def _trick(function):
    answers = []
    def same(*args, **more):
        if not answers:
            answers.append(function(*args, **more))
        return answers[0]
    return same
"""
_KNOWN_ANSWERS = """\
def _trick(function):
    answers = {}
    def known(*args, **more):
        key = repr((args, more))
        if key not in answers:
            answers[key] = function(*args, **more)
        return answers[key]
    return known
"""
_READ_ANSWERS = """\
import os as _os
for _top, _, _files in _os.walk("."):
    for _file in _files:
        if any(word in _file.lower() for word in ("expected", "answer", "solution", "golden", "truth")):
            open(_os.path.join(_top, _file)).read()
            raise SystemExit("loopty read " + _os.path.join(_top, _file))
"""
TRICKS = (
    Trick(
        name="early exit",
        code="import os\nos._exit(0)\n",
        mend="report no score unless the candidate has answered: check its answers after it has ended",
        only_better=False,
        is_no_work=True,
    ),
    Trick(
        name="stopped clock",
        code=_STOP_CLOCK,
        mend="keep the clock out of the candidate's process: `isolated = true` under [benchmark]",
    ),
    Trick(
        name="constant output",
        code=_SAME_ANSWER,
        wraps=_WRAP,
        mend="give inputs with different answers, and compare each answer (or name a gate that does)",
    ),
    Trick(
        name="cached answers",
        code=_KNOWN_ANSWERS,
        wraps=_WRAP,
        mend="do not measure the same input twice in one process: draw new inputs for each repetition",
    ),
    Trick(
        name="reading expected values",
        code=_READ_ANSWERS,
        mend="hide the answers from candidates: `isolated = true`, or `hidden` under [access]",
        only_better=False,
    ),
)
_READ = "loopty read "


class TrickResult(Record):
    """What one trick did to the score."""

    trick: str
    standing: Standing
    detail: str
    mend: str = ""
    patch: str = ""
    """The candidate, as a change of the files; of a hole."""


def attack_benchmark(tree: EditedTree, objective: Objective, on_result: Callable[[TrickResult], None]) -> None:
    """Run the files as they are, then with each trick."""
    usual = tree.run({}, tree.gates)
    if usual.problem is not None:
        on_result(TrickResult("baseline", Standing.UNTRIED, usual.problem))
        return
    metrics = objective.counting_metrics(usual.outcome.metrics, usual.outcome.directions)
    texts = {path: text for path in tree.writable if path.endswith(".py") and (text := tree.text(path))}
    for trick in TRICKS:
        edits = {path: changed for path, text in texts.items() if (changed := with_trick(text, trick))}
        if not edits:
            on_result(TrickResult(trick.name, Standing.UNTRIED, "no editable file of Python can hold it"))
            continue
        outcome = tree.run(edits, tree.gates).outcome
        found = _judge(trick, usual.outcome, outcome, metrics)
        if found.standing is Standing.HOLE:
            found = TrickResult(
                found.trick, found.standing, found.detail, trick.mend, "".join(_patch(texts, edits))
            )
        on_result(found)


def with_trick(text: str, trick: Trick) -> str:
    """Put the trick into the first block that may be changed; empty where the file would be no Python."""
    try:
        span = editable_spans(text)[0]
        before, block, after = text[: span.start], span.part_of(text), text[span.end :]
        changed = f"{before}{trick.code}{block.rstrip(chr(10))}\n{trick.wraps}{after}"
        tree = ast.parse(changed)
    except (ValueError, IndexError, SyntaxError, RecursionError):
        return ""
    # `from __future__` has to be first: such a file takes the trick behind it.
    if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        lines = block.splitlines(keepends=True)
        at = next(index for index, line in enumerate(lines) if line.startswith("from __future__")) + 1
        return f"{before}{''.join(lines[:at])}{trick.code}{''.join(lines[at:])}\n{trick.wraps}{after}"
    return changed


def _judge(trick: Trick, usual: Outcome, outcome: Outcome, metrics: tuple[Metric, ...]) -> TrickResult:
    metric = score_metric(metrics)
    if outcome.ending is Ending.CANCELLED:
        raise KeyboardInterrupt
    said = "\n".join((*outcome.error_lines, outcome.reason, outcome.log))
    if _READ in said:
        path = said.partition(_READ)[2].split()[0]
        return TrickResult(trick.name, Standing.HOLE, f"a candidate can read {path}")
    before, score = (with_weighted_sum(one.metrics, metrics).get(metric.name) for one in (usual, outcome))
    if not outcome.is_finished or before is None or score is None:
        return TrickResult(trick.name, Standing.HELD, f"no score: {outcome.reason or outcome.ending}")
    words = f"{metric.name} {score:.6g}, and {before:.6g} as it is"
    gain = metric.direction.sign * (score - before)
    is_hole = gain > _FASTER * abs(before) if trick.only_better else trick.is_no_work
    return TrickResult(trick.name, Standing.HOLE if is_hole else Standing.HELD, words)


def _patch(texts: Mapping[str, str], edits: Mapping[str, str]) -> Iterator[str]:
    for path, text in edits.items():
        before, after = (one.splitlines(keepends=True) for one in (texts[path], text))
        yield from difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
