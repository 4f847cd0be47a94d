"""GEPA: a script that calls `optimize_anything(seed_candidate=…, evaluator=…)`."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping

from loopty.features.setup.peers.peer_task import (
    EVALUATE,
    MAX,
    TIMEOUT,
    PeerTask,
    TaskFolder,
    assigned,
    functions,
    goal,
    parsed,
)
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.paths import literal

_CALL = "optimize_anything"
_FOLDER, _FILE = "candidate", "candidate"
_PART = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}")
"""Names of parts that may be file names: none leads out of the folder."""


def gepa_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise the only script at the top that calls the optimiser; its seed becomes a file."""
    scripts = [path for path in folder.files if path.endswith(".py") and "/" not in path]
    calls = [(path, call) for path in scripts if (call := _call(folder.text(path)))]
    if len(calls) != 1:
        return None
    return _task(folder, *calls[0])


def gepa_candidate(folder: TaskFolder, script: str, candidate: str) -> PeerTask | None:
    """Wire a script with the file of its candidate; None if it does not call the optimiser."""
    call = _call(folder.text(script))
    return _task(folder, script, call, candidate) if call else None


def _task(folder: TaskFolder, script: str, call: ast.Call, file: str = "") -> PeerTask:
    """Wire a script by its call; `file` is the candidate, instead of the call's seed."""
    given = {word.arg: word.value for word in call.keywords if word.arg}
    seed = call.args[0] if call.args else given.get("seed_candidate")
    names = _names(folder.text(script))
    value = _literal(seed, names)
    texts = _candidate(value)
    new_files = {} if file else texts or {}
    if file:
        path = file
    elif texts is None:
        path = _file_in(seed, folder)
    else:
        path = _FOLDER if any("/" in name for name in texts) else next(iter(texts))
    draft = TaskDraft(
        f"{EVALUATE} {shlex.quote(script)} {shlex.quote(path or _FILE)} --as gepa",
        (f"{_FOLDER}/*",) if path == _FOLDER else (literal(path or _FILE),),
        statement=goal("\n\n".join(_texts(given, names))),
        direction=MAX,
        files=folder.sealed(script, path),
        timeout_seconds=TIMEOUT,
        attempts=_evaluations(call, names) or 100,
        audit_command=_audit(script, path, given),
    ).with_note("command", f"{script} calls {_CALL} with its evaluator")
    is_named_oddly = isinstance(value, dict) and {*map(type, value.values())} == {str}
    why = "has parts whose names are no file names" if is_named_oddly else "is computed"
    refusal = "" if path else f"the seed of {script} {why}: write it to a file and pass open(FILE).read()"
    what = f"{script} calls {_CALL}; its seed {f'is {path}' if path else why}"
    draft = draft.with_note("direction", "GEPA maximises its score")
    missing = {name: text for name, text in new_files.items() if not folder.has(name)}
    return PeerTask("GEPA", what, draft, missing, refusal=refusal)


def _call(text: str) -> ast.Call | None:
    if _CALL not in text or "gepa" not in text:
        return None
    for statement in parsed(text):
        for one in ast.walk(statement):
            if isinstance(one, ast.Call) and getattr(one.func, "id", getattr(one.func, "attr", "")) == _CALL:
                return one
    return None


def _names(text: str) -> dict[str, ast.expr]:
    """Return what names of the script and of its functions are set to."""
    body = parsed(text)
    inner = (assigned(function.body) for function in functions(body).values())
    return {name: value for names in (*inner, assigned(body)) for name, value in names.items()}


def _literal(value: ast.expr | None, names: Mapping[str, ast.expr], depth: int = 3) -> object:
    """Compute the value of text, of a name for it, and of tables of them; None for what is computed."""
    if value is None:
        return ""
    if isinstance(value, ast.Name) and depth:
        return _literal(names.get(value.id, ast.Constant(0)), names, depth - 1)
    if isinstance(value, ast.Dict) and depth:
        keys = [getattr(key, "value", None) for key in value.keys]
        texts = [_literal(one, names, depth - 1) for one in value.values]
        return dict(zip(keys, texts, strict=True))
    if isinstance(value, ast.Constant):
        return "" if value.value is None else value.value
    return None


def _candidate(seed: object) -> dict[str, str] | None:
    """Return the files of a seed: one for a text, one in a folder for each part; None if it is computed."""
    if isinstance(seed, str):
        return {f"{_FILE}{_suffix(seed)}": seed}
    if isinstance(seed, dict) and seed and all(isinstance(one, str) for pair in seed.items() for one in pair):
        files = {f"{_FOLDER}/{name}{_suffix(text)}": text for name, text in seed.items()}
        return files if all(map(_PART.fullmatch, seed)) else None
    return None


def _suffix(text: str) -> str:
    code = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return ".py" if any(isinstance(one, code) for one in parsed(text)) else ".txt"


def _file_in(seed: ast.expr | None, folder: TaskFolder) -> str:
    """Return the file of the folder that the seed's expression reads, or nothing."""
    texts = (one.value for one in ast.walk(seed) if isinstance(one, ast.Constant)) if seed else ()
    return next((text for text in texts if isinstance(text, str) and text in folder.files), "")


def _texts(given: Mapping[str, ast.expr], names: Mapping[str, ast.expr]) -> Iterator[str]:
    for key in ("objective", "background"):
        if key in given and isinstance(text := _literal(given[key], names), str) and text.strip():
            yield text.strip()


def _evaluations(call: ast.Call, names: Mapping[str, ast.expr]) -> int:
    """Return the number of evaluations that the config allows, or nothing."""
    places: list[ast.AST] = [call, *(value for value in names.values() if isinstance(value, ast.Call))]
    words = (one for place in places for one in ast.walk(place) if isinstance(one, ast.keyword))
    found = (one.value for one in words if one.arg in ("max_evals", "max_metric_calls", "max_candidate_proposals"))
    return next(
        (int(one.value) for one in found if isinstance(one, ast.Constant) and isinstance(one.value, int)), 0
    )


def _audit(script: str, path: str, given: Mapping[str, ast.expr]) -> str:
    """Return the command that scores a candidate on examples that the search does not use; or nothing."""
    if not ("test_set" in given or {"dataset", "valset"} <= set(given)):
        return ""
    return f"{EVALUATE} {shlex.quote(script)} {shlex.quote(path or _FILE)} --as gepa"
