"""Which keys may go where: a task file may come from anybody, so it is the user who says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from loopty.domain.model import ModelSpec
from loopty.models.hosts import PROVIDER_URLS, host_of
from loopty.models.keys import key_variables

_PORTS = {"http": 80, "https": 443}
_FOR_LOOPTY = "LOOPTY"


@dataclass(frozen=True, slots=True)
class Permits:
    """What the user's own configuration says of models and keys."""

    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Those that the user states: their keys go where they say."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The servers to which a task may send a variable, or an entry of the keyring."""

    def refusal(self, name: str, stated: ModelSpec, config_file: str) -> str | None:
        """Why the key of this model may not be sent, with the remedy, or None; `where` is the user's own file."""
        if self.models.get(name) == stated:
            return None
        places = (*key_variables(stated), *([stated.keyring] if stated.keyring else []))
        at_home = _goes_to_provider(stated)
        server = stated.provider if at_home else _origin(stated.url)
        for place in places:
            meant = at_home and _is_named_after(place, stated.provider)
            if not meant and server not in self._servers(place):
                return (
                    f"model '{name}' would send {place} to {server}, and a task file may come from anybody: "
                    f'if you mean it, add {_toml_key(place)} = "{server}" under [keys] in {config_file}, '
                    "or state the model there"
                )
        return None

    def _servers(self, place: str) -> set[str]:
        """Providers by name, others by their address, however that goes on."""
        stated = self.keys.get(place, ())
        return {*stated, *map(_origin, stated)} - {""}


def _goes_to_provider(stated: ModelSpec) -> bool:
    """Whether the key goes to the provider itself, encrypted."""
    parts = urlsplit(stated.url)
    home = host_of(PROVIDER_URLS.get(stated.provider, ""))
    host = parts.hostname or ""
    return not stated.url or (parts.scheme == "https" and bool(home) and f".{host}".endswith(f".{home}"))


def _is_named_after(place: str, provider: str) -> bool:
    """Whether a variable, or an entry, is by its name a key to this provider, or one for loopty."""
    usual = key_variables(ModelSpec(provider))
    words = {provider.split("-")[0], _FOR_LOOPTY, *(name.partition("_")[0] for name in usual)}
    return place in usual or any(word.upper() in re.split(r"[^A-Z0-9]+", place.upper()) for word in words)


def _origin(url: str) -> str:
    """Scheme, host and port of an address; empty for what is none."""
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
