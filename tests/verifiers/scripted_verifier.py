"""A line that answers from a script, as the verifier asks it, and what it was shown."""

import json
import re

import pytest

from loopty.domain.model import ModelSpec
from loopty.kit.token_count import tokens, tokens_of_data
from loopty.testing import fakes

MOST = ModelSpec("openai").prompt_tokens
"""Tokens of the longest prompt, for a model of the usual size."""
SMALL = [ModelSpec("local", context_tokens=seen).prompt_tokens for seen in (2048, 4096)]
"""For models that see next to nothing."""
WIDE = {
    "code": "+    value = compute(first, second)  # so it is\n" * 2_000,
    "numbers": "".join(f"+    {number}: {number**5 % 99991},\n" for number in range(2_000)),
    "one line": "+" + "abc 123 " * 5_000,
    "foreign": "+ 测量结果更好\n" * 2_000,
}
"""Changes that no small model sees whole."""

small_models = pytest.mark.parametrize("most", SMALL)
wide_texts = pytest.mark.parametrize("wide", WIDE.values(), ids=WIDE)


class ScriptedLine(fakes.ScriptedRoleModel):
    async def ask(self, prompt, operator, node=None, pool=None):
        assert pool is None, "what the verifier says is no proposal to be taken"
        return await super().ask(prompt, operator, node)

    @property
    def longest(self):
        """Tokens of the longest prompt, at the most that its fenced data can be."""
        return max(_tokens(prompt) for prompt in self.prompts)

    @property
    def shown(self):
        """What the first prompt said."""
        return self.prompts[0].messages[0].text


def fences(text):
    """The fenced parts of a prompt, by label; nothing of them is left in what is around them."""
    found = re.findall(r'<(data-\w+) of="([^"]*)">\n(.*?)</\1>', text, re.DOTALL)
    return {label: body for _, label, body in found}, re.sub(r"<(data-\w+) of=.*?</\1>", "", text, flags=re.DOTALL)


def _tokens(prompt):
    parts = [tokens_of_data(body) for text in prompt.texts for body in fences(text)[0].values()]
    around = [fences(text)[1] for text in prompt.texts]
    return sum(parts) + sum(map(tokens, around)) + tokens(json.dumps(prompt.schema))
