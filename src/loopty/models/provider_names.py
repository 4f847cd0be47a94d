"""Names of providers: an unknown name is reported before anything else that is missing."""

from __future__ import annotations

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
    """A sentence that no provider has this name, with the remedy; None when one has it or may have it."""
    return None if name in _NAMES or _is_in_library(name) else unknown_provider_message(name)


def unknown_provider_message(name: str) -> str:
    close = _close_names(name)
    server = 'a server that speaks OpenAI\'s chat API is provider = "openai" with its `url`'
    remedy = f"did you mean '{close[0]}'?" if close else server
    return f"no provider is called '{name}'; {remedy}"


def _is_in_library(name: str) -> bool:
    """Whether the client library knows the name; without the library, whether it might."""
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
    """The known name that is closest to this one, if one is close."""
    import difflib

    return difflib.get_close_matches(name.lower(), _NAMES, n=1)
