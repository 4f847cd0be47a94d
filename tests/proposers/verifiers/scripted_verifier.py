"""A verifier that answers from a script, the prompts it was sent, and models of several sizes."""

import json
import re

import pytest

from loopty.domain.model import ModelSpec
from loopty.kit.model_text import tokens, tokens_of_data
from loopty.testing import fakes

MAX_TOKENS = ModelSpec("openai").prompt_tokens
"""Tokens of the longest prompt for a model of the usual size."""
SMALL_MAX_TOKENS = [ModelSpec("openai", context_tokens=window).prompt_tokens for window in (2048, 4096)]
"""The same for models with a very small context window."""
LONG_TEXTS = {
    "code": "+    value = compute(first, second)  # so it is\n" * 2_000,
    "numbers": "".join(f"+    {number}: {number**5 % 99991},\n" for number in range(2_000)),
    "one line": "+" + "abc 123 " * 5_000,
    "foreign": "+ 测量结果更好\n" * 2_000,
}
"""Changes that are too long for a small model."""

small_models = pytest.mark.parametrize("max_tokens", SMALL_MAX_TOKENS)
long_texts = pytest.mark.parametrize("long_text", LONG_TEXTS.values(), ids=LONG_TEXTS)


class ScriptedVerifier(fakes.ScriptedRoleModel):
    async def ask(self, prompt, operator, node=None, pool=None):
        assert pool is None, "the verifier's reply holds no proposal for a pool"
        return await super().ask(prompt, operator, node)

    @property
    def longest_prompt_tokens(self):
        """Tokens of the longest prompt, with the highest estimate for its fenced data."""
        return max(_tokens(prompt) for prompt in self.prompts)

    @property
    def first_prompt(self):
        """The text of the first prompt."""
        return self.prompts[0].messages[0].text


def fences(text):
    """The fenced parts of a prompt by label, and the text around them without these parts."""
    matches = re.findall(r'<(data-\w+) of="([^"]*)">\n(.*?)</\1>', text, re.DOTALL)
    around = re.sub(r"<(data-\w+) of=.*?</\1>", "", text, flags=re.DOTALL)
    return {label: body for _, label, body in matches}, around


def _tokens(prompt):
    parts = [tokens_of_data(body) for text in prompt.texts for body in fences(text)[0].values()]
    around = [fences(text)[1] for text in prompt.texts]
    return sum(parts) + sum(map(tokens, around)) + tokens(json.dumps(prompt.schema))
