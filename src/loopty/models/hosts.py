"""Addresses of model servers: a provider's, on this machine, or in a private network."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

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
    """Whether the address is on this machine."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_private(url: str) -> bool:
    """Whether the address is on this machine or in a private network."""
    host = host_of(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_PRIVATE_SUFFIXES))
    return address.is_private or address.is_loopback or address.is_link_local
