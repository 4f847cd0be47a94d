"""The models of a task: stated in the task file or in the user's own file, and named by roles."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loopty.domain.access import is_clean_path
from loopty.domain.model import ModelSpec, Role
from loopty.domain.task import PluginChoice, Roles, VerifierSpec
from loopty.models.permits import Permits
from loopty.models.provider_names import unknown_provider
from loopty.taskfile.schema import WRONG, Checker
from loopty.taskfile.schema import Path as KeyPath
from loopty.taskfile.toml_file import data_of, refuse_faults, text_of

_EMBEDDING = "llm-code"
ASKING = ("llm-parameters", _EMBEDDING)
"""Proposers that ask the evolver's model."""
_SECRET = re.compile(
    r"(?i)(.*[_-])?(api[_-]?key|authorization|password|secret|bearer|credentials?|(access|auth)[_-]?token"
    r"|(extra|default)[_-]headers)"
)
_SAID_ELSEWHERE = (
    "model",
    "messages",
    "n",
    "stream",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "candidate_count",
)
"""A setting would get past the caps that these keep to."""
_KEPT = re.compile(r"task_[^/]*\.json")
_FILES = {"scripted": "the script of replies", "recorded": "the folder of recorded calls"}


def own_file(environ: Mapping[str, str]) -> Path:
    """Where a user states models for all tasks."""
    stated = Path(environ.get("XDG_CONFIG_HOME", ""))
    home = Path(environ.get("HOME") or Path.home())
    # A relative path is to be passed over, says the specification of the variable.
    return (stated if stated.is_absolute() else home / ".config") / "loopty" / "config.toml"


def own_models(environ: Mapping[str, str]) -> Mapping[str, ModelSpec]:
    """The models of the user's own file, where there is one; Misuse names every fault in it with its line."""
    return own_permits(environ).models


def own_permits(environ: Mapping[str, str]) -> Permits:
    """What the user's own file says of models, and of where keys may go."""
    path = own_file(environ)
    try:
        text = text_of(path, str(path))
    except OSError:
        return Permits()  # it is not there, or not this user's: a role that names a model of it is told so
    data, checker = data_of(text, str(path)), Checker()
    checker.unknown(data, {"models": None, "keys": None}, ())
    models = stated_models(data.get("models", {}), checker)
    keys = checker.value(Mapping[str, str | tuple[str, ...]], data.get("keys", {}), ("keys",), {})
    refuse_faults(checker, text, str(path))
    return Permits(
        {name: _anchored(stated, path.parent) for name, stated in models.items()},
        {place: (servers,) if isinstance(servers, str) else servers for place, servers in keys.items()},
    )


def stray_key(environ: Mapping[str, str]) -> Callable[[str, ModelSpec], str | None]:
    """Tells of a model why its key may not be sent where it is served, or None."""
    permits, where = own_permits(environ), str(own_file(environ))
    return lambda name, stated: permits.refusal(name, stated, where)


def stated_models(data: Any, checker: Checker) -> dict[str, ModelSpec]:
    """What the tables `[models.NAME]` say."""
    if not isinstance(data, dict):
        checker.fault(("models",), "must be tables, as in [models.NAME]")
        return {}
    models = {
        name: checker.table(ModelSpec, _without_keys(table, ("models", name), checker), ("models", name))
        for name, table in data.items()
    }
    for name, stated in models.items():
        if stated is not WRONG:
            for key, message in _faults(stated):
                checker.fault(("models", name, key), message)
    return models


def _without_keys(table: Any, path: KeyPath, checker: Checker) -> Any:
    """The table; a key in it is told as what it is, and not as a key of the table that is not known."""
    if not isinstance(table, dict):
        return table
    keys = [name for name in table if name == "key" or _SECRET.fullmatch(name)]
    for name in keys:
        checker.fault((*path, name), "is no place for a key: set the usual variable, or name one in `key_env`")
    return {name: value for name, value in table.items() if name not in keys}


def check_roles(
    roles: Roles,
    verifier: VerifierSpec,
    proposer: PluginChoice,
    known: Collection[str],
    checker: Checker,
) -> None:
    """Every role that is asked has a model, and names one that there is; a trial is served the user's alone."""
    for role in (Role.EVOLVER, Role.VERIFIER):
        for limit in ("trial_tokens", "trial_money_usd"):
            if getattr(roles.of(role), limit) is not None:
                checker.fault(
                    ("roles", role, limit), "is for [roles.user] alone: no trial asks the model of others"
                )
    named: list[tuple[KeyPath, str]] = [(("roles", role, "model"), roles.of(role).model) for role in Role]
    for path, model in (*named, *embeddings(proposer)):
        provider, colon, called = model.partition(":")
        if not model or model in known:
            continue
        if not (provider and colon and called):
            there = f"known are {', '.join(known)}; " if known else ""
            checker.fault(
                path, f"is {model!r}, which is no model: {there}add [models.{model}], or say provider:model"
            )
        elif told := unknown_provider(provider):
            checker.fault(path, f"is {model!r}, but {told}")
    if not roles.evolver.model:
        for path, kind in kinds(proposer):
            if kind in ASKING:
                checker.fault(path, f"is {kind}, which needs a model: {_remedy(Role.EVOLVER)}")
    for index, judged in enumerate(verifier.judged):
        # It is read, and one that was left before is removed.
        if not _KEPT.fullmatch(judged.artifact) or not is_clean_path(judged.artifact):
            path = ("verifier", "judged", index, "artifact")
            checker.fault(path, "must be the name of a file below $EVO_TRACES_DIR that is kept: task_NAME.json")
    if not roles.verifier.model and (key := verifying(verifier)):
        checker.fault(("verifier", key), f"needs a model: {_remedy(Role.VERIFIER)}")


def _anchored(stated: ModelSpec, folder: Path) -> ModelSpec:
    """The model with its file named from the root: a task would look for it in its own repository."""
    file = stated.file and str(folder / Path(stated.file).expanduser())
    return replace(stated, file=file)


def _faults(stated: ModelSpec) -> Iterator[tuple[str, str]]:
    """What is wrong between the keys of a model: the key, and the message."""
    if stated.url and not _is_address(stated.url):
        # Without the value: what is wrong with it may be a password.
        yield "url", "must be an address as in https://HOST/v1, without a name, a password, a query or a fragment"
    for name in stated.settings:
        if _SECRET.fullmatch(name):
            yield "settings", f"holds {name!r}: a key has no place in a file, name its variable in `key_env`"
        elif name in _SAID_ELSEWHERE:
            yield "settings", f"holds {name!r}, which loopty says itself: see `model` and `max_output_tokens`"
    what = _FILES.get(stated.provider)
    if not stated.provider:
        yield "provider", "is empty: say who serves the model, as openai, anthropic, google or local"
    elif told := unknown_provider(stated.provider):
        yield "provider", f"is unknown: {told}"
    elif what and not stated.file:
        yield "file", f"is missing: {what}"
    elif stated.provider == "local" and not (stated.file or stated.model):
        yield "file", "is missing: the GGUF file"
    elif stated.provider not in ("local", *_FILES) and not stated.model:
        yield "model", "is missing: what the provider calls it"
    prices = {"input_usd": stated.input_usd, "output_usd": stated.output_usd}
    if None in prices.values() and {*prices.values(), stated.cached_usd} != {None}:
        yield next(key for key, price in prices.items() if price is None), "is missing: prices count together"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return sound and "@" not in parts.netloc and not (parts.query or parts.fragment) and url.isprintable()


def kinds(proposer: PluginChoice) -> Iterator[tuple[KeyPath, Any]]:
    """The kind of the proposer, and those of its rungs where it is a ladder."""
    yield ("proposer", "kind"), proposer.kind
    rungs = proposer.options.get("rungs")
    for index, rung in enumerate(rungs if isinstance(rungs, list) else ()):
        if isinstance(rung, dict):
            yield ("proposer", "rungs", index, "kind"), rung.get("kind")


def embeddings(proposer: PluginChoice) -> Iterator[tuple[KeyPath, str]]:
    """The models that the proposer, or its rungs, compare changes by."""
    rungs = proposer.options.get("rungs")
    listed = rungs if isinstance(rungs, list) else ()
    tables = [(("proposer", "rungs", index), rung) for index, rung in enumerate(listed)]
    for path, options in ((("proposer",), {**proposer.options, "kind": proposer.kind}), *tables):
        if not isinstance(options, Mapping) or options.get("kind") != _EMBEDDING:
            continue  # what a proposer of another package calls an embedding is its own affair
        if isinstance(name := options.get("embedding"), str) and name:
            yield (*path, "embedding"), name


def embedding_models(proposer: PluginChoice) -> frozenset[str]:
    """Their names."""
    return frozenset(name for _, name in embeddings(proposer))


def verifying(verifier: VerifierSpec) -> str | None:
    """The key that makes use of the verifier."""
    used = {"screen": verifier.screen, "review": verifier.review != "off", "judged": bool(verifier.judged)}
    return next((key for key, use in used.items() if use), None)


def _remedy(role: Role) -> str:
    return f'name one, as in [roles.{role}] model = "…"'
