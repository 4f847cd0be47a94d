"""Keys of models: where they come from, which provider and server each belongs to, and which servers the user lets
have them.
"""

from __future__ import annotations

import difflib
import importlib.util
import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec
from loopty.kit.installation import extra_command
from loopty.kit.records import Record, field

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
    """Return the key of the model with this name, or None if it needs none. Raises Misuse with the remedy."""
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
    """List the environment variables that may hold the key."""
    if spec.key_env:
        return (spec.key_env,)
    # `openai-responses` and similar names share the key of the provider before the dash.
    family = "openai" if spec.provider.startswith("openai-") else spec.provider
    return _USUAL_VARIABLES.get(family, (f"{family.upper().replace('-', '_')}_API_KEY",))


def key_location(spec: ModelSpec) -> str:
    """Say where the user can correct a refused key."""
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


_PORTS = {"http": 80, "https": 443}
_FOR_LOOPTY = "LOOPTY"


class Permits(Record):
    """Models and keys in the user's own configuration."""

    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Models that the user defines: their keys may go to the servers they name."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The servers to which a task may send a variable or a keyring entry, by its name."""

    def refusal(self, name: str, spec: ModelSpec, config_file: str) -> str | None:
        """Say why this model's key may not be sent, with the remedy, or None; `config_file` is the user's."""
        if self.models.get(name) == spec:
            return None
        places = (*key_variables(spec), *([spec.keyring] if spec.keyring else []))
        to_provider = _goes_to_provider(spec)
        server = spec.provider if to_provider else _origin(spec.url)
        for place in places:
            is_own_key = to_provider and _is_named_after(place, spec.provider)
            if not is_own_key and server not in self._servers(place):
                return (
                    f"model '{name}' would send {place} to {server}, and a task file may come from anybody: "
                    f'to allow it, add {_toml_key(place)} = "{server}" under [keys] in {config_file}, '
                    "or define the model there"
                )
        return None

    def _servers(self, place: str) -> set[str]:
        """Providers by name, other servers by scheme, host and port, whatever path follows."""
        allowed = self.keys.get(place, ())
        return {*allowed, *map(_origin, allowed)} - {""}


def _goes_to_provider(spec: ModelSpec) -> bool:
    """Say whether the key goes to the provider itself, over https."""
    parts = urlsplit(spec.url)
    home = host_of(PROVIDER_URLS.get(spec.provider, ""))
    host = parts.hostname or ""
    return not spec.url or (parts.scheme == "https" and bool(home) and f".{host}".endswith(f".{home}"))


def _is_named_after(place: str, provider: str) -> bool:
    """Say whether the name of a variable or keyring entry marks it as a key for this provider or loopty."""
    usual = key_variables(ModelSpec(provider))
    words = {provider.split("-")[0], _FOR_LOOPTY, *(name.partition("_")[0] for name in usual)}
    return place in usual or any(word.upper() in re.split(r"[^A-Z0-9]+", place.upper()) for word in words)


def _origin(url: str) -> str:
    """Scheme, host and port of an address; empty when it is not an address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in _PORTS or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, _PORTS[parts.scheme]) else "")


def _toml_key(place: str) -> str:
    return place if place.replace("_", "").isalnum() else f'"{place}"'


_NAMES = (
    "alibaba",
    "anthropic",
    "azure",
    "bedrock",
    "cerebras",
    "cohere",
    "deepseek",
    "fireworks",
    "github",
    "google",
    "google-cloud",
    "groq",
    "heroku",
    "huggingface",
    "litellm",
    "meta",
    "mistral",
    "moonshotai",
    "nebius",
    "ollama",
    "openai",
    "openai-chat",
    "openai-responses",
    "openrouter",
    "ovhcloud",
    "recorded",
    "sambanova",
    "scripted",
    "snowflake",
    "together",
    "vercel",
    "vllm",
    "xai",
    "zai",
)
"""Names that are known without importing the client library, which takes a second."""


def provider_problem(name: str) -> str | None:
    """Say that no provider has this name, with the remedy; return None when one has it or may have it."""
    return None if name in _NAMES or _is_in_library(name) else unknown_provider_message(name)


def unknown_provider_message(name: str) -> str:
    close = _close_names(name)
    server = 'a server that speaks OpenAI\'s chat API is provider = "openai" with its `url`'
    remedy = f"did you mean '{close[0]}'?" if close else server
    return f"no provider is called '{name}'; {remedy}"


def _is_in_library(name: str) -> bool:
    """Say whether the client library knows the name; without the library, whether it might."""
    if importlib.util.find_spec("pydantic_ai") is None:
        return not _close_names(name)
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        return True  # its dependencies are not installed
    return True


def _close_names(name: str) -> list[str]:
    """List the known name that is closest to this one, if one is close."""
    return difflib.get_close_matches(name.lower(), _NAMES, n=1)


PROVIDER_URLS = {
    "anthropic": "https://api.anthropic.com",
    "cerebras": "https://api.cerebras.ai/v1",
    "deepseek": "https://api.deepseek.com",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "google": "https://generativelanguage.googleapis.com",
    "groq": "https://api.groq.com/openai/v1",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "together": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
}
"""The providers' own addresses; those of OpenAI-compatible APIs include the version."""
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""


def is_on_loopback(url: str) -> bool:
    """Say whether the address is on this machine."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_private(url: str) -> bool:
    """Say whether the address is on this machine or in a private network."""
    host = host_of(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_PRIVATE_SUFFIXES))
    return address.is_private or address.is_loopback or address.is_link_local
