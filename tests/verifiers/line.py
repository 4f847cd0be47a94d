"""A line that answers from a script, as the verifier asks it, and what it was shown."""

import re

from loopty.testing import fakes


class ScriptedLine(fakes.ScriptedLine):
    async def ask(self, prompt, operator, node=None, pool=None):
        assert pool is None, "what the verifier says is no proposal to be taken"
        return await super().ask(prompt, operator, node)

    @property
    def shown(self):
        """What the first prompt said."""
        return self.prompts[0].turns[0].text


def fences(text):
    """The fenced parts of a prompt, by label; nothing of them is left in what is around them."""
    found = re.findall(r'<(data-\w+) of="([^"]*)">\n(.*?)</\1>', text, re.DOTALL)
    return {label: body for _, label, body in found}, re.sub(r"<(data-\w+) of=.*?</\1>", "", text, flags=re.DOTALL)
