"""autoresearch (`program.md`, `train.py`) and pi-autoresearch (`measure.sh`, `METRIC name=value`)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

from loopty.domain.objective import direction_of
from loopty.features.setup.peers.peer_task import MAX, TIMEOUT, PeerTask, TaskFolder, goal, number
from loopty.features.setup.task_draft import GateDraft, TaskDraft
from loopty.kit.paths import literal

_PROGRAM, _TRAIN = "program.md", "train.py"
_SUMMARY = re.compile(r"^---\n([A-Za-z]\w*):\s", re.MULTILINE)
_BETTER = re.compile(r"\b(?:(lowest|lower|minimi[sz]e)|(highest|higher|maximi[sz]e))\b", re.IGNORECASE)
_AIM = re.compile(r"\b(lowest|highest)\s+`?([A-Za-z]\w*)|\b([lL]ower|[hH]igher)\s+`?([a-z]\w*)`? is better")
_LIMIT = re.compile(r"exceeds (\d{1,9}) minutes")
_CODE = re.compile(r"`([^`\n]+)`")
_UNTOUCHED = re.compile(r"do not (?:modify|change|edit|touch)|read-only|off limits|cannot", re.IGNORECASE)


def autoresearch_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise a training script with instructions for agents; the script reports its own score."""
    if not folder.has(_PROGRAM, _TRAIN):
        return None
    text = folder.text(_PROGRAM)
    aim = _AIM.search(text)
    summary = _SUMMARY.search(text)
    metric = (summary[1] if summary else "") or ((aim[2] or aim[4]) if aim else "")
    limit = _LIMIT.search(text)
    runner = "uv run" if "uv run" in text and shutil.which("uv") else "python3"
    draft = TaskDraft(
        f"{runner} {_TRAIN}",
        (_TRAIN,),
        statement=goal(text),
        direction=_direction(aim[0] if aim else "", metric),
        result="stdout",
        score_key=metric,
        files=tuple(literal(path) for path in folder.files if path == "prepare.py"),
        timeout_seconds=60.0 * int(limit[1]) if limit else 600.0,
        trains=True,
    ).with_note("files", f"{_TRAIN} may change and prints its own score, so integrity is weak")
    draft = draft.with_note("direction", f"{_PROGRAM} says so")
    return PeerTask("autoresearch", f"{_PROGRAM} is the goal, {_TRAIN} prints {metric or 'its metric'}", draft)


_PLACES = (
    (".auto/measure.sh", ".auto/prompt.md", ".auto/checks.sh", ".auto/config.json"),
    ("autoresearch.sh", "autoresearch.md", "autoresearch.checks.sh", "autoresearch.config.json"),
)
_PRIMARY = re.compile(r"\*\*Primary\*\*:?\s*`?([^\s`(,]+)`?\s*([^\n]*)", re.IGNORECASE)
_PRINTED = re.compile(r"METRIC (\w+)=")
_HEADING = re.compile(r"^(#+)\s*(.+?)\s*$", re.MULTILINE)
_WORD = re.compile(r"[\w./*-]+")
_ITERATIONS = re.compile(r'"maxIterations"\s*:\s*(\d{1,9})')


def pi_autoresearch_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise a script that prints `METRIC name=value`, with its prompt, checks and config."""
    place = next((names for names in _PLACES if names[0] in folder.files), None)
    if place is None:
        return None
    measure, prompt, checks, config = place
    text, script = folder.text(folder.first(prompt)), folder.text(measure)
    primary, printed = _PRIMARY.search(text), _PRINTED.search(script)
    metric = primary[1] if primary else printed[1] if printed else ""
    write = _scope(_part(text, "files in scope"), folder.files)
    limit = _ITERATIONS.search(folder.text(folder.first(config)))
    has_checks = checks in folder.files
    draft = TaskDraft(
        f"bash {measure}",
        write,
        statement=goal("\n\n".join(filter(None, (_part(text, "objective"), _part(text, "constraints"))))),
        direction=_direction(primary[2] if primary else "", metric),
        result="stdout",
        score_key=metric,
        files=tuple(literal(name) for name in (measure, checks) if name in folder.files),
        writable_copy=True,
        timeout_seconds=TIMEOUT,
        attempts=int(number(int(limit[1]) if limit else None) or 100),
        gates=(GateDraft("checks", f"bash {checks}", 300.0),) if has_checks else (),
    ).with_note("writable_copy", f"{measure} may write beside the sources")
    draft = draft.with_note("direction", f"{prompt} says so" if primary else "the metric's name")
    refusal = (
        "" if write else f"{prompt} names no file of this folder under Files in Scope: name some with --write"
    )
    what = f"{measure} prints METRIC {metric or 'lines'}{f', {checks} is a gate' if has_checks else ''}"
    return PeerTask("pi-autoresearch", what, draft, refusal=refusal)


def _direction(words: str, metric: str) -> str:
    """Say which values are better: what the words say, else the metric's name, else higher ones."""
    if found := _BETTER.search(words):
        return "min" if found[1] else MAX
    return str(direction_of(metric) or MAX)


def _part(text: str, heading: str) -> str:
    """Return what stands under a heading, to the next one of its level or above."""
    headings = list(_HEADING.finditer(text))
    for place, one in enumerate(headings):
        if one[2].lower().startswith(heading):
            after = next((other for other in headings[place + 1 :] if len(other[1]) <= len(one[1])), None)
            return text[one.end() : after.start() if after else len(text)].strip()
    return ""


def _scope(text: str, files: Sequence[str]) -> tuple[str, ...]:
    """List the files and folders of this folder that a text names."""
    kept = [line for line in text.splitlines() if not _UNTOUCHED.search(line)]
    words = [
        word.removeprefix("./").rstrip("./")
        for line in kept
        for word in (_CODE.findall(line) or _WORD.findall(line))
    ]
    found: list[str] = []
    for word in dict.fromkeys(words):
        if word.startswith((".auto", "autoresearch.")):
            continue  # what scores is no candidate, whatever the prompt allows an agent
        folder = word.removesuffix("/**").removesuffix("/*")
        if word in files:
            found.append(literal(word))
        elif folder and any(path.startswith(f"{folder}/") for path in files):
            found.append(f"{literal(folder)}/**")
        elif "*" in word and "/" in word:
            found.append(word)
    return tuple(found)
