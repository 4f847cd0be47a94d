"""The APIs that the endpoint serves."""

from __future__ import annotations

from enum import StrEnum

API_HEADERS = ("accept", "anthropic-version", "anthropic-beta", "openai-beta")
"""Request headers that select how an API answers."""


class Api(StrEnum):
    """An API to ask a model, by the path that clients use."""

    CHAT = "/v1/chat/completions"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"
    MESSAGES = "/v1/messages"
    GENERATE = "/v1beta/models/MODEL:generateContent"
