"""Texts as vectors, from an embedding model: metered and archived like every other model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.model import Message, Model, ModelSpec, Outage, Prompt, Reply, RoleModel, Speaker, Usage
from loopty.kit.own_installation import extra_command
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
_TEXTS_PER_REQUEST = 16
"""Some servers refuse more than a few dozen."""
_CONTEXT_TOKENS, _BYTES_PER_TOKEN = 8_192, 2
"""The context of embedding models, and how dense code can be: of a longer text they see only the beginning."""
_LONGEST_ANSWER = 16_000_000
_MAX_FAILURES = 3
"""In a row; after that this process asks for no more vectors."""
_DIGITS = 7
"""Significant digits of a vector's numbers: models compute no more."""
_LARGEST = 1e100
"""The largest number of a vector: products of larger ones would be infinite."""


class Embedder:
    """Gives a vector for each text, or None when vectors are unavailable: nothing stops for lack of them."""

    def __init__(self, role_model: RoleModel, spec: ModelSpec) -> None:
        self._role_model = role_model
        self._longest = _BYTES_PER_TOKEN * min(spec.context_tokens, _CONTEXT_TOKENS)
        self._failures = 0
        """Failed requests in a row."""

    async def __call__(self, texts: Sequence[str]) -> list[list[float]] | None:
        if self._failures >= _MAX_FAILURES or any(byte_size(text) > self._longest for text in texts):
            return None
        vectors: list[list[float]] = []
        try:
            for start in range(0, len(texts), _TEXTS_PER_REQUEST):
                vectors += await self._ask(texts[start : start + _TEXTS_PER_REQUEST])
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
        except ValueError:  # only a script can get here: a server's reply was checked before
            raise BrokenReply("the reply is not JSON") from None


def make_embedding_model(name: str, spec: ModelSpec, key: Callable[[], str | None]) -> Model:
    """The model at the provider's endpoint for embeddings. Raises Misuse when loopty cannot ask it."""
    if spec.provider not in _LIKE_OPENAI:
        raise Misuse(
            f"model '{name}': loopty cannot ask {spec.provider} for embeddings: name a server that speaks "
            'OpenAI\'s API, with provider = "openai" and its `url`, or leave out `embedding`'
        )
    if not spec.model:
        raise Misuse(f"model '{name}' has no `model`: give the name that {spec.provider} uses")
    try:
        return _EmbeddingModel(spec, key())
    except ImportError:
        raise Misuse(f"model '{name}' needs the client library: run {extra_command('models')}") from None


class _EmbeddingModel:
    """Replies with a vector for each message of a prompt, all of them as one JSON text."""

    def __init__(self, spec: ModelSpec, key: str | None) -> None:
        self.name = f"{spec.provider}:{spec.model}"
        self._spec = spec
        self._key = key
        self._library = _library_model(spec, key)

    async def reply(self, prompt: Prompt) -> Reply:
        texts = [encodable_text(message.text) for message in prompt.messages]
        counted = Usage(sum(map(tokens, texts)))
        try:
            async with asyncio.timeout(self._spec.timeout_seconds), close_answers():
                result = await self._library.embed(
                    texts, input_type="document", settings={"extra_body": dict(self._spec.settings)}
                )
            vectors = _valid_vectors(result.embeddings, len(texts))
        except Exception as error:  # noqa: BLE001 - a server's answer can raise anything in its client
            fault = fault_of(error, self._spec, self._key, counted)
        else:
            used = Usage(result.usage.input_tokens)
            return Reply(json.dumps(vectors), used if used.tokens else counted)
        # Raised outside the handler: the client's error may quote the key, and would stay attached as the context.
        raise fault


def _library_model(spec: ModelSpec, key: str | None) -> LibraryModel:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(
        base_url=spec.url or PROVIDER_URLS[spec.provider],
        api_key=key or _NO_KEY,
        max_retries=0,  # another layer counts, pays and waits for retries
        http_client=http_client(httpx2, _LONGEST_ANSWER, spec.timeout_seconds),
    )
    return OpenAIEmbeddingModel(spec.model, provider=OpenAIProvider(openai_client=client))


def _valid_vectors(vectors: Any, count: int) -> list[list[float]]:
    """The rounded vectors. Raises BrokenReply unless there are `count`, of one length, made of numbers."""
    if not isinstance(vectors, Sequence) or len(vectors) != count:
        raise BrokenReply(f"the reply does not have a vector for each of {count} texts")
    if not all(isinstance(vector, Sequence) and vector and len(vector) == len(vectors[0]) for vector in vectors):
        raise BrokenReply("the reply has vectors of different lengths")
    if not all(type(number) in (int, float) and abs(number) < _LARGEST for vector in vectors for number in vector):
        raise BrokenReply("the reply has vectors that are not made of finite numbers")
    return [[float(f"{number:.{_DIGITS}g}") for number in vector] for vector in vectors]
