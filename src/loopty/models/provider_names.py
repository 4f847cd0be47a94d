"""Who serves models, by name: a name that nobody has is told as such, before what else is missing."""

from __future__ import annotations

import difflib
import importlib.util

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
    "local",
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
"""Those that need no look into the client library, which takes a second."""


def provider_problem(name: str) -> str | None:
    """That nobody of this name serves models, with the remedy; None where somebody does, or it cannot be told."""
    return None if name in _NAMES or _in_library(name) else unknown_provider_message(name)


def unknown_provider_message(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), _NAMES, n=1)
    server = 'a server that speaks OpenAI\'s chat API is provider = "openai" with its `url`'
    remedy = f"did you mean '{close[0]}'?" if close else server
    return f"no provider is called '{name}'; {remedy}"


def _in_library(name: str) -> bool:
    """Whether the client library knows it; without the library, whether it may."""
    if importlib.util.find_spec("pydantic_ai") is None:
        return not difflib.get_close_matches(name.lower(), _NAMES, n=1)
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        return True  # what it needs is not installed
    return True
