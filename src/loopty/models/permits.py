"""Which servers may get which keys: a task file may come from anybody, so only the user decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from loopty.domain.model import ModelSpec
from loopty.kit.records import Record, field
from loopty.models.hosts import PROVIDER_URLS, host_of
from loopty.models.keys import key_variables

_PORTS = {"http": 80, "https": 443}
_FOR_LOOPTY = "LOOPTY"


class Permits(Record):
    """Models and keys in the user's own configuration."""

    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Models that the user defines: their keys may go to the servers they name."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The servers to which a task may send a variable or a keyring entry, by its name."""

    def refusal(self, name: str, spec: ModelSpec, config_file: str) -> str | None:
        """Why the key of this model may not be sent, with the remedy, or None; `config_file` is the user's own."""
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
    """Whether the key goes to the provider itself, over https."""
    parts = urlsplit(spec.url)
    home = host_of(PROVIDER_URLS.get(spec.provider, ""))
    host = parts.hostname or ""
    return not spec.url or (parts.scheme == "https" and bool(home) and f".{host}".endswith(f".{home}"))


def _is_named_after(place: str, provider: str) -> bool:
    """Whether the name of a variable or keyring entry marks it as a key for this provider, or for loopty."""
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
