"""Texts as vectors, from a model that embeds: asked, paid and kept like every other model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.model import Message, Model, ModelSpec, Outage, Prompt, Reply, RoleModel, Speaker, Usage
from loopty.kit.token_count import byte_size, tokens
from loopty.models.client_faults import BrokenReply, fault_of
from loopty.models.client_prompts import encodable_text
from loopty.models.hosts import PROVIDER_URLS
from loopty.models.http import close_answers, http_client

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel as LibraryModel

OPERATOR = "embed"
_LIKE_OPENAI = PROVIDER_URLS.keys() - {"anthropic", "google"}
_NO_KEY = "no-key-needed"
_AT_ONCE = 16
"""Texts of one request: more than a few dozen are refused by some servers."""
_SEEN_TOKENS, _BYTES_PER_TOKEN = 8_192, 2
"""What embedding models see at once, and how dense code can be: what is longer they judge by its beginning."""
_LONGEST_ANSWER = 16_000_000
_FAILURES_UNTIL_GIVEN_UP = 3
"""In a row; from then on this process asks for none."""
_DIGITS = 7
"""That a number of a vector has, as the models compute."""
_LARGEST = 1e100
"""Of these numbers: products of larger ones would be infinite."""


class Embedder:
    """Gives a vector for each text, or None where they cannot be had now: nobody is to stop for want of them."""

    def __init__(self, role_model: RoleModel, stated: ModelSpec) -> None:
        self._role_model = role_model
        self._longest = _BYTES_PER_TOKEN * min(stated.window_tokens, _SEEN_TOKENS)
        self._failures = 0
        """In a row."""

    async def __call__(self, texts: Sequence[str]) -> list[list[float]] | None:
        if self._failures >= _FAILURES_UNTIL_GIVEN_UP or any(byte_size(text) > self._longest for text in texts):
            return None
        vectors: list[list[float]] = []
        try:
            for start in range(0, len(texts), _AT_ONCE):
                vectors += await self._ask(texts[start : start + _AT_ONCE])
        except Exhausted:
            return None
        except (Outage, BrokenReply):
            self._failures += 1
            return None
        self._failures = 0
        return vectors

    async def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        prompt = Prompt("", tuple(Message(Speaker.ASKER, text) for text in texts), max_output_tokens=0)
        answer = await self._role_model.ask(prompt, OPERATOR)
        try:
            return _valid_vectors(json.loads(answer.reply.text), len(texts))
        except ValueError:  # of a script: what a server says was looked at before
            raise BrokenReply("the reply is no JSON") from None


def make_embedding_model(name: str, stated: ModelSpec, key: Callable[[], str | None]) -> Model:
    """The model at the provider's endpoint for embeddings. Raises Misuse when it cannot be asked from here."""
    if stated.provider not in _LIKE_OPENAI:
        raise Misuse(
            f"model '{name}': {stated.provider} is not asked for embeddings: name a server that speaks OpenAI's "
            'API, with provider = "openai" and its `url`, or leave `embedding` out'
        )
    if not stated.model:
        raise Misuse(f"model '{name}' has no `model`: state what {stated.provider} calls it")
    try:
        return _EmbeddingModel(stated, key())
    except ImportError:
        raise Misuse(f"model '{name}' needs the client library: pip install 'loopty[models]'") from None


class _EmbeddingModel:
    """Replies to each turn of a prompt with a vector, all of them as one JSON text."""

    def __init__(self, stated: ModelSpec, key: str | None) -> None:
        self.name = f"{stated.provider}:{stated.model}"
        self._stated = stated
        self._key = key
        self._library = _library_model(stated, key)

    async def reply(self, prompt: Prompt) -> Reply:
        texts = [encodable_text(turn.text) for turn in prompt.messages]
        counted = Usage(sum(map(tokens, texts)))
        try:
            async with asyncio.timeout(self._stated.timeout_seconds), close_answers():
                result = await self._library.embed(
                    texts, input_type="document", settings={"extra_body": dict(self._stated.settings)}
                )
            vectors = _valid_vectors(result.embeddings, len(texts))
        except Exception as error:  # noqa: BLE001 - what a server sends can raise anything in its client
            fault = fault_of(error, self._stated, self._key, counted)
        else:
            used = Usage(result.usage.input_tokens)
            return Reply(json.dumps(vectors), used if used.tokens else counted)
        # Out of the handler: the error of the client may quote the key, and would travel along as the context.
        raise fault


def _library_model(stated: ModelSpec, key: str | None) -> LibraryModel:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(
        base_url=stated.url or PROVIDER_URLS[stated.provider],
        api_key=key or _NO_KEY,
        max_retries=0,  # they are counted, paid and waited for elsewhere
        http_client=http_client(httpx2, _LONGEST_ANSWER, stated.timeout_seconds),
    )
    return OpenAIEmbeddingModel(stated.model, provider=OpenAIProvider(openai_client=client))


def _valid_vectors(vectors: Any, count: int) -> list[list[float]]:
    """The vectors as they are kept. Raises Broken where they are not so many, of one length, and of numbers."""
    if not isinstance(vectors, Sequence) or len(vectors) != count:
        raise BrokenReply(f"the reply does not hold a vector for each of {count} texts")
    if not all(isinstance(vector, Sequence) and vector and len(vector) == len(vectors[0]) for vector in vectors):
        raise BrokenReply("the reply holds vectors of different lengths")
    if not all(type(number) in (int, float) and abs(number) < _LARGEST for vector in vectors for number in vector):
        raise BrokenReply("the reply holds vectors that are not made of numbers")
    return [[float(f"{number:.{_DIGITS}g}") for number in vector] for vector in vectors]
