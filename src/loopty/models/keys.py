"""Keys of models: read from the environment or the keyring, never from the task file, and hidden in texts."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec
from loopty.kit.own_installation import extra_command
from loopty.models.hosts import is_private
from loopty.models.provider_names import provider_problem

_USUAL_VARIABLES = {
    "alibaba": ("DASHSCOPE_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "heroku": ("HEROKU_INFERENCE_KEY",),
    "snowflake": ("SNOWFLAKE_TOKEN",),
}
"""The variables of providers that do not name theirs after themselves."""
_KEYLESS = ("litellm", "ollama", "vllm")
_SHORTEST = 8
"""Shorter keys are placeholders for servers that want none (`none`, `x`); removing them would garble texts."""
_HIDDEN = "[key]"


def key_of(name: str, spec: ModelSpec, environ: Mapping[str, str]) -> str | None:
    """The key of the model with this name, or None when it needs none. Raises Misuse with the remedy."""
    if is_private(spec.url) and not (spec.key_env or spec.keyring):
        # A provider's key is not for a server that merely speaks the provider's API.
        return None
    variables = key_variables(spec)
    for variable in variables:
        if key := environ.get(variable, "").strip():
            return _valid_key(key, variable)
    if spec.keyring:
        return _valid_key(_from_keyring(name, spec), f"the keyring entry {spec.keyring}")
    if spec.provider in _KEYLESS:
        return None
    if problem := provider_problem(spec.provider):
        raise Misuse(f"model '{name}': {problem}")
    raise Misuse(
        f"model '{name}' needs a key: set {' or '.join(variables)}, "
        f"or name another variable in its `key_env` or an entry in its `keyring`"
    )


def key_variables(spec: ModelSpec) -> tuple[str, ...]:
    """The environment variables that may hold the key."""
    if spec.key_env:
        return (spec.key_env,)
    # `openai-responses` and similar names share the key of the provider before the dash.
    family = "openai" if spec.provider.startswith("openai-") else spec.provider
    return _USUAL_VARIABLES.get(family, (f"{family.upper().replace('-', '_')}_API_KEY",))


def key_location(spec: ModelSpec) -> str:
    """Where the user can correct a refused key."""
    place = " or ".join(key_variables(spec))
    return f"{place}, or in the keyring under {spec.keyring}" if spec.keyring else place


def is_secret(key: str | None) -> bool:
    return key is not None and len(key) >= _SHORTEST


def without_key(text: str, key: str | None) -> str:
    return text.replace(key, _HIDDEN) if key is not None and is_secret(key) else text


def bytes_without_key(data: bytes, key: str | None) -> bytes:
    return data.replace(key.encode(), _HIDDEN.encode()) if key is not None and is_secret(key) else data


def _from_keyring(name: str, spec: ModelSpec) -> str:
    service, slash, user = spec.keyring.partition("/")
    if not (service and slash and user):
        raise Misuse(f"`keyring` of model '{name}' must be `service/user`, not {spec.keyring!r}")
    instead = f"set {key_variables(spec)[0]} instead"
    try:
        import keyring
        import keyring.errors
    except ImportError:
        raise Misuse(
            f"model '{name}' has its key in a keyring: {instead}, or run {extra_command('keyring')}"
        ) from None
    try:
        key = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise Misuse(f"cannot read the system's keyring ({type(error).__name__}): {instead}") from None
    if not key or not key.strip():
        raise Misuse(
            f"the keyring has no key for model '{name}': keyring set {service} {user}, or {instead}"
        ) from None
    return key.strip()


def _valid_key(key: str, place: str) -> str:
    # A header cannot carry other characters, and the error about it would quote the key.
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise Misuse(f"{place} has characters that no key has: look for quotes, blanks or line breaks in it")
    return key
