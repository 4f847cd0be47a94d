"""Keys are taken out of whatever is written down, told or passed on."""

from __future__ import annotations

_SHORTEST = 8
"""Shorter keys are stand-ins for servers that want none (`none`, `x`); to take them out would garble texts."""
_HIDDEN = "[key]"


def is_secret(key: str | None) -> bool:
    return key is not None and len(key) >= _SHORTEST


def without_key(text: str, key: str | None) -> str:
    return text.replace(key, _HIDDEN) if key is not None and is_secret(key) else text


def bytes_without_key(data: bytes, key: str | None) -> bytes:
    return data.replace(key.encode(), _HIDDEN.encode()) if key is not None and is_secret(key) else data
