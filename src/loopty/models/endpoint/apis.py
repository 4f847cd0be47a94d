"""The ways to ask a model that are served."""

from __future__ import annotations

import enum

API_HEADERS = ("accept", "anthropic-version", "anthropic-beta", "openai-beta")
"""The headers that say how an API is to answer."""


class Api(enum.StrEnum):
    """A way to ask a model, by the path that clients use."""

    CHAT = "/v1/chat/completions"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"
    MESSAGES = "/v1/messages"
    GENERATE = "/v1beta/models/MODEL:generateContent"
