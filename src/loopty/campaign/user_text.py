"""Text that a person typed, checked before it becomes part of the record."""

from __future__ import annotations

from loopty.domain.errors import Misuse

_LONGEST = 4_000
"""Characters: a directive is part of every prompt and must leave room for the rest; a reason is one line."""


def parse_text(text: str, name: str) -> str:
    """The text without blanks around it. Raises Misuse when it is too long, or no text in this encoding."""
    stripped = text.strip()
    if len(stripped) > _LONGEST:
        raise Misuse(f"the {name} has {len(stripped):,} characters, more than {_LONGEST:,}: shorten it")
    try:
        stripped.encode()
    except UnicodeEncodeError:
        raise Misuse(f"the {name} is not valid text in this terminal's encoding: type it again") from None
    return stripped


def parse_reason(text: str) -> str:
    """The reason for a change of a verdict, in one line. Raises Misuse when there is none."""
    reason = " ".join(parse_text(text, "reason").split())
    if not reason:
        raise Misuse("say why the verdict changes: --why TEXT; it stays in the record")
    return reason
