"""Where the key to a model comes from: the environment, or the system's keyring; never the task file."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec
from loopty.models.hosts import is_private
from loopty.models.provider_names import provider_problem

_USUAL = {
    "alibaba": ("DASHSCOPE_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "heroku": ("HEROKU_INFERENCE_KEY",),
    "snowflake": ("SNOWFLAKE_TOKEN",),
}
"""The variables of providers that do not name theirs after themselves."""
_KEYLESS = ("litellm", "ollama", "vllm")


def key_of(name: str, stated: ModelSpec, environ: Mapping[str, str]) -> str | None:
    """The key of the model with this name; None where none is needed. Raises Misuse with the remedy."""
    if is_private(stated.url) and not (stated.key_env or stated.keyring):
        # A key that was meant for a provider is not shown to a server that merely speaks like it.
        return None
    variables = key_variables(stated)
    for variable in variables:
        if key := environ.get(variable, "").strip():
            return _valid_key(key, variable)
    if stated.keyring:
        return _valid_key(_from_keyring(name, stated), f"the keyring entry {stated.keyring}")
    if stated.provider in _KEYLESS:
        return None
    if told := provider_problem(stated.provider):
        raise Misuse(f"model '{name}': {told}")
    raise Misuse(
        f"model '{name}' needs a key: set {' or '.join(variables)}, "
        f"or name another variable in its `key_env` or an entry in its `keyring`"
    )


def key_variables(stated: ModelSpec) -> tuple[str, ...]:
    """The environment variables that may hold the key."""
    if stated.key_env:
        return (stated.key_env,)
    # `openai-responses` and its like share the key of the provider before the dash.
    family = "openai" if stated.provider.startswith("openai-") else stated.provider
    return _USUAL.get(family, (f"{family.upper().replace('-', '_')}_API_KEY",))


def key_location(stated: ModelSpec) -> str:
    """Where a key that was refused is to be put right."""
    place = " or ".join(key_variables(stated))
    return f"{place}, or in the keyring under {stated.keyring}" if stated.keyring else place


def _from_keyring(name: str, stated: ModelSpec) -> str:
    service, slash, user = stated.keyring.partition("/")
    if not (service and slash and user):
        raise Misuse(f"`keyring` of model '{name}' is to be `service/user`, not {stated.keyring!r}")
    instead = f"set {key_variables(stated)[0]} instead"
    try:
        import keyring
        import keyring.errors
    except ImportError:
        raise Misuse(
            f"model '{name}' has its key in a keyring: pip install 'loopty[keyring]', or {instead}"
        ) from None
    try:
        key = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise Misuse(f"the system's keyring cannot be read ({type(error).__name__}): {instead}") from None
    if not key or not key.strip():
        raise Misuse(
            f"the keyring has no key for model '{name}': keyring set {service} {user}, or {instead}"
        ) from None
    return key.strip()


def _valid_key(key: str, place: str) -> str:
    # A header cannot carry anything else, and what complains about it would quote the key.
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise Misuse(f"{place} holds characters that no key has: look for quotes, blanks or line breaks in it")
    return key
