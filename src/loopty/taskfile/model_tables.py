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
from loopty.models.provider_names import provider_problem
from loopty.taskfile.schema import WRONG, Checker
from loopty.taskfile.schema import Path as KeyPath
from loopty.taskfile.toml_file import parse_toml, raise_faults, read_text

_EMBEDDING_PROPOSER = "llm-code"
MODEL_PROPOSERS = ("llm-parameters", _EMBEDDING_PROPOSER)
"""Proposers that ask the evolver's model."""
_SECRET_NAME = re.compile(
    r"(?i)(.*[_-])?(api[_-]?key|authorization|password|secret|bearer|credentials?|(access|auth)[_-]?token"
    r"|(extra|default)[_-]headers)"
)
_SET_BY_LOOPTY = (
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
_ARTIFACT_NAME = re.compile(r"task_[^/]*\.json")
_FILE_MEANINGS = {"scripted": "the script of replies", "recorded": "the folder of recorded calls"}


def user_config_file(environ: Mapping[str, str]) -> Path:
    """Where a user states models for all tasks."""
    stated = Path(environ.get("XDG_CONFIG_HOME", ""))
    home = Path(environ.get("HOME") or Path.home())
    # A relative path is to be passed over, says the specification of the variable.
    return (stated if stated.is_absolute() else home / ".config") / "loopty" / "config.toml"


def user_config_models(environ: Mapping[str, str]) -> Mapping[str, ModelSpec]:
    """The models of the user's own file, where there is one; Misuse names every fault in it with its line."""
    return user_config_permits(environ).models


def user_config_permits(environ: Mapping[str, str]) -> Permits:
    """What the user's own file says of models, and of where keys may go."""
    path = user_config_file(environ)
    try:
        text = read_text(path, str(path))
    except OSError:
        return Permits()  # it is not there, or not this user's: a role that names a model of it is told so
    data, checker = parse_toml(text, str(path)), Checker()
    checker.check_keys(data, {"models": None, "keys": None}, ())
    models = parse_model_specs(data.get("models", {}), checker)
    keys = checker.read_value(Mapping[str, str | tuple[str, ...]], data.get("keys", {}), ("keys",), {})
    raise_faults(checker, text, str(path))
    return Permits(
        {name: _with_absolute_file(stated, path.parent) for name, stated in models.items()},
        {place: (servers,) if isinstance(servers, str) else servers for place, servers in keys.items()},
    )


def make_key_refusal(environ: Mapping[str, str]) -> Callable[[str, ModelSpec], str | None]:
    """Tells of a model why its key may not be sent where it is served, or None."""
    permits, where = user_config_permits(environ), str(user_config_file(environ))
    return lambda name, stated: permits.refusal(name, stated, where)


def parse_model_specs(data: Any, checker: Checker) -> dict[str, ModelSpec]:
    """What the tables `[models.NAME]` say."""
    if not isinstance(data, dict):
        checker.add_fault(("models",), "must be tables, as in [models.NAME]")
        return {}
    models = {
        name: checker.read_table(ModelSpec, _drop_secrets(table, ("models", name), checker), ("models", name))
        for name, table in data.items()
    }
    for name, stated in models.items():
        if stated is not WRONG:
            for key, message in _faults(stated):
                checker.add_fault(("models", name, key), message)
    return models


def _drop_secrets(table: Any, path: KeyPath, checker: Checker) -> Any:
    """The table; a key in it is told as what it is, and not as a key of the table that is not known."""
    if not isinstance(table, dict):
        return table
    keys = [name for name in table if name == "key" or _SECRET_NAME.fullmatch(name)]
    for name in keys:
        checker.add_fault((*path, name), "is no place for a key: set the usual variable, or name one in `key_env`")
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
                checker.add_fault(
                    ("roles", role, limit), "is for [roles.user] alone: no trial asks the model of others"
                )
    named: list[tuple[KeyPath, str]] = [(("roles", role, "model"), roles.of(role).model) for role in Role]
    for path, model in (*named, *embedding_entries(proposer)):
        provider, colon, called = model.partition(":")
        if not model or model in known:
            continue
        if not (provider and colon and called):
            there = f"known are {', '.join(known)}; " if known else ""
            checker.add_fault(
                path, f"is {model!r}, which is no model: {there}add [models.{model}], or say provider:model"
            )
        elif told := provider_problem(provider):
            checker.add_fault(path, f"is {model!r}, but {told}")
    if not roles.evolver.model:
        for path, kind in proposer_kinds(proposer):
            if kind in MODEL_PROPOSERS:
                checker.add_fault(path, f"is {kind}, which needs a model: {_remedy(Role.EVOLVER)}")
    for index, judged in enumerate(verifier.judged):
        # It is read, and one that was left before is removed.
        if not _ARTIFACT_NAME.fullmatch(judged.artifact) or not is_clean_path(judged.artifact):
            path = ("verifier", "judged", index, "artifact")
            checker.add_fault(
                path, "must be the name of a file below $EVO_TRACES_DIR that is kept: task_NAME.json"
            )
    if not roles.verifier.model and (key := verifier_use(verifier)):
        checker.add_fault(("verifier", key), f"needs a model: {_remedy(Role.VERIFIER)}")


def _with_absolute_file(stated: ModelSpec, folder: Path) -> ModelSpec:
    """The model with its file named from the root: a task would look for it in its own repository."""
    file = stated.file and str(folder / Path(stated.file).expanduser())
    return replace(stated, file=file)


def _faults(stated: ModelSpec) -> Iterator[tuple[str, str]]:
    """What is wrong between the keys of a model: the key, and the message."""
    if stated.url and not _is_address(stated.url):
        # Without the value: what is wrong with it may be a password.
        yield "url", "must be an address as in https://HOST/v1, without a name, a password, a query or a fragment"
    for name in stated.settings:
        if _SECRET_NAME.fullmatch(name):
            yield "settings", f"holds {name!r}: a key has no place in a file, name its variable in `key_env`"
        elif name in _SET_BY_LOOPTY:
            yield "settings", f"holds {name!r}, which loopty says itself: see `model` and `max_output_tokens`"
    what = _FILE_MEANINGS.get(stated.provider)
    if not stated.provider:
        yield "provider", "is empty: say who serves the model, as openai, anthropic, google or local"
    elif told := provider_problem(stated.provider):
        yield "provider", f"is unknown: {told}"
    elif what and not stated.file:
        yield "file", f"is missing: {what}"
    elif stated.provider == "local" and not (stated.file or stated.model):
        yield "file", "is missing: the GGUF file"
    elif stated.provider not in ("local", *_FILE_MEANINGS) and not stated.model:
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


def proposer_kinds(proposer: PluginChoice) -> Iterator[tuple[KeyPath, Any]]:
    """The kind of the proposer, and those of its rungs where it is a ladder."""
    yield ("proposer", "kind"), proposer.kind
    rungs = proposer.options.get("rungs")
    for index, rung in enumerate(rungs if isinstance(rungs, list) else ()):
        if isinstance(rung, dict):
            yield ("proposer", "rungs", index, "kind"), rung.get("kind")


def embedding_entries(proposer: PluginChoice) -> Iterator[tuple[KeyPath, str]]:
    """The models that the proposer, or its rungs, compare changes by."""
    rungs = proposer.options.get("rungs")
    listed = rungs if isinstance(rungs, list) else ()
    tables = [(("proposer", "rungs", index), rung) for index, rung in enumerate(listed)]
    for path, options in ((("proposer",), {**proposer.options, "kind": proposer.kind}), *tables):
        if not isinstance(options, Mapping) or options.get("kind") != _EMBEDDING_PROPOSER:
            continue  # what a proposer of another package calls an embedding is its own affair
        if isinstance(name := options.get("embedding"), str) and name:
            yield (*path, "embedding"), name


def embedding_models(proposer: PluginChoice) -> frozenset[str]:
    """Their names."""
    return frozenset(name for _, name in embedding_entries(proposer))


def verifier_use(verifier: VerifierSpec) -> str | None:
    """The key that makes use of the verifier."""
    used = {"screen": verifier.screen, "review": verifier.review != "off", "judged": bool(verifier.judged)}
    return next((key for key, use in used.items() if use), None)


def _remedy(role: Role) -> str:
    return f'name one, as in [roles.{role}] model = "…"'
