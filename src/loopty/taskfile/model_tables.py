"""The tables of models, roles and coding agents, in the task file and the user's config file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from loopty.domain.access import is_clean_path
from loopty.domain.model import ModelSpec, Role, RoleBudget, Roles, VerifierSpec
from loopty.domain.task import PluginChoice, Pools, Task
from loopty.kit.records import replace
from loopty.taskfile.schema import WRONG, Checker, KeyPath, parse_toml, raise_faults, read_text

if TYPE_CHECKING:
    from loopty.models.keys import Permits


MODEL_PROPOSERS = ("llm-parameters", "llm-code")
"""Proposers that call the evolver's model."""
AGENT_PROPOSER = "agent"
"""The proposer that calls the evolver's model if there is one: its caps also hold for the agent's own login."""
_SECRET_NAME = (
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
"""loopty sets these itself: a setting of the user would bypass the caps."""
_ARTIFACT_NAME = r"task_[^/]*\.json"
_FILE_MEANINGS = {"scripted": "the script of replies", "recorded": "the folder of recorded calls"}


def user_config_file(environ: Mapping[str, str]) -> Path:
    """Return the file in which a user defines models for all tasks."""
    config_home = Path(environ.get("XDG_CONFIG_HOME", ""))
    home = Path(environ.get("HOME") or Path.home())
    # The XDG specification says to ignore a relative path.
    return (config_home if config_home.is_absolute() else home / ".config") / "loopty" / "config.toml"


def _config_text(path: Path) -> str | None:
    """Read the file; None if it is missing or unreadable: check_roles reports the models that are missing."""
    try:
        return read_text(path, str(path))
    except OSError:
        return None


def user_config_models(environ: Mapping[str, str]) -> Mapping[str, ModelSpec]:
    """Return the models of the user's config file, if it exists. Raises Misuse with every fault and its line."""
    if _config_text(user_config_file(environ)) is None:
        return {}
    return user_config_permits(environ).models


def user_config_permits(environ: Mapping[str, str]) -> Permits:
    """Return the models of the user's config file, and the servers that it allows keys to be sent to."""
    from loopty.models.keys import Permits

    path = user_config_file(environ)
    text = _config_text(path)
    if text is None:
        return Permits()
    data, checker = parse_toml(text, str(path)), Checker()
    checker.check_keys(data, {"models": None, "keys": None, "notify": None}, ())
    models = parse_model_specs(data.get("models", {}), checker)
    keys = checker.read_value(Mapping[str, str | tuple[str, ...]], data.get("keys", {}), ("keys",), {})
    raise_faults(checker, text, str(path))
    return Permits(
        {name: _with_absolute_file(model, path.parent) for name, model in models.items()},
        {key: (servers,) if isinstance(servers, str) else servers for key, servers in keys.items()},
    )


def make_key_refusal(environ: Mapping[str, str]) -> Callable[[str, ModelSpec], str | None]:
    """Make a function that says why a model's key must not be sent to its server, or returns None."""
    permits, config_file = user_config_permits(environ), str(user_config_file(environ))
    return lambda name, model: permits.refusal(name, model, config_file)


def parse_model_specs(data: Any, checker: Checker) -> dict[str, ModelSpec]:
    """Build the models from the tables `[models.NAME]`."""
    if not isinstance(data, dict):
        checker.add_fault(("models",), "must be tables, as in [models.NAME]")
        return {}
    models = {
        name: checker.read_table(ModelSpec, _drop_secrets(table, ("models", name), checker), ("models", name))
        for name, table in data.items()
    }
    for name, model in models.items():
        if model is not WRONG:
            for key, message in _faults(model):
                checker.add_fault(("models", name, key), message)
    return models


def _drop_secrets(table: Any, path: KeyPath, checker: Checker) -> Any:
    """Remove API keys from the table; each is noted as a fault of its own instead of as an unknown key."""
    if not isinstance(table, dict):
        return table
    keys = [name for name in table if name == "key" or re.fullmatch(_SECRET_NAME, name)]
    for name in keys:
        checker.add_fault(
            (*path, name), "must not be in a file: set the provider's usual variable, or name one in `key_env`"
        )
    return {name: value for name, value in table.items() if name not in keys}


def check_roles(
    roles: Roles,
    verifier: VerifierSpec,
    proposer: PluginChoice,
    known: Collection[str],
    checker: Checker,
) -> None:
    """Check that every role in use names a known model, and that only the user role has limits per trial."""
    for role in (Role.EVOLVER, Role.VERIFIER):
        for limit in ("trial_tokens", "trial_money_usd"):
            if getattr(roles.of(role), limit) is not None:
                checker.add_fault(
                    ("roles", role, limit), "is only for [roles.user]: trials call no other role's model"
                )
    _check_further_models(roles, checker)
    named: list[tuple[KeyPath, str]] = [(("roles", role, "model"), roles.of(role).model) for role in Role]
    named += [(("roles", role, "models", name), name) for role in Role for name in roles.of(role).models]
    for path, model in named:
        provider, colon, provider_model = model.partition(":")
        if not model or model in known:
            continue
        if not (provider and colon and provider_model):
            hint = f"known are {', '.join(known)}; " if known else ""
            checker.add_fault(
                path,
                f"is {model!r}, which is not a known model: {hint}add [models.{model}], or use provider:model",
            )
        elif problem := _provider_problem(provider):
            checker.add_fault(path, f"is {model!r}, but {problem}")
    if not roles.evolver.model:
        for path, kind in proposer_kinds(proposer):
            if kind in MODEL_PROPOSERS:
                checker.add_fault(path, f"is {kind}, which needs a model: {_remedy(Role.EVOLVER)}")
    for index, metric in enumerate(verifier.judged):
        # The file is read, and one that an earlier trial left is deleted: it must not be anywhere else.
        if not re.fullmatch(_ARTIFACT_NAME, metric.artifact) or not is_clean_path(metric.artifact):
            path = ("verifier", "judged", index, "artifact")
            checker.add_fault(
                path, "must be a file name of the form task_NAME.json: no other file in $EVO_TRACES_DIR is kept"
            )
    if not roles.verifier.model and (key := verifier_use(verifier)):
        checker.add_fault(("verifier", key), f"needs a model: {_remedy(Role.VERIFIER)}")


def check_shares(roles: Roles, pools: Pools, checker: Checker) -> None:
    """Check that the shares of the roles are parts of one whole; adaptive ones start from stated shares."""
    for name, share in roles.shares.items():
        if name not in [role.value for role in Role]:
            checker.add_fault(("roles", "shares", name), f"is no role: name {', '.join(Role)}")
        elif not 0 < share <= 1:
            checker.add_fault(("roles", "shares", name), f"is {share:g}: a share is more than 0 and at most 1")
    if roles.shares and pools.tokens is None and pools.money_usd is None:
        checker.add_fault(("roles", "shares"), "divide tokens or money_usd of [budget]: set one of them")
    if sum(roles.shares.values()) > 1 + 1e-9:
        checker.add_fault(("roles", "shares"), "add up to more than 1: they are parts of one budget")
    if roles.allocation == "adaptive" and not roles.shares:
        checker.add_fault(
            ("roles", "allocation"), "needs shares to start from, as in shares = { evolver = 0.7, verifier = 0.3 }"
        )


def _check_further_models(roles: Roles, checker: Checker) -> None:
    for role in Role:
        budget = roles.of(role)
        if budget.models and not budget.model:
            checker.add_fault(("roles", role, "models"), 'comes beside a first model: add model = "…"')
        for name, weight in budget.models.items():
            if not 0 <= weight < float("inf"):
                checker.add_fault(("roles", role, "models", name), f"is {weight}: a weight is 0 or more")


def _with_absolute_file(model: ModelSpec, folder: Path) -> ModelSpec:
    """Make the model's file path absolute: a task would look for a relative one in its own repository."""
    file = model.file and str(folder / Path(model.file).expanduser())
    return replace(model, file=file)


def _provider_problem(provider: str) -> str | None:
    # Most tasks that a verb reads name no model.
    from loopty.models.keys import provider_problem

    return provider_problem(provider)


def _faults(model: ModelSpec) -> Iterator[tuple[str, str]]:
    """Yield the faults of a model that its types do not show: key and message."""
    if model.url and not _is_address(model.url):
        # The message leaves the value out: it may hold a password.
        yield "url", "must be an address like https://HOST/v1, without user name, password, query or fragment"
    for name in model.settings:
        if re.fullmatch(_SECRET_NAME, name):
            yield "settings", f"holds {name!r}: keys must not be in a file; name the variable in `key_env`"
        elif name in _SET_BY_LOOPTY:
            yield "settings", f"holds {name!r}, which loopty sets itself: use `model` and `max_output_tokens`"
    file_meaning = _FILE_MEANINGS.get(model.provider)
    if not model.provider:
        yield "provider", "is empty: name who serves the model, such as openai, anthropic or google"
    elif problem := _provider_problem(model.provider):
        yield "provider", f"is unknown: {problem}"
    elif file_meaning and not model.file:
        yield "file", f"is missing: {file_meaning}"
    elif model.provider not in _FILE_MEANINGS and not model.model:
        yield "model", "is missing: the provider's name for the model"
    prices = {"input_usd": model.input_usd, "output_usd": model.output_usd}
    if None in prices.values() and {*prices.values(), model.cached_usd} != {None}:
        missing = next(key for key, price in prices.items() if price is None)
        yield missing, "is missing: give input_usd and output_usd together"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return has_host and "@" not in parts.netloc and not (parts.query or parts.fragment) and url.isprintable()


def proposer_kinds(proposer: PluginChoice) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the kind of the proposer, and of each rung of a ladder, with its key path."""
    yield ("proposer", "kind"), proposer.kind
    rungs = proposer.options.get("rungs")
    for index, rung in enumerate(rungs if isinstance(rungs, list) else ()):
        if isinstance(rung, dict):
            yield ("proposer", "rungs", index, "kind"), rung.get("kind")


def proposer_tables(proposer: PluginChoice) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield the options of the proposer, and of each rung of a ladder, with its kind."""
    yield ("proposer",), {**proposer.options, "kind": proposer.kind}
    rungs = proposer.options.get("rungs")
    for index, rung in enumerate(rungs if isinstance(rungs, list) else ()):
        if isinstance(rung, Mapping):
            yield ("proposer", "rungs", index), rung


def verifier_use(verifier: VerifierSpec) -> str | None:
    """Find the first key of `[verifier]` that needs the verifier's model, or return None."""
    used = {"review": verifier.review != "off", "judged": bool(verifier.judged)}
    return next((key for key, use in used.items() if use), None)


def _remedy(role: Role) -> str:
    return f'name one, as in [roles.{role}] model = "…"'


def idle_roles(task: Task) -> Mapping[Role, str]:
    """List the roles whose settings have no effect, each with the reason and the remedy."""
    has_agent = any(kind == AGENT_PROPOSER for _, kind in proposer_kinds(task.proposer))
    reasons = {Role.EVOLVER: _evolver_idle_reason(task), Role.VERIFIER: _verifier_idle_reason(task)}
    messages: dict[Role, str] = {}
    for role in Role:
        budget = task.roles.of(role)
        if budget.model and (reason := reasons.get(role)):
            messages[role] = f"the {role} has model {budget.model}, but {reason}"
        elif not budget.model and budget != RoleBudget() and not (has_agent and role is Role.EVOLVER):
            messages[role] = f'[roles.{role}] names no model, so its settings have no effect: add model = "…"'
    return messages


def _evolver_idle_reason(task: Task) -> str | None:
    """Say why nothing calls the evolver's model, or None. Other packages' proposers get no model to call."""
    if any(kind in (*MODEL_PROPOSERS, AGENT_PROPOSER) for _, kind in proposer_kinds(task.proposer)):
        return None
    kind = task.proposer.kind
    unused = "no rung of the ladder calls it" if kind == "ladder" else f"the proposer {kind} calls no model"
    return f"{unused}: set the kind of the proposer, or of a rung, to {' or '.join(MODEL_PROPOSERS)}"


def _verifier_idle_reason(task: Task) -> str | None:
    """Say why nothing calls the verifier's model, or return None."""
    used = verifier_use(task.verifier)
    return None if used else "nothing calls it: set review or judged under [verifier]"


def agent_tables(proposer: PluginChoice) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield the options of each coding agent, with those that it shares with others, and where they are."""
    for path, options in proposer_tables(proposer):
        if options.get("kind") == AGENT_PROPOSER:
            yield from member_tables(path, options)


def member_tables(path: KeyPath, options: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield the agents of one proposer."""
    members = options.get("agents")
    if not isinstance(members, list) or not members:
        yield path, options
        return
    from loopty.proposers.agent.driver import OF_ONE_AGENT

    shared = {name: value for name, value in options.items() if name not in OF_ONE_AGENT}
    for index, member in enumerate(members):
        if isinstance(member, Mapping):
            yield (*path, "agents", index), {**shared, **member}


def check_agents(options: Mapping[str, Any], path: KeyPath, options_type: type[Any], checker: Checker) -> None:
    """Check that each agent is known, can start, and has a name of its own."""
    from loopty.proposers.agent.driver import AGENTS, BY_COMMAND

    names: list[str] = []
    for place, member in member_tables(path, options):
        agent = member.get("agent", "")
        if place != path:
            _check_member(options["agents"][place[-1]], place, options_type, checker)
        if not isinstance(agent, str) or agent not in AGENTS:
            known = ", ".join(AGENTS)
            fault = f"must be one of {known}, not {agent!r}" if agent else f"is missing: name one of {known}"
            checker.add_fault((*place, "agent"), fault)
        elif agent in BY_COMMAND and not member.get("command"):
            checker.add_fault(
                (*place, "command"), 'is missing: name the command of the agent, as in command = "…"'
            )
        name = member.get("name") or agent
        if name in names:
            checker.add_fault((*place, "name"), f"is {name!r} for two agents: give each its own name")
        names.append(name)


def _check_member(table: Mapping[str, Any], path: KeyPath, options_type: type[Any], checker: Checker) -> None:
    checker.read_table(options_type, table, path)
    if "agents" in table:
        checker.add_fault((*path, "agents"), "is a list of agents inside another one: write them all in one")
