"""The files of a node: what runs now, logs by ranges of bytes, traces, learning curve, diff, and calls."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Iterator
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.evidence import paired_estimate
from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.task import Task
from loopty.domain.trial import Pool
from loopty.engine.protocols import Trial
from loopty.kit import codec
from loopty.kit.safe_folder import SafeFile
from loopty.models.archive import Archive
from loopty.record.calls import Reservation, Spend
from loopty.record.history import History
from loopty.record.node_record import Pairing
from loopty.record.nodes import require_files
from loopty.record.run_record import Run
from loopty.record.trials import Trials, trial_parts
from loopty.record.verdicts import Confirmation
from loopty.session.reader import CampaignReader
from loopty.show.run_status import RunState, RunStatus
from loopty.show.running import RunningTrialRow
from loopty.web.answers import node_name, node_names
from loopty.workspaces import stages
from loopty.workspaces.node_folders import NodeFolder
from loopty.workspaces.state_folder import StateFolder

_TAIL_BYTES = 8_192
_LONGEST_LINE = 300
_MOST_ROWS = 40


def running_rows(
    history: History, run: Run, status: RunStatus, state: StateFolder, task: Task | None, now: float
) -> list[dict[str, Any]]:
    """List a row for each running trial, then for each question a model works on; none of a process that died."""
    if status.state is RunState.LOST:
        return []
    rows = [_trial_row(history, run, row, state, task, now) for row in status.running[:_MOST_ROWS]]
    calls = list(Spend.of(run).reservations.items())[:_MOST_ROWS]
    return rows + [_call_row(history, name, call) for name, call in calls if call.pool]


def _trial_row(
    history: History, run: Run, row: RunningTrialRow, state: StateFolder, task: Task | None, now: float
) -> dict[str, Any]:
    subject = history[row.repeat.subject if row.repeat else row.node]
    pairing = Confirmation.of(run).pairing if row.pool is Pool.CONFIRM else subject.pairing
    low, high = _interval(history, run, pairing) if row.repeat and row.repeat.rival else (None, None)
    newest = _newest_row(state, history, row)
    limit = task.benchmark.timeout_seconds if task else None
    return {
        "trial": f"{row.node}#{row.number}",
        "node": node_name(history, subject.id),
        "pool": row.pool.value,
        "operator": subject.operator,
        "since": now - row.age_seconds,
        "phase": _phase(row),
        "low_percent": low,
        "high_percent": high,
        "progress": min(row.age_seconds / limit, 1.0) if limit else None,
        "last_line": _last_line(state, history, row),
        "row": newest[1] if newest else None,
        "step": newest[0] if newest else None,
        "model": "",
        "tokens": None,
    }


def _call_row(history: History, name: str, call: Reservation) -> dict[str, Any]:
    return {
        "trial": f"call:{name}",
        "node": node_name(history, call.node),
        "pool": call.pool.value if call.pool else "",
        "operator": call.operator,
        "since": call.since,
        "phase": f"asking the {call.role}",
        "low_percent": None,
        "high_percent": None,
        "progress": None,
        "last_line": "",
        "row": None,
        "step": None,
        "model": "",
        "tokens": call.tokens,
    }


def _phase(row: RunningTrialRow) -> str:
    if row.repeat is None:
        return "the verifier looks at it" if row.pool is Pool.REVIEW else "running"
    if row.pool is Pool.CONFIRM:
        return f"confirming, pair {row.repeat.number}"
    return f"pair {row.repeat.number}" if row.repeat.rival else f"measurement {row.repeat.number}"


def _interval(history: History, run: Run, pairing: Pairing | None) -> tuple[float | None, float | None]:
    """Return the interval of the gain in the pairs so far, in percent of the incumbent."""
    metrics = history.counting_metrics(run.number)
    if pairing is None or not metrics:
        return None, None
    metric = score_metric(metrics)
    name, sign = metric.name, metric.direction.sign
    pairs = [(mine.get(name), theirs.get(name)) for mine, theirs in pairing.pairs_so_far]
    gains = [100 * sign * (mine - theirs) / abs(theirs) for mine, theirs in pairs if mine is not None and theirs]
    found = paired_estimate(gains)
    return (found.low, found.high) if found else (None, None)


def trial_folder(state: StateFolder, history: History, node: NodeId, number: int, pool: Pool) -> Any:
    """Find the files of a trial, also while it runs."""
    found = history[node]
    root = history[history.runs[node.run].root]
    return stages.results_folder(state, Trial(found, root, number, pool, 0))


def running_pool(history: History, trial: str) -> Pool | None:
    """Return the pool of a running trial, by its name; None if it does not run."""
    node, _ = trial_parts(trial)
    run = history.runs.get(node.run)
    found = Trials.of(run).running.get(trial) if run else None
    return found.pool if found else None


def _last_line(state: StateFolder, history: History, row: RunningTrialRow) -> str:
    folder = trial_folder(state, history, row.node, row.number, row.pool)
    for name in ("stdout.log", "stderr.log"):
        try:
            text = folder.file(name).read(_TAIL_BYTES, tail=True).decode(errors="replace")
        except OSError:
            continue
        if lines := [line for line in text.splitlines() if line.strip()]:
            return str(lines[-1][:_LONGEST_LINE])
    return ""


def _newest_row(
    state: StateFolder, history: History, row: RunningTrialRow
) -> tuple[float, dict[str, float]] | None:
    """Return the last whole row of metrics that a running trial has reported: its step, and the metrics."""
    file = trial_folder(state, history, row.node, row.number, row.pool).file("metrics.csv")
    try:
        head = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
        tail = file.read(_TAIL_BYTES, tail=True).decode(errors="replace")
        names = next(csv.reader(head[:1]), [])
        whole = tail[: tail.rfind("\n")].splitlines() if "\n" in tail else []
        values = [float(cell) for cell in next(csv.reader(whole[-1:]), [])]
    except (OSError, ValueError, csv.Error):
        return None
    if len(whole) < 2 or len(values) != len(names) or not values:
        return None
    return values[0], {
        name: value for name, value in zip(names[1:], values[1:], strict=True) if math.isfinite(value)
    }


_LOGS = ("stdout.log", "stderr.log", "metrics.csv", "result.json")
_LOG_NAME = re.compile(r"(?:[a-z]+-[0-9]+/)?[A-Za-z0-9_.-]{1,100}\Z")
_LARGEST_PART = 1 << 18
_LARGEST_TEXT = 1 << 20
_MOST_CURVE_ROWS = 600
_MOST_TRACES = 2_000


def log_names(reader: CampaignReader, node: NodeId) -> list[dict[str, Any]]:
    """List the logs of a node with their sizes."""
    folder = _folder(reader, node)
    names = sorted({*folder.plain.names(), *(name for name in folder.folded if "/" not in name)})
    found = [name for name in names if name in _LOGS or name.endswith(".log")]
    return [{"name": name, "bytes": _size(folder.plain.file(name), folder.folded.get(name))} for name in found]


def trace_names(reader: CampaignReader, node: NodeId) -> list[dict[str, Any]]:
    """List the traces of a node: one for each task of the benchmark."""
    folder = _folder(reader, node)
    rows = []
    for name in folder.names_below("traces")[:_MOST_TRACES]:
        try:
            content = folder.read(f"traces/{name}", _LARGEST_PART)
        except OSError:
            continue
        rows.append({"task": name.removesuffix(".json"), "score": _score_in(content), "bytes": len(content)})
    return rows


def trace_text(reader: CampaignReader, node: NodeId, task: str) -> dict[str, Any]:
    name = _checked_name(task if "." in task else f"{task}.json")
    folder = _folder(reader, node)
    known = folder.names_below("traces")
    if name not in known and task in known:
        name = task
    if name not in known:
        raise Misuse(f"node {node} has no trace {task}")
    content = folder.read(f"traces/{name}", _LARGEST_TEXT + 1)
    return {"task": task, "text": _text(content[:_LARGEST_TEXT]), "cut": max(len(content) - _LARGEST_TEXT, 0)}


def log_part(reader: CampaignReader, node: NodeId, name: str, start: int, count: int) -> dict[str, Any]:
    """Return some bytes of a log, from this byte on, or with a negative start from the end."""
    found = reader.history[node]
    folder = _folder(reader, node)
    *above, last = _checked_name(name).split("/")
    file = folder.plain.below(*above).file(last)
    folded = folder.folded.get(name)
    return {"name": name, **_part(file, folded, start, count), "running": found.running}


def trial_tail(reader: CampaignReader, trial: str, start: int, count: int) -> dict[str, Any]:
    """Return some bytes of what a running trial prints."""
    pool = running_pool(reader.history, trial)
    if pool is None:
        raise Misuse(f"trial {trial} does not run now")
    node, number = trial_parts(trial)
    file = trial_folder(reader.record.state, reader.history, node, number, pool).file("stdout.log")
    printed = None if file.exists() else b""  # a log is made with its first byte
    return {"name": file.name, **_part(file, printed, start, count), "running": True}


def curve(reader: CampaignReader, node: NodeId) -> dict[str, Any]:
    """Return the learning curves of a node and of its parent, in the same columns."""
    columns, rows = _curve(reader, node)
    parent = node.parent
    others = _curve(reader, parent) if parent else ([], [])
    directions = {name: "min" if "lower is better" in name.lower() else "max" for name in columns[1:]}
    return {
        "columns": columns,
        "directions": directions,
        "rows": rows,
        "parent": others[1] if others[0] == columns else [],
    }


def diff_answer(reader: CampaignReader, node: NodeId, against: str) -> dict[str, Any]:
    """Tell what the node changed in its parent, in the baseline, or in another node."""
    history = reader.history
    if against in ("", "parent", "baseline"):
        found = reader.diff(node, baseline=against == "baseline")
        other, patch = found.against, found.patch
        params = {name: {"before": each.before, "after": each.after} for name, each in found.params.items()}
    else:
        other = history[reader.find_node(against)].id
        patch, params = patch_between(reader, other, node), param_differences(reader, other, node)
    return {"against": node_name(history, other), "params": params, **patch_answer(patch)}


def patch_between(reader: CampaignReader, one: NodeId, other: NodeId) -> str:
    from loopty.session.trust import open_own_repository

    first, second = reader.history[one], reader.history[other]
    require_files(first)
    require_files(second)
    repository = open_own_repository(reader.record.state.top)
    return repository.patches.between(first.commit, second.commit).decode(errors="replace")


def param_differences(reader: CampaignReader, one: NodeId, other: NodeId) -> dict[str, Any]:
    before, after = reader.history[one].params, reader.history[other].params
    return {
        name: {"before": before.get(name), "after": after.get(name)}
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    }


def patch_answer(patch: str) -> dict[str, Any]:
    """Return the patch, with the lines that each file gained and lost."""
    files: dict[str, list[int]] = {}
    path = ""
    for line in patch.splitlines():
        if line.startswith("diff --git "):
            path = line.rpartition(" b/")[2]
            files[path] = [0, 0]
        elif path and line.startswith("+") and not line.startswith("+++ "):
            files[path][0] += 1
        elif path and line.startswith("-") and not line.startswith("--- "):
            files[path][1] += 1
    return {
        "patch": patch[:_LARGEST_TEXT],
        "cut": max(len(patch) - _LARGEST_TEXT, 0),
        "files": [{"path": name, "added": up, "removed": down} for name, (up, down) in files.items()],
    }


def call_answers(reader: CampaignReader, node: NodeId) -> dict[str, Any]:
    """List the model calls behind a node, with prompts and replies."""
    calls = reader.calls(node)
    records = Archive(reader.record.state.calls).records_of([call.reserved.call for call in calls])
    rows = []
    for call in calls:
        record, settled = records.get(call.reserved.call), call.settled
        prompt = _plain_text(codec.plain(record.prompt)) if record else ""
        reply = _plain_text(codec.plain(record.reply)) if record and record.reply else ""
        cut = max(len(prompt) - _LARGEST_PART, 0) + max(len(reply) - _LARGEST_PART, 0)
        rows.append(
            {
                "call": call.reserved.call,
                "role": call.reserved.role,
                "model": call.reserved.model,
                "operator": call.reserved.operator,
                "at": call.at,
                "seconds": max(record.at - call.at, 0.0) if record else None,
                "tokens": call.tokens,
                "money_usd": call.money_usd,
                "failure": settled.failure if settled else "",
                "prompt": prompt[:_LARGEST_PART],
                "reply": reply[:_LARGEST_PART],
                "cut": cut,
                "led_to": node_names(reader.history, call.new_nodes),
                "refused": [event.reason for event in call.own_refusals],
            }
        )
    return {"calls": rows}


def raw_record(reader: CampaignReader, node: NodeId) -> dict[str, Any]:
    return {"text": json.dumps(json.loads(reader.history.body(node)), indent=2, ensure_ascii=False)}


def _folder(reader: CampaignReader, node: NodeId) -> NodeFolder:
    folders = reader.record.folders
    try:
        return folders.open(node)
    finally:
        folders.close()


def _plain_text(value: Any) -> str:
    """Return a prompt or a reply as text: its strings one after the other."""
    return "\n\n".join(_strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _curve(reader: CampaignReader, node: NodeId) -> tuple[list[str], list[list[float]]]:
    try:
        content = _folder(reader, node).read("metrics.csv", 4 * _LARGEST_TEXT)
    except OSError:
        return [], []
    lines = content.decode(errors="replace").splitlines()
    columns = next(csv.reader(lines[:1]), [])
    rows = []
    for line in _thin(lines[1:], _MOST_CURVE_ROWS):
        try:
            cells = [float(cell) for cell in next(csv.reader([line]), [])]
        except (ValueError, csv.Error):
            continue
        if len(cells) == len(columns):
            rows.append(cells)
    return columns, rows


def _thin(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [lines[round(place * (len(lines) - 1) / (most - 1))] for place in range(most)]


def _part(file: SafeFile, folded: bytes | None, start: int, count: int) -> dict[str, Any]:
    if not 1 <= count <= _LARGEST_PART:
        raise Misuse(f"bytes is 1 to {_LARGEST_PART:,}")
    if folded is not None:
        size = len(folded)
        begin = max(size + start, 0) if start < 0 else min(start, size)
        content = folded[begin : begin + count]
    else:
        try:
            handle = file.open(os.O_RDONLY)
        except OSError:
            raise Misuse(f"there is no file {file.name} of it") from None
        with os.fdopen(handle, "rb") as opened:
            size = os.fstat(handle).st_size
            begin = max(size + start, 0) if start < 0 else min(start, size)
            opened.seek(begin)
            content = opened.read(count)
    return {"from": begin, "to": begin + len(content), "size": size, "text": _text(content)}


def _size(file: SafeFile, folded: bytes | None) -> int:
    if folded is not None:
        return len(folded)
    try:
        return file.size
    except OSError:
        return 0


def _score_in(content: bytes) -> float | None:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    score = data.get("score") if isinstance(data, dict) else None
    return score if isinstance(score, int | float) and not isinstance(score, bool) else None


def _checked_name(name: str) -> str:
    if not _LOG_NAME.match(name) or ".." in name:
        raise Misuse(f"{name!r} is not the name of a file of a node")
    return name


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
